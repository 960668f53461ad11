"""What the Membership page shows for each run: scores of the full audit, or only the loss from the quick audit."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.attacks.battery import REGISTRY
from core.attacks.membership.scores import LOSS
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.membership.curve import curve
from core.evaluation.membership.lira_stability import Stability
from core.evaluation.membership.overlap import Overlap, overlap
from core.evaluation.membership.summary import membership
from core.evaluation.membership.units import Units, units
from core.pipeline import shadows
from core.runs.run import Run
from pages.parts.session import owner, resources

NEARLY_EVERY = 0.95  # share of the patients that an attack must have scored to be compared patient by patient
RESAMPLES = 300  # for a band on screen; the table of a full audit uses the run's own number


def access(attack: str) -> str:
    """The access that an attack needs: black-box, grey-box or white-box."""
    return REGISTRY[attack].access if attack in REGISTRY else "grey-box"


def described(attacks: Sequence[str]) -> pd.DataFrame:
    """Each attack in one sentence, the access it needs, its row in docs/methods/membership.md, and its cost."""
    known = [REGISTRY[name] for name in attacks if name in REGISTRY]
    return pd.DataFrame(
        {
            "attack": [one.name for one in known],
            "what it does": [one.sentence for one in known],
            "access": [one.access for one in known],
            "source": [one.source for one in known],
            "cost": [one.cost for one in known],
        }
    )


def scores(run: Run) -> pd.DataFrame:
    """The `scores` rows of a run's full audit; the loss scores of its quick audit if there is none."""
    audit = owner.workspace().audit(run.id)
    stamp = [(name, outcome.finished) for name, outcome in audit.outcomes().items()]
    return _scores(repr((run.id, stamp, str(run.folder))), run)  # one word: Streamlit would hash each part by itself


@resources.cached_object(max_entries=32, show_spinner=False)
def _scores(key: str, _run: Run) -> pd.DataFrame:
    found = owner.workspace().audit(_run.id).table("scores")
    if found.empty:
        quick = _run.table("scores")
        found = quick[quick["attack"] == LOSS].reset_index(drop=True)
    found.attrs["key"] = key
    return found


def attacks(run: Run) -> set[str]:
    """The attacks that scored notes of a run."""
    found = scores(run)
    return _attacks(found.attrs["key"], found)


@resources.cached_data(max_entries=64, show_spinner=False)
def _attacks(key: str, _scores: pd.DataFrame) -> set[str]:
    return set(_scores["attack"].unique())


def has_admissions(run: Run) -> bool:
    """Whether some patient of a run has notes of several admissions.

    Without any, an admission is its patient. So it is for uploaded notes without a column of admissions.
    """
    found = scores(run)
    return _has_admissions(found.attrs["key"], found)


@resources.cached_data(max_entries=64, show_spinner=False)
def _has_admissions(key: str, _scores: pd.DataFrame) -> bool:
    known = _scores[["patient_id", "admission_id"]].dropna().drop_duplicates()
    return bool(known["patient_id"].duplicated().any())


def complete_attacks(run: Run) -> list[str]:
    """The attacks that scored nearly every patient of a run whom the loss scored, in the battery's order."""
    found = scores(run)
    return _complete(found.attrs["key"], found)


def partial_attacks(run: Run) -> list[str]:
    """The attacks that scored only some of the patients of a run, in the battery's order."""
    made, complete = attacks(run), complete_attacks(run)
    return [name for name in REGISTRY if name in made and name not in complete]


@resources.cached_data(max_entries=64, show_spinner=False)
def _complete(key: str, _scores: pd.DataFrame) -> list[str]:
    judged = _scores[_scores["split"].isin(JUDGED_SPLITS)].groupby("attack")["patient_id"].nunique()
    most = judged.get(LOSS, judged.max() if len(judged) else 0)
    return [name for name in REGISTRY if judged.get(name, 0) >= NEARLY_EVERY * most > 0]


def overlap_of(run: Run, attacks: Sequence[str], accused: float) -> Overlap | None:
    """Which patients each of these attacks accuses if each may accuse the same share of the others."""
    found = scores(run)
    return _overlap(found.attrs["key"], tuple(attacks), accused, found)


@resources.cached_object(max_entries=32, show_spinner=False)
def _overlap(key: str, attacks: tuple[str, ...], accused: float, _scores: pd.DataFrame) -> Overlap | None:
    return overlap(_scores, list(attacks), accused=accused)


def shadow_patients(run: Run) -> pd.DataFrame:
    """How often LiRA catches each patient over the run's shadow models (`CAUGHT_COLUMNS`); empty without any."""
    return owner.workspace().audit(run.id).table("shadow_patients")


def stability_of(run: Run) -> Stability | None:
    """How much LiRA depends on the shadow models and the seed; None if there are not two models. Takes seconds."""
    workspace = owner.workspace()
    read = [
        (one.id, str(one.folder), [ended.finished for ended in workspace.audit(one.id).outcomes().values()])
        for one in (run, *shadows.of_other_seeds(run, workspace))
    ]
    return _stability(repr((read, sorted(shadows.made(run.spec, workspace)))), run)


@resources.cached_object(max_entries=16, show_spinner="Attacking with fewer and with other shadow models")
def _stability(key: str, _run: Run) -> Stability | None:
    return shadows.lira_stability(_run, owner.workspace())


def units_of(run: Run, attack: str, level: str, length: str) -> Units | None:
    """The scored units of one attack on one run; None if it was not run or has no such notes. Do not modify them."""
    found = scores(run)
    return _units(found.attrs["key"], attack, level, length, found)


@resources.cached_object(max_entries=64, show_spinner=False)
def _units(key: str, attack: str, level: str, length: str, _scores: pd.DataFrame) -> Units | None:
    rows = _scores[_scores["attack"] == attack]
    try:
        return units(rows, level, length) if len(rows) else None
    except ValueError:
        return None


def figures(run: Run, attacks: Sequence[str]) -> pd.DataFrame:
    """The `membership` rows of these attacks: from the run's full audit, or computed here if it has none.

    An audit that was stopped or is running has scores but no figures yet.
    """
    stored, found = owner.workspace().audit(run.id).table("membership"), scores(run)
    parts = [found.head(0).pipe(membership, resamples=1, seed=0)]  # the columns, without rows
    for attack in attacks:
        rows = stored[stored["attack"] == attack] if len(stored) else stored
        if rows.empty:
            rows = _quick_figures(found.attrs["key"], attack, found, run.spec.audit.seed)
        parts.append(rows)
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


@resources.cached_data(max_entries=256, show_spinner="Computing intervals")
def _quick_figures(key: str, attack: str, _scores: pd.DataFrame, seed: int) -> pd.DataFrame:
    return membership(_scores[_scores["attack"] == attack], resamples=RESAMPLES, seed=seed)


def roc_curve(run: Run, attack: str, level: str, length: str) -> pd.DataFrame | None:
    """The ROC curve with its band; None if members or others have no such notes."""
    found = scores(run)
    return _curve(found.attrs["key"], attack, level, length, found, run.spec.audit.seed)


@resources.cached_data(max_entries=256, show_spinner="Resampling patients")
def _curve(key: str, attack: str, level: str, length: str, _scores: pd.DataFrame, seed: int) -> pd.DataFrame | None:
    try:
        rows = _scores[_scores["attack"] == attack]
        return curve(units(rows, level, length), resamples=RESAMPLES, seed=seed)
    except ValueError:
        return None
