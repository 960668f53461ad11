"""A recommendation for a sweep, with its meaning for a patient and the attacks that were not tried.

`core.evaluation.sweep.recommendation` compares figures alone. This module finds the runs to compare (including those
that protect patients) and adds the sentences that need a run: what an ε per note promises to a patient with several
notes, and which command tries more attacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from core.corpus.tables import notes_by_patient
from core.evaluation import registry
from core.evaluation.guarantee.odds import patients_sentence
from core.evaluation.report.commands import audit_command
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import Recommendation, recommend
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.wording import perplexity_name, perplexity_text
from core.runs.run import Run
from core.runs.store import Workspace

AUC = "auc_strongest"  # the limit on membership by patient
BLIND = 0.5  # an AUC of guessing
SHOWN_ONLY = (
    "The noise came from a public seed, so anyone can subtract it: ε is shown, not promised. Before you release a "
    "model, train it again with the same settings and secret noise (on Train, or `--secret-noise`)."
)


def compared_runs(sweep: Sweep, known: Sequence[Sweep]) -> tuple[str, ...]:
    """Ids of the sweep's runs and, if it protects notes, of the runs per patient that differ in nothing else.

    Args:
        sweep: the sweep.
        known: all sweeps (`core.evaluation.sweep.sweeps.sweeps_of`); of several per patient, the one with most runs is
            used.
    """
    ids = set(sweep.run_ids)
    if sweep.training is not None and sweep.privacy.unit == "note":
        wanted = sweep.privacy.model_copy(update={"unit": "patient"})
        setting = (sweep.corpus, sweep.model, sweep.audit, wanted)
        same = [one for one in known if (one.corpus, one.model, one.audit, one.privacy) == setting]
        ids |= set(same[0].run_ids) if same else set()
    return tuple(sorted(ids))


def advise(
    workspace: Workspace, found: pd.DataFrame, limits: Limits, control: Interval | None = None
) -> Recommendation:
    """`recommend`, with its promise to a patient, how to try more attacks, and what usefulness is compared with.

    Args:
        workspace: the folder of runs and cohorts.
        found: the `measures` of the `compared_runs` of a sweep in `workspace`.
        limits: the reader's limits.
        control: AUC by patient of the loss attack on the public base model, if there is one.
    """
    made = recommend(found, limits)
    sentences = list(made.sentences)
    if made.unit:
        same = made.runs[(made.runs["epsilon"] == made.epsilon) & (made.runs["unit"] == made.unit)]
        run = workspace.run(made.run_id or same["run_id"].iloc[0])
        if run.noise_source == "public seed":
            sentences[0] = f"{sentences[0]} {SHOWN_ONLY}"
        if made.unit == "note":
            sentences[1:1] = promised_to_patients(workspace, run, made.runs)
        if untried(made):
            sentences.append(_how_to_audit(run))
    if control is not None and AUC in limits.risks:
        sentences.append(_beside_the_public_model(control, limits.risks[AUC]))
    plain = found.loc[found["epsilon"] == math.inf, "run_id"].unique()
    sentences += overfitted(workspace.run(plain[0]), len(plain)) if len(plain) else []
    return replace(made, sentences=tuple(sentences))


def promised_to_patients(workspace: Workspace, run: Run, runs: pd.DataFrame) -> list[str]:
    """What a run's ε per note promises to patients with the median and the most notes; why no ε per patient."""
    corpus = workspace.corpus(run.spec.corpus, store=False).without(run.spec.without)
    notes = notes_by_patient(corpus.training_notes(run.note_cap))
    if notes.max() == 1:
        return ["Every patient has one note, so this ε also holds for patients."]
    assert run.privacy is not None  # a run with unit “note” is private
    told = [
        "This ε is for one note, not for a patient. "
        f"{patients_sentence(run.privacy, max(1, math.ceil(notes.median())), int(notes.max()))}"
    ]
    if (runs["unit"] == "patient").any():
        return [*told, "The runs that protect whole patients do not meet your limits."]
    return [*told, "No run here protects whole patients. Train one with the unit “patient” (`--unit patient`)."]


def untried(made: Recommendation) -> bool:
    """Whether the limits on membership at the recommended ε were checked with the loss attack alone."""
    rows = made.table[(made.table["unit"] == made.unit) & (made.table["epsilon"] == made.epsilon)]
    judged = rows[rows["measure"].isin(registry.limits("strongest"))]
    return len(judged) > 0 and int(judged["attacks"].max()) <= 1


def _beside_the_public_model(control: Interval, limit: float) -> str:
    """The AUC that the two groups of patients have without any training, which may be below 0.5.

    Of few patients not even this interval meets the `limit` on a model's AUC, and no ε changes that.
    """
    value, low, high = (registry.measure_text(AUC, end) for end in (control.value, control.low, control.high))
    told = (
        f"The public model, which read none of these notes, has {registry.measure_name(AUC)} {value} ({low} to {high}) "
        "by the loss attack:"
    )
    if control.low <= BLIND <= control.high:
        told = f"{told} without training, it does not distinguish the groups."
        if control.high <= limit:
            return told
        few = "Even this interval reaches beyond your limit: these patients are too few to show that a model meets it."
        return f"{told} {few}"
    return f"{told} the groups differ by that much without any training."


def _how_to_audit(run: Run) -> str:
    if run.has_model:
        return f"The full audit is `{audit_command(run.id)}`."
    return (
        f"The weights of {run.id} are not stored here, so it cannot be attacked further. Run the full audit on the "
        "model that you train with these settings."
    )


def overfitted(plain: Run, runs: int = 1) -> list[str]:
    """A sentence that the run without privacy (100 % of the gain) is overfitted; none if its figures do not show it.

    Of several such `runs` it names the one that has these figures: their mean, which other pages show, is another.
    """
    rows = plain.metrics[plain.metrics["arm"] == "run"].set_index("metric")
    if not {"perplexity_member", "perplexity_heldout"} <= set(rows.index):
        return []
    own, heldout = rows.loc["perplexity_member"], rows.loc["perplexity_heldout"]
    if not own["high"] < heldout["low"]:
        return []
    name = perplexity_name(plain.spec.model.kind)
    figure = f"its {name}" if runs == 1 else f"the {name} of {plain.id}, one of {runs} seeds,"
    return [
        f"100 % of the gain is the run without privacy. It is overfitted: {figure} "
        f"is {perplexity_text(own['value'])} on its own notes and {perplexity_text(heldout['value'])} on held-out "
        "ones. Part of its gain is memorised text, so 100 % is a reference and not a goal."
    ]
