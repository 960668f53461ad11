"""How long each stage of a job should take here: its usual cost, corrected by what earlier jobs took on this machine.

Pages promise these times, the time left begins with them, and limits count them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from core.jobs.limits import Request
from core.jobs.times.costs import BUSY, CONTROL, TIME_BY_SIZE, Stage, audit_stages, default_stages, whole
from core.jobs.times.notes import Notes, expected_notes, notes_read
from core.pipeline.full_audit import chosen_attacks, open_attacks
from core.pipeline.quick_audit import ATTACKS, READS
from core.runs.audits import AuditBroken
from core.runs.events import Event
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec

EARLIER = 5  # runs of this machine that correct the defaults
AS_USUAL = (1.0, 1.0)  # ratios added to the measured ones: a run made beside other work does not decide alone
ALIKE = 5.0  # factor up to which default seconds are of the same order
PAUSE_SECONDS = 600.0  # a longer gap between two events is an interruption

NotesOf = Callable[[RunSpec], Notes]
Measured = tuple[Mapping[str, float], Sequence[Stage]]  # seconds that a job took by stage, and its default stages


# What is expected ----------------------------------------------------------------------------------------------------


def expected_stages(spec: RunSpec, workspace: Workspace, *, is_audit: bool = False) -> list[Stage]:
    """The stages of a job in their order, each with the seconds it should take here. Never raises.

    The defaults are multiplied by the median ratio of measured to default seconds in the newest runs (for an audit:
    audits) of the same kind of model that were made in this data folder: of this stage, else of all stages.
    """
    if is_audit:
        return _expected_audit(spec, workspace)
    cohort = workspace.corpus_folder(spec.corpus) is not None
    notes = _notes_in(workspace)
    stages = default_stages(spec, cohort=cohort, control=_has_control(spec, workspace), notes=notes(spec))
    return corrected(stages, slowness(_made_here(spec, workspace), stages, notes))


def request_of(spec: RunSpec, workspace: Workspace, *, is_audit: bool = False) -> Request:
    """The job as limits count it: with the minutes that page Train shows."""
    notes, epochs, masks = _notes_in(workspace)(spec), spec.training.epochs, spec.training.masks or 1
    size = f"{notes.trained:,.0f} notes × {epochs:,} epoch{'' if epochs == 1 else 's'}"
    if masks > 1:
        size += f" × {masks} masks"
    if is_audit:
        size = f"every attack on {notes.trained:,.0f} notes"
    return Request(whole(expected_stages(spec, workspace, is_audit=is_audit)) / 60, size)


def _notes_in(workspace: Workspace) -> NotesOf:
    """What a run reads, by the length of imported notes where they are stored."""
    return lambda spec: notes_read(spec, workspace.corpus_folder(spec.corpus))


# What this machine took ----------------------------------------------------------------------------------------------


def stage_key(event: Event) -> str | None:
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


def stage_seconds(events: Iterable[Event]) -> dict[str, float]:
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


def corrected(stages: Sequence[Stage], ratios: Mapping[str, float]) -> list[Stage]:
    """The stages with their seconds multiplied by `slowness`, of those without by the median of all."""
    usual = statistics.median(ratios.values()) if ratios else 1.0
    return [Stage(one.key, one.seconds * ratios.get(_plain(one.key), usual)) for one in stages]


def slowness(runs: Sequence[Run], stages: Sequence[Stage], notes: NotesOf = expected_notes) -> dict[str, float]:
    """How many times their default seconds the stages take on this machine, by key; one that was not seen is missing.

    The median over finished runs with their event logs, and `AS_USUAL`. `notes` gives what a run reads.
    """
    return _ratios((_measured(run, notes) for run in runs), stages)


def _measured(run: Run, notes: NotesOf) -> Measured:
    taken = stage_seconds(run.events())
    control = not any(key.startswith(CONTROL) for key in taken)
    return taken, default_stages(run.spec, cohort=True, control=control, notes=notes(run.spec))


def _ratios(measured: Iterable[Measured], stages: Sequence[Stage]) -> dict[str, float]:
    """Median ratio of measured to default seconds of each stage, by key.

    A job's stage counts if its default seconds are of the same order as in `stages`: what a tiny training needs beside
    its steps says little about a long one.
    """
    wanted = {_plain(one.key): one.seconds for one in stages}
    found: dict[str, list[float]] = {}
    for taken, usual in measured:
        for stage in usual:
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


# Full audits ---------------------------------------------------------------------------------------------------------


def _expected_audit(spec: RunSpec, workspace: Workspace) -> list[Stage]:
    try:
        run = workspace.run(spec.run_id)
    except (RunNotFound, RunBroken, OSError):
        return []
    every = [one.name for one in chosen_attacks(run, None)]
    notes = _notes_in(workspace)
    shipped, here = _audits(spec, workspace, notes)
    a_note = _seconds_a_note(shipped)
    stages = audit_stages(spec, _left(run, workspace) or every, notes(spec), a_note, of=len(every))
    measured = (
        (
            {f"attack: {name}": seconds for name, seconds in taken.items()},
            audit_stages(other, list(taken), read, a_note, of=len(every)),
        )
        for other, read, taken in here[:EARLIER]
    )
    return corrected(stages, _ratios(measured, stages))


def _left(run: Run, workspace: Workspace) -> list[str]:
    """Names of the attacks that are left; none also if the audit is damaged, which has to be made again."""
    try:
        return [one.name for one in open_attacks(run, workspace)]
    except (AuditBroken, OSError):
        return []


Audited = tuple[RunSpec, Notes, dict[str, float]]  # a run, what it reads, and the seconds of its finished attacks


def _seconds_a_note(audits: Sequence[Audited]) -> dict[str, float]:
    """Median seconds of each attack a training note, for size tiny on two idle cores, of shipped audits.

    Those were made on busy cores.
    """
    found: dict[str, list[float]] = {}
    for spec, notes, taken in audits:
        for name, seconds in taken.items():
            a_note = seconds / max(1.0, notes.trained) / TIME_BY_SIZE[spec.model.size] / BUSY
            found.setdefault(name, []).append(a_note)
    return {name: statistics.median(values) for name, values in found.items()}


def _audits(spec: RunSpec, workspace: Workspace, notes: NotesOf) -> tuple[list[Audited], list[Audited]]:
    """What the attacks of stored audits of this kind of model took: of shipped ones, and of those made here."""
    shipped, here = list[Audited](), list[Audited]()
    begun = workspace.audited()
    for run in workspace.runs():
        if run.id not in begun or run.spec.model.kind != spec.model.kind:
            continue
        stored = workspace.audit(run.id)
        try:
            own, every = replace(stored, shared=()).outcomes(), stored.outcomes()
        except (AuditBroken, OSError):
            continue
        for audits, is_own in ((shipped, False), (here, True)):
            done = (one for one in every.values() if one.state == "done" and (one.attack in own) == is_own)
            if taken := {one.attack: one.seconds for one in done}:
                audits.append((run.spec, notes(run.spec), taken))
    return shipped, here
