"""How long each stage of a job usually takes: fitted defaults, corrected by what earlier jobs took on this machine.

A stage has a key: its name, for an attack of the full audit `attack: <name>`, and for a stage of the control that is
made as part of a run `base control/<name>`. docs/PERFORMANCE.md has the runs that the defaults were fitted to.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.jobs.limits import AUDIT_SECONDS, TIME_BY_SIZE, Notes, expected_notes, notes_read
from core.pipeline.full_audit import chosen_attacks, open_attacks
from core.pipeline.quick_audit import ATTACKS, READS, attacks_of
from core.runs.audits import AuditBroken
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec

CONTROL = "base control"
EARLIER = 5  # runs of this machine that correct the defaults
AS_USUAL = (1.0, 1.0)  # ratios added to the measured ones: a run made beside other work does not decide alone
ALIKE = 5.0  # factor up to which default seconds are of the same order
PAUSE_SECONDS = 600.0  # a longer gap between two events is an interruption
FIGURES_SECONDS = 20.0  # of a full audit, after its attacks


@dataclass(frozen=True)
class Stage:
    """A stage of a job, and the seconds it is expected to take."""

    key: str
    seconds: float


def stage_key(event: Mapping[str, Any]) -> str | None:
    """The key of the stage that begins with this event; None if none does."""
    if event["event"] == "attack":
        return f"attack: {event['attack']}"
    if event["event"] != "stage":
        return None
    if event["stage"] != CONTROL:
        return event["stage"]
    message = event["message"].removeprefix("Control: ")
    return f"{CONTROL}/{_stages_by_message().get(message, 'saving' if 'figures' in message else 'corpus')}"


@cache
def _stages_by_message() -> dict[str, str]:
    return {attack.message: attack.stage for attack in (*ATTACKS, READS)}


# Defaults ------------------------------------------------------------------------------------------------------------


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
    a_note = 0.0038 if spec.privacy.private or spec.training.clip_norm is not None else 0.0029
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


# What this machine took ----------------------------------------------------------------------------------------------


def stage_seconds(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of each stage in an event log that ended well, by key. Interruptions do not count."""
    taken: dict[str, float] = {}
    current, last = None, None
    for event in events:
        now = event.get("time")
        if now is None:
            continue
        if current is not None and last is not None and now - last < PAUSE_SECONDS:
            taken[current] = taken.get(current, 0.0) + now - last
        current, last = stage_key(event) or current, now
    return taken


def expected_stages(spec: RunSpec, workspace: Workspace, *, is_audit: bool = False) -> list[Stage]:
    """The stages of a job in their order, each with the seconds it should take here. Never raises.

    The defaults are multiplied by the median ratio of measured to default seconds in the newest runs of the same kind
    of model that were made in this data folder: of this stage, else of all stages.
    """
    if is_audit:
        return _expected_audit(spec, workspace)
    cohort = workspace.corpus_folder(spec.corpus) is not None
    notes = _notes_in(workspace)
    stages = default_stages(spec, cohort=cohort, control=_has_control(spec, workspace), notes=notes(spec))
    return corrected(stages, slowness(_made_here(spec, workspace), stages, notes))


def _notes_in(workspace: Workspace) -> Callable[[RunSpec], Notes]:
    """What a run reads, by the length of imported notes where they are stored."""
    return lambda spec: notes_read(spec, workspace.corpus_folder(spec.corpus))


def corrected(stages: Sequence[Stage], ratios: Mapping[str, float]) -> list[Stage]:
    """The stages with their seconds multiplied by `slowness`, of those without by the median of all."""
    whole = statistics.median(ratios.values()) if ratios else 1.0
    return [Stage(one.key, one.seconds * ratios.get(_plain(one.key), whole)) for one in stages]


def slowness(
    runs: Sequence[Run], stages: Sequence[Stage], notes: Callable[[RunSpec], Notes] = expected_notes
) -> dict[str, float]:
    """How many times their default seconds the stages take on this machine, by key; one that was not seen is missing.

    The median over finished runs with their event logs, and `AS_USUAL`. A run's stage counts if its default seconds are
    of the same order as in `stages`: what a tiny training needs besides its steps says little about a long one. `notes`
    gives what a run reads.
    """
    wanted = {_plain(one.key): one.seconds for one in stages}
    found: dict[str, list[float]] = {}
    for run in runs:
        taken = stage_seconds(run.events())
        control = not any(key.startswith(CONTROL) for key in taken)
        for stage in default_stages(run.spec, cohort=True, control=control, notes=notes(run.spec)):
            key = _plain(stage.key)
            if stage.key not in taken or key not in wanted or stage.seconds < 1.0:  # the ratio would be mere chance
                continue
            if 1 / ALIKE <= stage.seconds / wanted[key] <= ALIKE:
                found.setdefault(key, []).append(taken[stage.key] / stage.seconds)
    return {key: statistics.median([*AS_USUAL, *values]) for key, values in found.items()}


def _plain(key: str) -> str:
    """The stage's name, also for a stage of the control."""
    return key.removeprefix(f"{CONTROL}/")


def _made_here(spec: RunSpec, workspace: Workspace) -> list[Run]:
    """The newest runs of this kind and size of model that were made here."""
    alike = (
        run
        for run in workspace.runs()
        if not run.shipped and run.spec.model.kind == spec.model.kind and run.spec.model.size == spec.model.size
    )
    return [run for run, _ in zip(alike, range(EARLIER), strict=False)]


def _has_control(spec: RunSpec, workspace: Workspace) -> bool:
    try:
        found = workspace.find(spec.base_spec())
    except OSError:
        return False
    return found is not None and not found.made_again


def _expected_audit(spec: RunSpec, workspace: Workspace) -> list[Stage]:
    try:
        run = workspace.run(spec.run_id)
        left = open_attacks(run, workspace) or chosen_attacks(run, None)
    except (RunNotFound, RunBroken, AuditBroken, OSError):
        return []
    notes = _notes_in(workspace)
    trained = notes(spec).trained
    usual = AUDIT_SECONDS * trained / max(1, len(left))
    a_note = _seconds_a_note(spec, workspace, notes)
    attacks = (
        Stage(f"attack: {one.name}", a_note[one.name] * trained if one.name in a_note else usual) for one in left
    )
    return [Stage("notes", 2.0), *attacks, Stage("figures", FIGURES_SECONDS)]


def _seconds_a_note(spec: RunSpec, workspace: Workspace, notes: Callable[[RunSpec], Notes]) -> dict[str, float]:
    """Median seconds a training note of each attack, of stored audits of this kind of model, the shipped ones too."""
    found: dict[str, list[float]] = {}
    for run, outcome in _outcomes(spec, workspace):
        if outcome.state == "done":
            found.setdefault(outcome.attack, []).append(outcome.seconds / max(1.0, notes(run.spec).trained))
    return {attack: statistics.median(values) for attack, values in found.items()}


def _outcomes(spec: RunSpec, workspace: Workspace) -> Iterator[tuple[Run, Any]]:
    begun = workspace.audited()
    for run in workspace.runs():
        if run.id in begun and run.spec.model.kind == spec.model.kind:
            try:
                yield from ((run, outcome) for outcome in workspace.audit(run.id).outcomes().values())
            except AuditBroken:
                continue
