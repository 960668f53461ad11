"""What the page shows of a run and a patient: the stored comparison, who leaks most, and what is still missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.attacks.memorisation.own_values import own_hits
from core.evaluation import forgetting as figures
from core.pipeline import forgetting
from core.pipeline.forgetting import APPROXIMATE, PRIVATE, RETRAINED, Comparison
from core.runs.audits import ATTACKS_FILE
from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.session import gone, owner, resources

SHIPPED = Path(__file__).resolve().parents[3] / "assets/demo/forgetting"
OUT = "out"  # in the link: the patient to forget; Streamlit drops `patient` when Patients, which binds it, is left
SHOWN = "patient_shown"  # in the session: whom Patients' last card or Forget showed, of imported notes: no link does
PICKED = "forget_picked"  # in the session: the patient picked last of each run of a generated cohort, by the run's id
MOST_LISTED = 40  # patients in the list; any other id can be typed


@gone.drops
def _drop_gone(still: gone.Still) -> None:
    """Forget which patient was looked at, once notes of the viewer are gone: an id or a name may be a real one."""
    if still.lost:
        st.session_state.pop(SHOWN, None)
        if "patient" in st.session_state:  # what is typed on Patients
            st.session_state["patient"] = ""


def offered(runs: list[Run]) -> list[Run]:
    """Runs with weights that may forget a patient: those with a shipped comparison first, GPT-2 before others.

    So what one user compares does not change the model with which the page opens for others.
    """
    possible = [
        run
        for run in runs
        if run.has_model and not (run.spec.is_base or run.spec.privacy.private or run.spec.on_other_notes)
    ]
    return sorted(possible, key=lambda run: (not _shipped(run), run.spec.model.kind != "gpt2"))


def _shipped(run: Run) -> bool:
    """Whether a patient was taken out of this run, and the comparison is shipped."""
    return any(any(audit.glob(f"forget/*/{ATTACKS_FILE}")) for audit in owner.workspace().audit(run.id).shared)


def why_first(run: Run, runs: list[Run]) -> str:
    """Why the page opens with another model than other pages do; empty for a model without a shipped comparison.

    One that was made here changes no order. It may also have been cancelled before any model was unlearned.
    """
    if not _shipped(run) or all(map(_shipped, runs)):
        return ""
    return "Results of unlearning are stored for this model. Other models can forget a patient on this page."


def patients(run: Run) -> dict[str, int]:
    """Members by the number of the run's stored texts that hold a value of theirs alone, most first."""
    return _patients(str(run.folder), run)


@resources.cached_data(max_entries=16, show_spinner=False)
def _patients(folder: str, _run: Run) -> dict[str, int]:
    try:
        hits = _run.table("hits")
    except TableMissing:
        hits = pd.DataFrame(columns=["rule", "split", "kind", "patient_id", "generation_id"])
    hits = own_hits(hits, resources.shared_values(_run.spec.corpus, owner.workspace()))
    ours = hits[(hits["rule"] == "value") & (hits["split"] == "member") & (hits["kind"] != "coincidence")]
    texts = (
        ours.groupby("patient_id")["generation_id"].nunique().sort_index().sort_values(ascending=False, kind="stable")
    )
    found = {str(patient): int(count) for patient, count in texts.head(MOST_LISTED).items()}
    return found or {str(patient): 0 for patient in _members(_run)[:MOST_LISTED]}


def _members(run: Run) -> list[str]:
    known = owner.workspace().corpus(run.spec.corpus).patients
    return known.loc[known["split"] == "member", "patient_id"].astype(str).tolist()


def is_member(run: Run, patient: str) -> bool:
    """Whether the training may have read this patient's notes."""
    return patient in patients(run) or patient in set(_members(run))


def shown_before(run: Run) -> str:
    """The patient of imported notes who was looked at last, if this run's training may have read their notes."""
    patient = str(st.session_state.get(SHOWN, ""))
    return patient if patient and is_member(run, patient) else ""


def comparison(run: Run, patient: str) -> Comparison:
    """The runs that exist to compare with."""
    return forgetting.comparison(run, patient, owner.workspace())


def stored(run: Run, patient: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every stored arm in one row (`core.evaluation.forgetting.summary`), and the notes behind it."""
    kept = owner.workspace().audit(run.id).forgetting(patient)
    stamp = tuple((one.attack, one.finished) for one in kept.outcomes().values())
    return _stored(run.id, patient, stamp, kept)


@resources.cached_data(max_entries=16, show_spinner=False)
def _stored(run_id: str, patient: str, stamp: tuple, _kept: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    return figures.summary(_kept), _kept.table("standing")


def current(found: Comparison, table: pd.DataFrame, notes: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both without the arms that were measured on another run, or training, than the one that is compared with now."""
    now = {arm: run for arm, run in ((RETRAINED, found.retrained), (PRIVATE, found.private)) if run is not None}
    if table.empty:
        return table, notes
    old = [row.arm for row in table.itertuples() if row.arm in now and not _is_of(row, now[row.arm])]
    return table[~table["arm"].isin(old)], notes[~notes["arm"].isin(old)]


def _is_of(row: Any, run: Run) -> bool:
    """Whether a row of the comparison is about this training of the run."""
    training = getattr(row, "training", None)  # few comparisons have it; NaN in rows without
    return row.run_id == run.id and (training if isinstance(training, str) else None) == run.training


def missing(found: Comparison, there: pd.DataFrame) -> list[str]:
    """The arms that could be measured now and are not, and unlearned models that could not be asked anything."""
    possible = [*APPROXIMATE]
    possible += [RETRAINED] if found.retrained is not None else []
    possible += [PRIVATE] if found.private is not None else []
    arms = set() if there.empty else set(there["arm"])
    return [arm for arm in possible if arm not in arms or (arm in APPROXIMATE and not _can_answer(found, arm))]


def _can_answer(found: Comparison, arm: str) -> bool:
    return forgetting.weights_folder(owner.workspace(), found.run.id, found.patient, arm).is_dir()


def against_retrained(run: Run) -> dict[str, Any] | None:
    """The test against models trained again, which `bench/forgetting.py` made for a shipped run; None without one."""
    path = SHIPPED / f"{run.id}.json"
    return json.loads(path.read_text(encoding="utf-8")) if run.shipped and path.exists() else None
