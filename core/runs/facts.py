"""Statements about a run. Its model card and every report are written from these facts.

Sentences contain no markup. Figures come from the run's metrics table; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.common.formatting import REPRODUCIBLE, delta_text, epochs_text, promised_text
from core.phi.fields import FIELDS, HIPAA_IDENTIFIERS
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.runs.ledger.choice import Choice
    from core.training.accounting.mechanism import Mechanism

SYNTHETIC = (
    "Trained on the notes of a synthetic hospital, for teaching and measurement: none of its patients exist. "
    "The model is not a medical device, and its text is not medical advice."
)
IMPORTED = (
    "Trained on imported notes. The model is not a medical device, and its text is not medical advice. The person who "
    "imported the notes must decide who may have it."
)
DEDUPLICATED = (
    "The guarantee covers the notes that were left after copies had been removed from the imported notes: which of two "
    "copies stays depends on other people's notes."
)
PARTLY = {
    1: "the patient's full name only: a surname alone, and names of relatives, were not looked for",
    2: "street address only: other places were not looked for",
    3: "date of birth only: other dates and ages were not looked for",
}
CODES = 18  # any other unique number: the planted canaries represent it
ABSENT = "not among the fields of a record: not tested"
UNKNOWN = "no patient’s value is known that could be searched for: not tested"
FOLLOWS_FROM_A_SEED = (
    "Its noise follows from the training seed, which is among its settings: anyone can generate the noise again and "
    "subtract it. Train with secret noise to get a promise."
)
RESTS_ON_A_KEY = (
    "The guarantee holds against everyone who did not read the key of the noise during training. The key was 128 "
    "random bits, and it was destroyed when training ended."
)
HASHED = (
    "The ids of the cohort and of the run are computed from the notes themselves, and the settings hold how many notes "
    "a patient has on average and what share of them contains a name. ε does not cover these: anyone who knows all "
    "other notes can check by an id whether one more was among them. Do not pass them on."
)
SPLIT_GIVEN = (
    "The file of notes said which patients are members. An attack's success against held-out patients shows a leak "
    "only if chance decided that: members of another ward, hospital or year can be recognised without any leak."
)
FLOATING_POINT = (
    "The noise consists of floating-point numbers: no proof rules out an attack on their rounding (Mironov 2012)."
)
LIMITS = (
    "An attack that finds nothing proves nothing: others may find more. Only the guarantee covers all attacks.",
    "The figures of the audit were measured on the private notes themselves and are not covered by ε.",
    "Settings chosen by looking at results on the same notes are not covered by ε.",
    "Only patients' own identifiers were searched for. HIPAA's list also covers those of relatives, employers and "
    "household members.",
    "This is a measurement, not a statement about compliance with HIPAA or any other law.",
)


NONE = "None: the model was trained without differential privacy. Treat it like the notes themselves."

SPEAKS_OF = {  # what a promise for one unit does not cover
    "note": "The guarantee compares two runs that differ in one note, with all other notes the same. It does not cover "
    "what the patient's other notes reveal about them, nor what notes of other people, such as relatives, reveal.",
    "patient": "The guarantee compares two runs that differ in one patient's notes, with those of all other patients "
    "the same. It does not cover what notes of other people, such as relatives with the same name, address or family "
    "history, reveal about that patient.",
}


@dataclass(frozen=True)
class RunFacts:
    """One run in sentences and rows. `guarantee` is None for a run trained without privacy."""

    run_id: str
    about: str
    training: str
    promise: str
    guarantee: dict[str, Any] | None
    hipaa: tuple[dict[str, Any], ...]
    limits: tuple[str, ...]


def run_facts(
    run_id: str, spec: RunSpec, mechanism: Mechanism | None, metrics: pd.DataFrame, choice: Choice | None = None
) -> RunFacts:
    """Everything that a card or report states about a run, from its spec, its mechanism and its metrics table.

    `choice`: the ledger has the run as the best of several runs. Its guarantee is then that of the release.
    """
    return RunFacts(
        run_id=run_id,
        about=IMPORTED if spec.corpus.imported else SYNTHETIC,
        training=training_sentence(spec),
        promise=promise_sentence(spec, mechanism, choice),
        guarantee=None if mechanism is None else guarantee(mechanism, choice),
        hipaa=tuple(hipaa_rows(metrics)),
        limits=limits(mechanism, spec),
    )


def limits(mechanism: Mechanism | None, spec: RunSpec) -> tuple[str, ...]:
    """What the audit and the guarantee do not cover; for a private run also what its guarantee depends on."""
    proves = (LIMITS[0],) if spec.corpus.split is None else (LIMITS[0], SPLIT_GIVEN)
    if mechanism is None:
        return (*proves, *LIMITS[1:])
    rests_on = RESTS_ON_A_KEY if mechanism.noise_source == "secret" else FOLLOWS_FROM_A_SEED
    covered = *proves, SPEAKS_OF[mechanism.unit], LIMITS[1], *beside_the_guarantee(spec)
    return (*covered, rests_on, FLOATING_POINT, *LIMITS[2:])


def beside_the_guarantee(spec: RunSpec) -> tuple[str, ...]:
    """What a private run's guarantee assumes of its base model, and what imported notes reveal beside the model."""
    assumed = (
        f"The guarantee assumes that the base model, {spec.model.base}, read none of these notes. The program cannot "
        "check that."
    )
    return (*(() if spec.model.shipped else (assumed,)), *(() if spec.corpus.imported is None else (HASHED,)))


def training_sentence(spec: RunSpec) -> str:
    """Which model was trained, how, and on what."""
    if spec.is_base:
        return f"None: this is the public base model ({spec.model.kind}, {spec.model.base}), the control of other runs."
    training = spec.training
    return (
        f"{spec.model.kind} ({spec.model.size}, from {spec.model.base}), {epochs_text(training.epochs)}, "
        f"batch {training.batch_size}, learning rate {training.learning_rate:g}, seed {training.seed}"
        f"{_engine_settings(spec)}; "
        f"cohort {spec.corpus.digest()} ({spec.corpus.patients:,} patients"
        f"{', 70 % of them members' if spec.corpus.imported is None else ', members and held out'})"
        f"{'' if spec.defence is None else f', its training notes {spec.defence.label}'}"
        f"{'' if spec.without is None else ', without the notes of ' + ', '.join(spec.without)}"
        f"{'' if spec.vocabulary is None else f'; its word list with {spec.vocabulary.label}'}."
    )


def _engine_settings(spec: RunSpec) -> str:
    """Masks, clipping and what counts alike, where they differ from the usual."""
    training, said = spec.training, ""
    if training.mask_share is not None:
        said += f", {100 * training.mask_share:g} % of the tokens hidden in training"
    if training.masks is not None:
        said += f", {training.masks} masks of each note a step"
    if training.weighting == "token":
        said += ", every note counted in proportion to its length"
    if training.clip_norm is not None:
        said += f", every {spec.privacy.unit} sampled and clipped to {training.clip_norm:g} as in DP-SGD, without noise"
    return said


def guarantee(mechanism: Mechanism, choice: Choice | None = None) -> dict[str, Any]:
    """The promise with everything it depends on; with a choice, the ε that the ledger has for the release."""
    epsilon, accountant = mechanism.epsilon_with_method()
    if choice is not None:
        epsilon, accountant = choice.best_of(mechanism).epsilon(), "rdp"
    return {
        "epsilon": epsilon,
        "delta": mechanism.delta,
        "unit": mechanism.unit,
        "neighbouring": mechanism.neighbouring,
        "accountant": accountant,
        "noise_multiplier": mechanism.noise_multiplier,
        "sample_rate": mechanism.sample_rate,
        "steps": mechanism.steps,
        "max_grad_norm": mechanism.max_grad_norm,
        "noise_source": mechanism.noise_source,
    }


def promise_sentence(spec: RunSpec, mechanism: Mechanism | None, choice: Choice | None = None) -> str:
    """The guarantee, or that there is none, in one sentence; a second one if it does not cover all notes."""
    if spec.is_base:
        whose = "the hospital's" if spec.corpus.imported is None else "the imported"
        return f"The model was never trained on {whose} notes."
    if mechanism is None:
        if spec.training.clip_norm is not None:
            return f"{NONE} Its gradients were clipped, but without noise that guarantees nothing."
        return NONE
    held = guarantee(mechanism, choice)
    released = "" if choice is None else f", released as the {choice.text()}"
    return (
        f"({promised_text(held['epsilon'])}, {delta_text(held['delta'])})-differential privacy for one {held['unit']} "
        f"(neighbours: {neighbours(held)}){released}: DP-SGD with σ = {held['noise_multiplier']:.4g}, "
        f"q = {held['sample_rate']:.4g}, {held['steps']} steps, clipping norm {held['max_grad_norm']:g}"
        f"{_words_sentence(mechanism)}; accountant {held['accountant'].upper()}."
        f"{_limit_sentence(spec, mechanism, choice)}{_cap_sentence(spec, mechanism)}"
        f"{'' if spec.corpus.deduplicated is None else ' ' + DEDUPLICATED}"
        f"{'' if held['noise_source'] == 'secret' else f' {REPRODUCIBLE[0].upper()}{REPRODUCIBLE[1:]}.'}"
    )


def _limit_sentence(spec: RunSpec, mechanism: Mechanism, choice: Choice | None) -> str:
    """What σ was chosen for, if it was chosen by a limit on the attacker. The limit holds for a single training.

    The best of several runs can exceed it: the choice reveals something of every one.
    """
    limit = spec.privacy.risk_limit
    if limit is None:
        return ""
    if choice is not None:
        return (
            " σ was chosen by a limit on the attacker for one run. For the best of several runs, no such limit is "
            "known."
        )
    return f" σ was chosen by a limit on the attacker. {limit.sentence(mechanism.unit)}"


def neighbours(held: Mapping[str, Any]) -> str:
    """`add/remove one note`: the neighbouring relation of a guarantee, with its unit."""
    return str(held["neighbouring"]).replace("one unit", f"one {held['unit']}")


def _words_sentence(mechanism: Mechanism) -> str:
    """The part of the promise spent on the vocabulary from the notes (Hoory 2021, §3.2)."""
    words = mechanism.vocabulary
    if words is None:
        return ""
    return (
        f"; counts for its vocabulary with {words.noise.capitalize()} noise of scale {words.scale:.4g}, at most "
        f"{words.words} words per {mechanism.unit}, none below {words.threshold:.4g} "
        f"(ε = {promised_text(words.epsilon())} at δ = {delta_text(words.delta)} for these alone, "
        f"{promised_text(mechanism.training_alone().epsilon())} for training)"
    )


def _cap_sentence(spec: RunSpec, mechanism: Mechanism) -> str:
    """How the promise changes for a run whose cap on notes left some out (`core.runs.note_cap`)."""
    if not mechanism.replaces:
        return ""
    return (
        f" An older version trained it on at most {spec.training.max_notes_per_patient} notes per patient, so that "
        "removing one of these lets another in. This ε counts both changes and is larger than the one requested. "
        "To get the requested ε, delete the run's folder and train it again."
    )


def hipaa_rows(metrics: pd.DataFrame) -> list[dict[str, Any]]:
    """HIPAA's 18 identifiers (PrivAI-Leak report), each with what was tested and what was found.

    `tested` is yes, partly or no: also if no patient has a value to search for. If it was tested, `value`, `low` and
    `high` are the share of member patients for whom the value was written, and `control` (with its interval) is the
    same for held-out patients.
    """
    at = metrics.set_index(["metric", "arm"])
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(HIPAA_IDENTIFIERS, start=1):
        row: dict[str, Any] = {"number": number, "identifier": name, "tested": "no", "note": ABSENT}
        field = next((one for one in FIELDS if one.hipaa == number and one.role == "direct"), None)
        key = "" if field is None else f"field_patients:{field.name}"
        if field is not None and (key, "run") in at.index:
            row |= {"tested": "partly" if number in PARTLY else "yes", "note": PARTLY.get(number, field.label)}
            for arm, prefix in (("run", ""), ("heldout", "control_")):
                found = at.loc[(key, arm)] if (key, arm) in at.index else None
                for end in ("value", "low", "high"):
                    label = "control" if prefix and end == "value" else f"{prefix}{end}"
                    row[label] = None if found is None else float(found[end])
        elif field is not None:
            row["note"] = UNKNOWN
        elif number == CODES and metrics["metric"].str.startswith("exposure:").any():
            row |= {"tested": "partly", "note": "planted canaries stand for such codes: see their exposure"}
        rows.append(row)
    return rows
