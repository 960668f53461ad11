"""The views of the Canaries page, each drawn for the chosen runs (name → run), its own settings among the knobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.common.formatting import delta_text, proved_text, score_text
from core.corpus.canary_forms import FORMS, RANDOM, RANDOM_WORDS
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.evaluation.guarantee.step_audit import stored_proofs
from core.evaluation.memorisation.canaries import exposure_by_copies, race, whole_patients
from core.evaluation.memorisation.risk import CALIBRATED, OLD, SCORE, WEIGHTS
from core.runs.run import Run
from pages.parts.canaries import charts as canary_charts
from pages.parts.canaries import sentences
from pages.parts.canaries.generated_text import questions_view, words_view
from pages.parts.canaries.tables import audit_table, no_audit, together
from pages.parts.canaries.word_list import word_list_view
from pages.parts.common import chart_style, guess
from pages.parts.common.data_table import data_table
from pages.parts.common.phi_text import literal
from pages.parts.common.public_noise import caption_public_noise
from pages.parts.session import owner, resources

Found = TypeVar("Found")
SPACE_BITS = math.log2(1_000)  # a canary that ranks first of 1,000


def exposure_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Exposure against copies, by rank or fitted, for all forms or one."""
    fits = {name: audit_table(run, "exposures") for name, run in chosen.items()}
    lines = any((run.table("canaries")["form"] == RANDOM).any() for run in chosen.values())
    form = knobs.segmented_control(
        "Form of the secret",
        ["all", *FORMS, *([RANDOM] if lines else [])],
        default="all",
        required=True,
        key="form",
        help="H: an ordinary word, S: the secret. HSH is a secret between two ordinary words."
        + (f" Random: {RANDOM_WORDS} random words, planted once; “all” leaves them out." if lines else ""),
    )
    measures = ["rank"] if any(table.empty for table in fits.values()) else ["rank", "fitted curve"]
    measure = knobs.segmented_control(
        "Exposure by",
        measures,
        default="rank",
        required=True,
        key="measure",
        help="The rank among 1,000 possible secrets, or an estimate beyond 1,000 from a curve fitted to them.",
    )
    fitted = measure == "fitted curve"
    forms = FORMS if form == "all" else (form,)
    figures = {
        name: exposure_by_copies(
            fits[name] if fitted else run.table("canaries"),
            column="skew_exposure" if fitted else "exposure",
            forms=forms,
            most=None if fitted else SPACE_BITS,
        )
        for name, run in chosen.items()
    }
    subject = next(iter(chosen))
    answer = guess.first(
        f"How many copies of a secret does the model “{subject}” need before it remembers it?",
        ["1", "2", "4", "8", "it never remembers it"],
        key=f"copies-{chosen[subject].id}",
    )
    if answer is None:
        return
    guess.show_answer(answer, f"**{subject}**: {sentences.exposure_answer(figures[subject])}")
    chart_style.show(
        canary_charts.exposure(figures, most=None if fitted else SPACE_BITS),
        key="exposure-chart",
        alt="Exposure in bits against the number of copies planted, with the left-out canaries",
    )
    data_table(together(figures), name="canary-exposure")
    every = fits if fitted else {name: run.table("canaries") for name, run in chosen.items()}
    data_table(together(every), name="canaries", label="All canaries")
    sentences.how("exposure")


def race_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Exposure of three canaries during training."""
    races = {name: race(run.table("history"), run.table("canaries")) for name, run in chosen.items()}
    races = {name: table for name, table in races.items() if len(table)}
    if not races:
        which = "This model was not" if len(chosen) == 1 else "Neither model was"
        st.info(f"{which} trained for an epoch, so there is nothing to show. Choose a trained model.")
        return
    answer = guess.first(
        "Without privacy, after how many epochs does the model remember a secret that was planted once?",
        ["1", "2 or 3", "more", "never"],
        key=f"epochs-{chosen[next(iter(races))].id}",
    )
    if answer is None:
        return
    for number, (name, table) in enumerate(races.items()):
        guess.show_answer(answer if number == 0 else "", sentences.race_answer(name, table))
    chart_style.show(canary_charts.race(races), key="race-chart", alt="Exposure of three canaries after every epoch")
    st.caption("Each line is a single canary, so it is noisy: one with more copies can end below one with fewer.")
    data_table(together(races), name="canary-race")
    sentences.how("race")


def patients_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Whole canary patients: the rank of their name, and whether an ordinary text contains their identifiers."""
    people = {name: audit_table(run, "canary_patients") for name, run in chosen.items()}
    for name, table in people.items():
        if table.empty:
            no_audit(name)
    people = {name: table for name, table in people.items() if not table.empty}
    if not people:
        sentences.how("patients")
        return
    answer = guess.first(
        "An invented patient with three to five notes was planted in the training notes. Does the model rank their "
        "name first among 1,000 at its place in a note?",
        ["always", "about half the time", "hardly ever"],
        key=f"patients-{chosen[next(iter(people))].id}",
    )
    if answer is None:
        return
    for number, (name, table) in enumerate(people.items()):
        guess.show_answer(answer if number == 0 else "", sentences.patients_answer(name, table))
    chart_style.show(
        canary_charts.whole_patients(people),
        key="patients-chart",
        alt="Exposure in bits of every canary patient's name, planted and left out",
    )
    data_table(together({name: whole_patients(table) for name, table in people.items()}), name="canary-patients")
    data_table(together(people), name="every-canary-patient", label="All canary patients")
    sentences.how("patients")


@resources.cached_data(max_entries=60, show_spinner=False)
def bounds_table(folder: str, audited: float, _run: Run) -> pd.DataFrame:
    """The bounds of a run, from its full audit or else from its own tables. Neither changes after it has ended."""
    from core.evaluation.memorisation.summary import stored_bounds

    return stored_bounds(_run, owner.workspace().audit(_run.id))


@resources.cached_data(max_entries=60, show_spinner=False)
def risk_table(folder: str, audited: float, _run: Run) -> pd.DataFrame:
    """Both risk scores of a run, from its full audit or else from its own tables."""
    from core.evaluation.memorisation.risk import risk_scores

    stored = audit_table(_run, "risk")
    if not stored.empty:
        return stored
    return risk_scores(_run.metrics, _run.table("scores"), _run.table("canaries"), None, resamples=300)


def of_run(make: Callable[..., Found], run: Run) -> Found:
    """A cached table or figure of a run, computed again when another audit of it is stored."""
    latest = max((one.finished for one in owner.workspace().audit(run.id).outcomes().values()), default=0.0)
    return make(str(run.folder), latest, run)


def guarantee_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Proved and promised ε, with the ceiling of each audit."""
    answer = guess.first(
        "A coin decides for each of twelve canaries whether it is planted. An attacker guesses all twelve correctly. "
        "What lower bound on ε does that prove?",
        ["0.1", "1.3", "8", "any"],
        key="ceiling",
    )
    if answer is None:
        return
    from core.evaluation.memorisation.summary import delta_of

    delta = delta_of(next(iter(chosen.values())))
    proved = one_run_epsilon(canaries=12, guesses=12, correct=12, delta=delta)
    at = "" if delta == 0 else f" with δ = {delta_text(delta)}"
    guess.show_answer(
        answer,
        f"A coin decided for each of twelve canaries whether it is planted. Twelve right guesses of twelve would be "
        f"so unlikely at a small ε that they would prove ε ≥ {proved_text(proved)}{at}, at 95\u00a0% confidence.",
    )
    for number, (name, run) in enumerate(chosen.items()):
        st.header(name)
        table = of_run(bounds_table, run)
        sentences.bound_sentences(table, run.spec.privacy.unit)
        if not table.empty:
            chart_style.show(
                canary_charts.bounds(table), key=f"bounds-chart-{number}", alt=f"Proved and promised ε, {name}"
            )
            sentences.curve_sentence(table)
            data_table(table, name=f"bounds-{number}")
        if run.privacy is not None and run.spec.vocabulary is None:
            proofs = stored_proofs(owner.workspace().audit(run.id))
            sentences.planted(proofs, run.id)
            if len(proofs):
                data_table(proofs, name=f"planted-{number}", label="Planted gradients")
    caption_public_noise(chosen)
    sentences.how("guarantee")


def risk_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """The PrivAI-Leak report's score, as published and calibrated; two are compared if they have the same parts."""
    scores = {name: of_run(risk_table, run) for name, run in chosen.items()}
    missing = " ".join(sentence for name, run in chosen.items() for sentence in without(name, run, scores[name]))
    alike = len({parts_of(table) for table in scores.values()}) == 1
    if alike:
        answer = guess.first(
            "A published score counts leaks without a control. "
            + ("How far does it fall from the first model to the second?" if len(scores) > 1 else "How high is it?"),
            ["to nearly 0", "by half", "hardly at all"] if len(scores) > 1 else ["nearly 0", "about 0.3", "above 0.5"],
            key="-".join(["score", *(run.id for run in chosen.values())]),
        )
        if answer is None:
            return
        old, calibrated = (risk_sums(scores, version) for version in (OLD, CALIBRATED))
        guess.show_answer(
            answer,
            f"The published score, without controls, is {old}; it checks each text for a single patient and so misses "
            f"most leaks. With all patients checked and each control subtracted, it is {calibrated}.",
        )
    else:
        st.info(
            "These scores consist of different parts, with the weights of the remaining parts scaled up. Do not "
            f"compare them. {missing}",
            icon=":material/difference:",
        )
    chart_style.show(
        canary_charts.risk(scores),
        key="risk-chart",
        alt="Risk scores as published and with controls subtracted, by part",
    )
    if alike and missing:
        st.caption(f"{missing} The weights of the other parts are scaled up.")
    data_table(together(scores), name="risk")
    sentences.how("risk")


def parts_of(table: pd.DataFrame) -> frozenset[tuple[str, str]]:
    """The parts of a run's scores: version and part of every row except the sums."""
    parts = table[table["part"] != SCORE]
    return frozenset(zip(parts["version"], parts["part"], strict=True))


def risk_sums(scores: dict[str, pd.DataFrame], version: str) -> str:
    """`0.61 for “A” and 0.22 for “B”`: one version's score of every run."""
    rows = {name: table[(table["version"] == version) & (table["part"] == SCORE)] for name, table in scores.items()}
    return " and ".join(f"{score_text(row['value'].iloc[0])} for “{literal(name)}”" for name, row in rows.items())


def without(name: str, run: Run, table: pd.DataFrame) -> list[str]:
    """A sentence for every part that is missing in the run's scores, and whether an audit could add it."""
    there = parts_of(table)
    sentences_about = []
    for part in WEIGHTS:
        if {(OLD, part), (CALIBRATED, part)} <= there:
            continue
        said = f"“{name}” has no part “{canary_charts.PARTS[part][0]}”"
        if part != "memorisation":
            sentences_about.append(f"{said}: its tables lack the data for it.")
        elif run.spec.model.kind == "gpt2":
            sentences_about.append(f"{said}: no full audit has measured it.")
        else:
            sentences_about.append(f"{said}: it fills blanks and has no likeliest next token, so no audit measures it.")
    return sentences_about


VIEWS: dict[str, Callable[[dict[str, Run], DeltaGenerator], None]] = {
    "Copies": exposure_view,
    "Epochs": race_view,
    "Whole patients": patients_view,
    "Questions": questions_view,
    "Word for word": words_view,
    "Guarantee": guarantee_view,
    "Risk score": risk_view,
    "Word list": word_list_view,
}
