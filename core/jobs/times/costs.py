"""What each stage of a job costs, in seconds on two idle cores, by notes, epochs, texts, kind and size of model.

These are the program's only measured times. Pages and limits correct them by what this machine took
(`core.jobs.times.expected`); sweeps, which train one run a core, count `ONE_CORE` times as long. A stage has a key:
its name, for an attack of the full audit `attack: <name>`, and for a stage of the control that is made as part of a
run `base control/<name>`. docs/PERFORMANCE.md has the runs that they were fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.jobs.times.notes import Notes, expected_notes
from core.pipeline.quick_audit import attacks_of
from core.spec import ModelKind, RunSpec

CONTROL = "base control"

TIME_BY_SIZE = {"micro": 0.4, "tiny": 1.0, "small": 3.3}  # a factor; measured with both kinds, 1.4 to 25 ms a note
BUSY = 3.0  # a factor: two cores that others use, too, for two idle ones
ONE_CORE = 1.87  # a factor: one core beside a busy one, for two idle ones; of whole trainings of GPT-2
TRAINING: dict[ModelKind, tuple[float, float]] = {  # of one note in one epoch, without and with clipping
    "gpt2": (0.0029, 0.0038),
    "distilbert": (0.0023, 0.0034),  # the second from 6.5 ms on one core
    "bert": (0.0023, 0.0034),  # not measured: as DistilBERT, which it resembles
}
AUDIT_SECONDS = 0.11 / BUSY  # of the full audit, for one training note of GPT-2; measured on two busy cores
MASKED_FACTOR = 2.4  # factor of time for the full audit of DistilBERT and BERT
FIGURES_SECONDS = 20.0  # of a full audit, after its attacks


@dataclass(frozen=True)
class Stage:
    """A stage of a job, and the seconds it is expected to take."""

    key: str
    seconds: float


def default_stages(spec: RunSpec, *, cohort: bool, control: bool, notes: Notes | None = None) -> list[Stage]:
    """The stages of a run with their usual seconds on two idle cores.

    Args:
        spec: The run.
        cohort: Whether its cohort is stored.
        control: Whether its control is; the public model itself has none.
        notes: What it reads; by default what is expected from the spec alone.
    """
    notes = notes or expected_notes(spec)
    found = [Stage("corpus", _corpus(spec, cohort))]
    if spec.vocabulary is not None:
        found.append(Stage("vocabulary", 1.0))
    if not spec.is_base:
        found.append(Stage("training", _training(spec, notes)))
        if not control:
            found += [
                Stage(f"{CONTROL}/{one.key}", one.seconds)
                for one in default_stages(spec.base_spec(), cohort=True, control=True, notes=notes)
            ]
    judged = _judged(spec, notes)
    seconds = _audit(spec, judged)
    found += [Stage(attack.stage, seconds[attack.stage]) for attack in attacks_of(spec)]
    return [*found, Stage("saving", (0.5 + 2e-4 * judged) * (0.5 + spec.audit.bootstrap / 2_000))]


def _corpus(spec: RunSpec, stored: bool) -> float:
    notes = (spec.corpus.patients + spec.corpus.population) * spec.corpus.notes_per_patient
    return 0.5 + 2e-5 * notes if stored else 1.0 + 1.1e-4 * notes


def _training(spec: RunSpec, notes: Notes) -> float:
    read = notes.trained * spec.training.epochs * (spec.training.masks or 1)
    clipped = spec.privacy.private or spec.training.clip_norm is not None
    a_note = TRAINING[spec.model.kind][clipped]
    return TIME_BY_SIZE[spec.model.size] * (2.0 + a_note * read + 0.5 * spec.training.epochs)


def _judged(spec: RunSpec, notes: Notes) -> float:
    """Notes of usual length that the quick audit scores."""
    patients = spec.corpus.patients
    if spec.audit.patients is not None:
        patients = min(patients, 2 * spec.audit.patients)
    usual = (patients + spec.corpus.population) * spec.corpus.notes_per_patient
    return usual * notes.every / expected_notes(spec).every


def _audit(spec: RunSpec, judged: float) -> dict[str, float]:
    causal, audit, size = spec.model.kind == "gpt2", spec.audit, TIME_BY_SIZE[spec.model.size]
    texts = 14 * audit.samples_per_prompt * (0.0024 * audit.new_tokens / 60 if causal else 0.016)
    scores = judged * (0.0008 if causal else 0.00055 * audit.mask_draws)
    secrets = spec.corpus.canaries + spec.corpus.canary_patients
    seconds = {
        "audit: extraction": 0.2 + texts,
        "audit: membership": 0.7 + scores,
        "audit: exposure": (1.2 + 0.055 * secrets) * (1.0 if causal else 0.6) if secrets else 0.1,
        "audit: utility": 4.0,
        "audit: reading": 5.0,
    }
    return {stage: size * one for stage, one in seconds.items()}


# Full audit ----------------------------------------------------------------------------------------------------------


def audit_stages(
    spec: RunSpec, attacks: Sequence[str], notes: Notes, a_note: Mapping[str, float], *, of: int
) -> list[Stage]:
    """The stages of a full audit with their usual seconds on two idle cores.

    Args:
        spec: The run.
        attacks: Names of the attacks that are left.
        notes: What the run reads.
        a_note: Seconds of an attack for one training note of a model of size tiny, where they are known.
        of: How many attacks a whole audit of the run has. One of unknown seconds takes its share of `AUDIT_SECONDS`.
    """
    usual = AUDIT_SECONDS * (1.0 if spec.model.kind == "gpt2" else MASKED_FACTOR) / of
    times = TIME_BY_SIZE[spec.model.size] * notes.trained
    found = [Stage(f"attack: {name}", times * a_note.get(name, usual)) for name in attacks]
    return [Stage("notes", 2.0), *found, Stage("figures", FIGURES_SECONDS)]


# Sweeps --------------------------------------------------------------------------------------------------------------


def on_one_core(spec: RunSpec) -> list[Stage]:
    """The stages of a run of a sweep, on one core beside a busy one: its cohort and its control are there.

    Long imported notes take longer: a spec has no lengths.
    """
    usual = default_stages(spec, cohort=True, control=True)
    return [Stage(one.key, ONE_CORE * one.seconds) for one in usual]


def whole(stages: Iterable[Stage]) -> float:
    """Seconds of all stages."""
    return sum(one.seconds for one in stages)


def of_training(stages: Iterable[Stage]) -> float:
    """Seconds of training alone."""
    return sum(one.seconds for one in stages if one.key == "training")
