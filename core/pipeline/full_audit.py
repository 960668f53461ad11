"""The full audit of a run: every attack of the battery that makes sense for its model, each stored as soon as it ends.

One attack's failure is a line of the audit and costs nothing of the others. What is done is not done again. Attacks of
one audit share what is costly (`core.attacks.registry.Target`): a note is read once by each model. How far an audit is
stands beside its results, in a `status.json` that is there only while it is under way (or failed as a whole) and in the
diary `events.jsonl`: whoever looks, in whichever process, sees it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from core.evaluation.audit_summaries import Audited, Summary
from core.runs.audits import ATTACKS_FILE, Outcome, StoredAudit
from core.runs.events import STATUS_FILE, Cancelled, EventLog, Status, read_status, write_status
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace

if TYPE_CHECKING:
    from core.attacks.registry import Attack, Report, Target

EVENT_SECONDS = 0.5  # at most so often is progress told
SUMMARY = "summary: "  # in front of a summary's name, where attacks have theirs
EventListener = Callable[[dict[str, Any]], None]


def target_of(run: Run, workspace: Workspace) -> Target:
    """The run as attacks see it, with its models loaded when an attack first asks for them."""
    from core.attacks.membership.reference import reference_models
    from core.attacks.registry import Target

    corpus = run.as_read(workspace.corpus(run.spec.corpus, store=False))
    models = {"target": lambda report: run.model()}
    target = Target(run.spec, corpus, run.table, models, own_words=run.vocabulary)
    models["base"] = lambda report: target.public()
    models.update(reference_models(target, workspace.references(run.spec.corpus)))
    return target


def audit(
    run: Run,
    workspace: Workspace,
    *,
    attacks: Sequence[str] | None = None,
    again: bool = False,
    on_event: EventListener | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> StoredAudit:
    """Run the battery on a run, and return what is stored. Attacks that are done are left alone, unless `again`.

    Args:
        run: a complete run that keeps its weights.
        workspace: where audits are stored, beside the runs.
        attacks: names of the registry; all that apply to the run's kind of model by default.
        again: repeat attacks that are done, too.
        on_event: told every event that is appended to the audit's diary: `{"event": "attack", "attack", "number",
            "of"}` before each attack, `{"event": "progress", "attack", "done", "total", "eta_seconds"}` within it and
            `{"event": "outcome", "attack", "state", "seconds", "message"}` after it; at the end `done`, `cancelled` or
            `failed`.
        should_stop: polled between batches; True ends the audit, and what is done stays.

    Raises:
        Cancelled: `should_stop` said so.
        ValueError: an attack that does not exist or does not apply, or a run without weights.
        DiskFull: what an attack found could not be stored; what was done before is kept.

    """
    chosen = chosen_attacks(run, attacks)
    check_attackable(run)
    stop = should_stop or (lambda: False)
    with held(workspace.audit_lock_file(run.id), should_stop=stop) as holding:
        if not holding:
            raise Cancelled(f"The audit of run {run.id} was cancelled while another process was at it.")
        folder = workspace.audit(run.id).folder
        with full_disk_as_sentence(f"the audit of run {run.id}", folder):
            workspace.begin_audit(run.id, run.spec.corpus)
            diary = EventLog(folder, on_event)
            with _under_way(folder, diary):
                diary.stage("notes", "Reading the hospital's notes and the model")
                return _Battery(run, workspace, diary, stop).go(chosen, again)


@contextmanager
def _under_way(folder: Path, diary: EventLog) -> Iterator[None]:
    """Keep the audit's state on disk: `running`, then nothing when it ends or is stopped, `failed` with the reason."""
    submitted = (read_status(folder) or Status(state="running", submitted=time.time())).submitted
    started = time.time()
    write_status(folder, Status(state="running", submitted=submitted, started=started))
    try:
        yield
    except Cancelled as cancelled:
        diary.emit("cancelled", message=str(cancelled))
        (folder / STATUS_FILE).unlink(missing_ok=True)
        raise
    except Exception as error:
        failed = Status(state="failed", message=str(error), submitted=submitted, started=started, finished=time.time())
        write_status(folder, failed)
        diary.emit("failed", message=str(error))
        raise
    diary.emit("done", message="The audit is complete.")
    (folder / STATUS_FILE).unlink(missing_ok=True)  # last: without it, whoever looks takes the diary for whole


def check_attackable(run: Run) -> None:
    """Raise ValueError, a sentence, for a run without weights."""
    if not run.has_model:
        raise ValueError(f"Run {run.id} keeps no weights, so it cannot be attacked: it has the quick audit's tables.")


def open_attacks(run: Run, workspace: Workspace) -> list[Attack]:
    """The attacks that a full audit of the run would still run: those never run, failed, or made by older code."""
    before = workspace.audit(run.id).outcomes()
    return [attack for attack in chosen_attacks(run, None) if not _is_done(attack, before.get(attack.name))]


def open_figures(run: Run, workspace: Workspace) -> list[Summary]:
    """The figures that a full audit would still make of what attacks have found: never made, failed, or by older code.

    Also those older than an attack: the audit that ran it ended before its figures. None where no attack was run.
    """
    before = workspace.audit(run.id).outcomes()
    newest = max((one.finished for name, one in before.items() if not name.startswith(SUMMARY)), default=None)
    made = [(summary, before.get(SUMMARY + summary.name)) for summary in summaries()]
    return [
        summary
        for summary, outcome in made
        if newest is not None and (outcome is None or not _is_done(summary, outcome) or outcome.finished < newest)
    ]


def refresh_figures(run: Run, workspace: Workspace) -> tuple[str, ...]:
    """Make the outdated figures of a run's own full audit again from what its attacks stored. Returns their names.

    No attack is run. An audit that was shipped is left as it is. Raises AuditBroken, and ValueError, a sentence, for
    figures that cannot be made and for an audit that is under way.
    """
    stored = workspace.audit(run.id)
    if not (stored.folder / ATTACKS_FILE).exists() or not (left := open_figures(run, workspace)):
        return ()
    with _not_under_way(run, workspace):
        _Battery(run, workspace, EventLog(stored.folder, None), lambda: False).figures(stored, left)
    after = stored.outcomes()
    for summary in left:
        if after[SUMMARY + summary.name].state == "failed":
            raise ValueError(f"“{summary.name}” of its full audit: {after[SUMMARY + summary.name].message}")
    return tuple(summary.name for summary in left)


def outdate_figures(run: Run, workspace: Workspace) -> None:
    """Have the figures of a run's own full audit that its metrics enter made again: the metrics are about to change."""
    stored = workspace.audit(run.id)
    if not (stored.folder / ATTACKS_FILE).exists():
        return
    with _not_under_way(run, workspace):
        before = stored.outcomes()
        for summary in summaries():
            outcome = before.get(SUMMARY + summary.name)
            if summary.from_metrics and outcome is not None:
                waiting = replace(outcome, state="failed", message="its run's metrics were made again", tables=())
                stored.record(waiting, {})


@contextmanager
def _not_under_way(run: Run, workspace: Workspace) -> Iterator[None]:
    """Hold the audit's lock. Raises ValueError, a sentence, while another process holds it."""
    with held(workspace.audit_lock_file(run.id), should_stop=lambda: True) as holding:
        if not holding:
            raise ValueError("its full audit is under way. Refresh it once that has ended")
        yield


def chosen_attacks(run: Run, names: Sequence[str] | None) -> list[Attack]:
    """The attacks of those names that apply to a run (all without names). Raises ValueError with a sentence."""
    from core.attacks.battery import REGISTRY, applicable

    possible = applicable(run.spec.model.kind)
    if names is None:
        return possible
    for name in names:
        if name not in REGISTRY:
            raise ValueError(f"There is no attack “{name}”. There are: {', '.join(REGISTRY)}.")
        if REGISTRY[name] not in possible:
            kinds = ", ".join(REGISTRY[name].kinds)
            raise ValueError(f"The attack “{name}” is for {kinds}, and run {run.id} is a {run.spec.model.kind} model.")
    return [attack for attack in possible if attack.name in names]


@dataclass(frozen=True)
class _Battery:
    """One audit on its way."""

    run: Run
    workspace: Workspace
    diary: EventLog
    stop: Callable[[], bool]

    def go(self, attacks: Sequence[Attack], again: bool) -> StoredAudit:
        stored = self.workspace.audit(self.run.id)
        before = stored.outcomes()
        open_ones = [attack for attack in attacks if again or not _is_done(attack, before.get(attack.name))]
        if open_ones:
            target = target_of(self.run, self.workspace)
            for number, attack in enumerate(open_ones, start=1):
                self.diary.emit("attack", attack=attack.name, number=number, of=len(open_ones))
                self._attack(stored, attack, target)
        self.figures(stored, open_figures(self.run, self.workspace))
        return stored

    def figures(self, stored: StoredAudit, left: Sequence[Summary]) -> None:
        """Make these figures of what the attacks have stored."""
        self.diary.stage("figures", "Computing figures and their intervals from what the attacks found")
        for number, summary in enumerate(left, start=1):
            self.diary.progress(number, len(left))
            name = SUMMARY + summary.name
            self._keep(stored, name, partial(self._summarised, stored, summary), summary.version)

    def _attack(self, stored: StoredAudit, attack: Attack, target: Target) -> None:
        from core.attacks.registry import checked

        report = self._report(attack.name)
        self._keep(stored, attack.name, lambda: checked(attack, attack.run(target, report)), attack.version)

    def _summarised(self, stored: StoredAudit, summary: Summary) -> dict[str, pd.DataFrame]:
        corpus = self.run.as_read(self.workspace.corpus(self.run.spec.corpus, store=False))
        frame = summary.frame(Audited(self.run, corpus, stored))
        return {} if frame is None else {summary.name: frame}

    def _keep(self, stored: StoredAudit, name: str, make: Callable[[], dict[str, pd.DataFrame]], version: int) -> None:
        """Store what `make` returns, or that it failed, or cannot be done on this cohort, and why."""
        from core.attacks.registry import NotPossible

        self._check_stop()
        begun = time.monotonic()
        tables: dict[str, pd.DataFrame] = {}
        state: Literal["done", "failed", "not possible"] = "done"
        message = ""
        try:
            tables = make()
        except Cancelled:
            raise
        except NotPossible as error:
            state, message = "not possible", str(error)
        except Exception as error:  # whatever went wrong in one attack is that attack's own affair
            state, message = "failed", f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begun
        stored.record(Outcome(name, state, round(seconds, 3), message, tuple(tables), version, time.time()), tables)
        self.diary.emit("outcome", attack=name, state=state, seconds=seconds, message=message)

    def _report(self, attack: str) -> Report:
        """Progress of one attack with the time that is left, told now and then; raises when the audit is stopped.

        An attack may count through several things one after the other (models, then notes): each count starts anew.
        """
        begun, told, last = time.monotonic(), 0.0, 0

        def report(done: int, total: int) -> None:
            nonlocal begun, told, last
            self._check_stop()
            now = time.monotonic()
            if done < last or done == 0:
                begun = now
            last = done
            if now - told >= EVENT_SECONDS or done == total:
                told = now
                left = (now - begun) / done * (total - done) if done else None
                self.diary.emit("progress", attack=attack, done=done, total=total, eta_seconds=left)

        return report

    def _check_stop(self) -> None:
        if self.stop():
            raise Cancelled(f"The audit of run {self.run.id} was cancelled; the attacks that were done are kept.")


def _is_done(one: Attack | Summary, outcome: Outcome | None) -> bool:
    if outcome is None or outcome.state not in ("done", "not possible"):  # cohorts do not change
        return False
    return outcome.version == one.version


def summaries() -> tuple[Summary, ...]:
    """The tables that are made of the attacks' tables, in the order in which they are made."""
    from core.evaluation.defences.filter_evasion import WALK_AROUND
    from core.evaluation.membership.summary import MEMBERSHIP
    from core.evaluation.memorisation.summary import MEMORISATION
    from core.evaluation.probes.figures import PROBE_FIGURES

    return (MEMBERSHIP, *MEMORISATION, PROBE_FIGURES, *WALK_AROUND)
