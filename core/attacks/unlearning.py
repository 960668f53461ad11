"""Unlearning in the battery: a few members are taken out of the model under attack, one at a time, and judged again.

Each patient is taken out of a fresh copy of the trained model (`core.training.unlearning`), so the model under attack
keeps its weights. The standing among patients never seen and the perplexity of held-out notes
(`core.attacks.forgetting`) are measured before and after, on the notes' own texts. Unlearning reads what training
read: the texts after the run's defence. Hayes et al. 2024 warn that an average over patients can look
perfect where unlearning failed: the reference is a model trained again without the patient, which an audit of one run
does not have (`core.pipeline.forgetting` has it).

From a private run nobody is unlearned. That would read the patient's notes again without noise, which its ε does not
cover. The same patients' standing as trained is what DP is compared by.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.attacks.forgetting import (
    NOTE_COLUMNS,
    Judged,
    Sides,
    judged_notes,
    never_seen_loss,
    public_means,
    sides,
    standing,
)
from core.attacks.registry import KINDS, Attack, NotPossible, Report, Tables, Target, register, register_table

if TYPE_CHECKING:
    from core.training.unlearning import Method

NAME = "unlearning"
STANDING, STEPS = "unlearning_standing", "unlearning_steps"
PATIENTS = 20  # taken out, one at a time: 2 methods take about 5 minutes on one core with the shipped GPT-2
ORIGINAL = "original"
METHODS: tuple[Method, ...] = ("ascent", "difference")  # fine-tuning takes ten times as long; `core forget` has it
_STREAM = 16  # of random numbers, for the choice of the patients

STANDING_COLUMNS = {
    "drawn": "str",  # the patient who is taken out
    "arm": "str",  # original | a method of METHODS
    **NOTE_COLUMNS,  # the drawn patient's notes, and one row for each never-seen patient
}
STEPS_COLUMNS = {
    "drawn": "str",
    "arm": "str",
    "steps": "int32",
    "reached": "bool",  # the patient's notes came to the loss of notes never seen
    "loss": "float64",  # mean loss of the patient's notes afterwards, in nats a token
    "stop_loss": "float64",  # where ascent and difference stop
}


def drawn_patients(target: Target, most: int = PATIENTS) -> list[str]:
    """At most `most` members whose notes were trained on, drawn by the audit's seed. Raises NotPossible for none."""
    patients = target.corpus.patients
    members = set(patients.loc[patients["split"] == "member", "patient_id"])
    read = np.sort(target.trained_notes["patient_id"].unique().astype(object))
    read = np.array([one for one in read if one in members], dtype=object)
    if target.spec.is_base or not len(read):
        raise NotPossible("this model was trained on no member's notes, so there is no one to forget")
    return [str(one) for one in np.random.default_rng([target.spec.audit.seed, _STREAM]).permutation(read)[:most]]


def unlearning(target: Target, report: Report) -> Tables:
    """Take each drawn patient out of a copy of the model, and judge the model before and after.

    Raises:
        NotPossible: The model read no member's notes, or nobody is held out.
    """
    chosen = drawn_patients(target)
    originals, read = sides(target.corpus, target.spec.note_cap, target.spec.defence)
    judged = _judged(target, originals, chosen, report)
    drawn = list(dict.fromkeys(judged.notes.loc[judged.notes["forgotten"], "patient_id"]))
    trained = standing(target.lm, judged, target.spec.audit, report)
    frames = [_of(trained, patient, ORIGINAL) for patient in drawn]
    rows: list[tuple] = []
    if not target.spec.privacy.private:
        before = trained
        if read is not originals:
            before = standing(target.lm, _judged(target, read, chosen, report), target.spec.audit, report)
        jobs = [(patient, method) for patient in drawn for method in METHODS]
        for done, (patient, method) in enumerate(jobs):
            report(done, len(jobs))
            row, frame = _taken_out(target, judged, patient, method, before, partial(report, done, len(jobs)))
            rows.append(row)
            frames.append(frame)
        report(len(jobs), len(jobs))
    steps = pd.DataFrame(rows, columns=list(STEPS_COLUMNS))
    return {STANDING: pd.concat(frames, ignore_index=True), STEPS: steps}


def _judged(target: Target, notes_of: Sides, drawn: list[str], report: Report) -> Judged:
    """All drawn patients' notes together with those of the never-seen, so that every model reads the same notes once.

    A patient none of whose notes can be scored (masked models) is left out.
    """
    if notes_of.heldout.empty:
        raise NotPossible("this cohort has no held-out patients to compare with")
    audit = target.spec.audit
    each = [judged_notes(notes_of.training, notes_of.heldout, patient, audit.seed) for patient in drawn]
    own = [notes[notes["forgotten"]] for notes in each]
    notes = pd.concat([*own, each[0][~each[0]["forgotten"]]], ignore_index=True)
    return public_means(target.base, notes, audit, report)


def _taken_out(
    target: Target, judged: Judged, patient: str, method: Method, before: pd.DataFrame, tick: Callable[[], None]
) -> tuple[tuple, pd.DataFrame]:
    """One patient by one method: a row of STEPS_COLUMNS, and the rows of STANDING_COLUMNS afterwards.

    `before` is the standing of the trained model on the texts that it read, which gives the loss to stop at.
    """
    from core.training.unlearning import patient_loss, settings_of, unlearn

    lm, notes = deepcopy(target.lm), target.trained_notes
    own, settings = notes["patient_id"] == patient, settings_of(method, target.spec.training)
    forget = notes.loc[own, "text"].tolist()
    done = unlearn(
        lm,
        forget,
        notes.loc[~own, "text"].tolist(),
        settings,
        stop_loss=never_seen_loss(patient_loss(target.base, forget, settings.max_tokens), before),
        on_step=lambda step: tick(),
    )
    after = standing(lm, judged, target.spec.audit, lambda part, whole: tick())
    row = (patient, method, len(done.history), done.reached, done.final_loss, done.stop_loss)
    return row, _of(after, patient, method)


def _of(notes: pd.DataFrame, patient: str, arm: str) -> pd.DataFrame:
    """The rows of one patient and of the never-seen, from a standing of all drawn patients."""
    rows = notes[~notes["forgotten"] | (notes["patient_id"] == patient)]
    return rows.assign(drawn=patient, arm=arm)


register_table(STANDING, STANDING_COLUMNS)
register_table(STEPS, STEPS_COLUMNS)
register(
    Attack(
        name=NAME,
        source="Jang 2023; Hayes 2024",
        access="white-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Takes patients out of a copy of the model by gradient ascent and gradient difference, and checks "
        "whether they still stand out. The reference, a model trained again without the patient, is on the Forget a "
        "patient page and not in the audit; a private model is judged as trained.",
        tables=(STANDING, STEPS),
        run=unlearning,
        version=2,
        version_masked=3,
    )
)
