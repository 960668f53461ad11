"""The full audit of a run: every attack of the battery that applies to its model, each stored as soon as it ends.

A failed attack is recorded and does not affect the others. Finished attacks are not repeated. Attacks of one audit
share expensive results (`core.attacks.registry.Target`): each model reads a note once. The progress of an audit is
stored beside its results, in the event log `events.jsonl` and in a `status.json` that exists only while the audit is in
progress (or has failed as a whole), so every process can read it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from core.common.errors import Cancelled
from core.evaluation.audit_summaries import Audited, Summary
from core.runs.audits import ATTACKS_FILE, Outcome, StoredAudit
from core.runs.events import (
    CANCEL_FILE,
    STATUS_FILE,
    EventLog,
    Listener,
    Status,
    asked_to_cancel,
    read_status,
    write_status,
)
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace

if TYPE_CHECKING:
    from core.attacks.registry import Attack, Report, Target

EVENT_SECONDS = 0.5  # shortest time between two reports of progress
SUMMARY = "summary: "  # prefix of a summary's name among the names of attacks

log = logging.getLogger(__name__)


def target_of(run: Run, workspace: Workspace) -> Target:
    """The run as attacks see it; each of its models is loaded when an attack first needs it."""
    from core.attacks.membership.reference import reference_models
    from core.attacks.registry import Target
    from core.pipeline import shadows

    corpus = run.as_read(workspace.corpus(run.spec.corpus, store=False))
    models = {"target": lambda report: run.model()}
    kept = shadows.made(run.spec, workspace)
    trained = partial(shadows.scores, files=kept) if kept else None
    target = Target(run.spec, corpus, run.table, models, own_words=run.vocabulary, shadows=trained)
    models["base"] = lambda report: target.public()
    models.update(reference_models(target, workspace.references(run.spec.corpus)))
    return target


def audit(
    run: Run,
    workspace: Workspace,
    *,
    attacks: Sequence[str] | None = None,
    again: bool = False,
    on_event: Listener | None = None,
    should_stop: Callable[[], bool] | None = None,
    asked_again: Callable[[], bool] | None = None,
) -> StoredAudit:
    """Run the battery on a run and return what is stored. Finished attacks are not repeated, except with `again`.

    Args:
        run: A complete run with its weights.
        workspace: Where audits are stored, beside the runs.
        attacks: Names from the registry; by default all that apply to the run's kind of model.
        again: Also repeat finished attacks.
        on_event: Called with every event that is appended to the audit's log: `{"event": "attack", "attack", "number",
            "of"}` before each attack, `{"event": "progress", "attack", "done", "total", "eta_seconds"}` within it and
            `{"event": "outcome", "attack", "state", "seconds", "message"}` after it; at the end `done`, `cancelled` or
            `failed`.
        should_stop: Polled between batches; True ends the audit and keeps what is finished. By default a cancel file
            in the audit's folder does, as the Cancel button of a page writes it.
        asked_again: Asked when the audit was cancelled. True if it was submitted again since: then it waits.

    Raises:
        Cancelled: `should_stop` returned True.
        ValueError: An attack does not exist or does not apply, or the run has no weights.
        DiskFull: An attack's results could not be stored; what was finished before is kept.
    """
    chosen = chosen_attacks(run, attacks)
    check_attackable(run)
    folder = workspace.audit(run.id).folder
    stop = should_stop or asked_to_cancel(folder)
    with held(workspace.audit_lock_file(run.id), should_stop=stop) as holding, ExitStack() as at_end:
        if not holding:
            raise Cancelled(f"The audit of run {run.id} was cancelled while another process was working on it.")
        if should_stop is None:  # else the engine removes it
            (folder / CANCEL_FILE).unlink(missing_ok=True)
            at_end.callback((folder / CANCEL_FILE).unlink, missing_ok=True)
        with full_disk_as_sentence(f"the audit of run {run.id}", folder):
            workspace.begin_audit(run.id, run.spec.corpus)
            events = EventLog(folder, on_event)
            with _under_way(folder, events, asked_again or (lambda: False)):
                events.stage("notes", "Reading the notes and the model")
                return _Battery(run, workspace, events, stop).go(chosen, again)


@contextmanager
def _under_way(folder: Path, events: EventLog, asked_again: Callable[[], bool]) -> Iterator[None]:
    """Keep the audit's state on disk: `running`, then nothing when it ends or is stopped, `failed` with the reason."""
    submitted = getattr(read_status(folder), "submitted", None)  # none: not as a job
    started = time.time()
    write_status(folder, Status(state="running", submitted=submitted, started=started))
    try:
        yield
    except Cancelled as cancelled:
        now = read_status(folder)
        if now is not None and asked_again():
            write_status(folder, Status(state="queued", submitted=now.submitted))
        elif now is None or now.submitted == submitted:  # else it is the state of another submission
            events.emit({"event": "cancelled", "message": str(cancelled)})
            (folder / STATUS_FILE).unlink(missing_ok=True)
        raise
    except Exception as error:
        times = {"submitted": submitted or started, "started": started, "finished": time.time()}
        write_status(folder, Status(state="failed", message=str(error), **times))
        events.emit({"event": "failed", "message": str(error)})
        raise
    events.emit({"event": "done", "message": "The audit is complete."})
    (folder / STATUS_FILE).unlink(missing_ok=True)  # last: without this file, readers take the log as complete


def check_attackable(run: Run) -> None:
    """Raise ValueError, with a sentence, for a run without weights."""
    if not run.has_model:
        raise ValueError(
            f"Run {run.id} has no weights, so it cannot be attacked; only its quick audit's tables are available."
        )


def open_attacks(run: Run, workspace: Workspace) -> list[Attack]:
    """The attacks left for a full audit of the run: those never run, failed, or run by older code."""
    before = workspace.audit(run.id).outcomes()
    return [
        attack
        for attack in chosen_attacks(run, None)
        if not _is_done(attack.version_for(run.spec), before.get(attack.name))
    ]


def open_figures(run: Run, workspace: Workspace) -> list[Summary]:
    """The figures left for a full audit to compute from the attacks' results: never made, failed, or by older code.

    It includes figures older than an attack, after an audit that ended before its figures. Empty if no attack was run.
    """
    before = workspace.audit(run.id).outcomes()
    newest = max((one.finished for name, one in before.items() if not name.startswith(SUMMARY)), default=None)
    made = [(summary, before.get(SUMMARY + summary.name)) for summary in summaries()]
    return [
        summary
        for summary, outcome in made
        if newest is not None
        and (outcome is None or not _is_done(summary.version_for(run), outcome) or outcome.finished < newest)
    ]


def refresh_figures(run: Run, workspace: Workspace) -> tuple[str, ...]:
    """Make the outdated figures of a run's own full audit again from what its attacks stored. Returns their names.

    No attack is run. An audit that was shipped is left as it is. Raises AuditBroken, and ValueError, a sentence, for
    figures that cannot be made and for an audit that is under way.
    """
    stored = workspace.audit(run.id)
    if not (stored.folder / ATTACKS_FILE).exists() or not (left := open_figures(run, workspace)):
        return ()
    with alone(run, workspace):
        _Battery(run, workspace, EventLog(stored.folder, None), lambda: False).figures(stored, left)
    after = stored.outcomes()
    for summary in left:
        if after[SUMMARY + summary.name].state == "failed":
            raise ValueError(f"“{summary.name}” of its full audit: {after[SUMMARY + summary.name].message}")
    return tuple(summary.name for summary in left)


def outdate_figures(run: Run, workspace: Workspace) -> None:
    """Have the figures of a run's own full audit that its metrics enter made again: the metrics change.

    The caller has the run `alone`, or repairs a data folder that nothing else works on.
    """
    stored = workspace.audit(run.id)
    before = stored.outcomes() if (stored.folder / ATTACKS_FILE).exists() else {}
    for summary in summaries():
        outcome = before.get(SUMMARY + summary.name)
        if summary.from_metrics and outcome is not None:
            waiting = replace(outcome, state="failed", message="its run's metrics were made again", tables=())
            stored.record(waiting, {})


@contextmanager
def alone(run: Run, workspace: Workspace) -> Iterator[None]:
    """Hold the lock of a run's audit, for which `store prune` keeps its weights, too.

    Raises ValueError, a sentence, while another process holds it.
    """
    with held(workspace.audit_lock_file(run.id), should_stop=lambda: True) as holding:
        if not holding:
            raise ValueError("another process audits, refreshes or prunes it. Try again once that has ended")
        yield


def chosen_attacks(run: Run, names: Sequence[str] | None) -> list[Attack]:
    """The attacks with those names that apply to a run; without names, all that apply. Raises ValueError."""
    from core.attacks.battery import REGISTRY, applicable

    possible = applicable(run.spec.model.kind)
    if names is None:
        return possible
    for name in names:
        if name not in REGISTRY:
            raise ValueError(f"There is no attack “{name}”. The attacks are: {', '.join(REGISTRY)}.")
        if REGISTRY[name] not in possible:
            kinds = ", ".join(REGISTRY[name].kinds)
            raise ValueError(f"The attack “{name}” is for {kinds}, and run {run.id} is a {run.spec.model.kind} model.")
    return [attack for attack in possible if attack.name in names]


@dataclass(frozen=True)
class _Battery:
    """One audit in progress."""

    run: Run
    workspace: Workspace
    events: EventLog
    stop: Callable[[], bool]

    def go(self, attacks: Sequence[Attack], again: bool) -> StoredAudit:
        stored = self.workspace.audit(self.run.id)
        before = stored.outcomes()
        spec = self.run.spec
        open_ones = [
            attack for attack in attacks if again or not _is_done(attack.version_for(spec), before.get(attack.name))
        ]
        if open_ones:
            target = target_of(self.run, self.workspace)
            for number, attack in enumerate(open_ones, start=1):
                self.events.emit({"event": "attack", "attack": attack.name, "number": number, "of": len(open_ones)})
                self._attack(stored, attack, target)
        self.figures(stored, open_figures(self.run, self.workspace))
        return stored

    def figures(self, stored: StoredAudit, left: Sequence[Summary]) -> None:
        """Compute these figures from what the attacks have stored."""
        self.events.stage("figures", "Computing figures and their intervals from what the attacks found")
        for number, summary in enumerate(left, start=1):
            self.events.progress(number, len(left))
            name = SUMMARY + summary.name
            self._keep(stored, name, partial(self._summarised, stored, summary), summary.version_for(self.run))

    def _attack(self, stored: StoredAudit, attack: Attack, target: Target) -> None:
        from core.attacks.registry import checked

        report = self._report(attack.name)
        version = attack.version_for(self.run.spec)
        self._keep(stored, attack.name, lambda: checked(attack, attack.run(target, report)), version)

    def _summarised(self, stored: StoredAudit, summary: Summary) -> dict[str, pd.DataFrame]:
        corpus = self.run.as_read(self.workspace.corpus(self.run.spec.corpus, store=False))
        frame = summary.frame(Audited(self.run, corpus, stored))
        return {} if frame is None else {summary.name: frame}

    def _keep(self, stored: StoredAudit, name: str, make: Callable[[], dict[str, pd.DataFrame]], version: int) -> None:
        """Store what `make` returns, or the reason why it failed or is not possible on this cohort."""
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
        except Exception as error:  # a failure of any kind is recorded for this attack only
            log.exception("%s on run %s failed", name, self.run.id)
            state, message = "failed", f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begun
        stored.record(Outcome(name, state, round(seconds, 3), message, tuple(tables), version, time.time()), tables)
        self.events.emit({"event": "outcome", "attack": name, "state": state, "seconds": seconds, "message": message})

    def _report(self, attack: str) -> Report:
        """Report progress of one attack and its remaining time at intervals; raises when the audit is stopped.

        An attack may count through several things in turn (models, then notes): each count starts from 0 again.
        """
        begun, reported, last = time.monotonic(), 0.0, 0

        def report(done: int, total: int) -> None:
            nonlocal begun, reported, last
            self._check_stop()
            now = time.monotonic()
            if done < last or done == 0:
                begun = now
            last = done
            if now - reported >= EVENT_SECONDS or done == total:
                reported = now
                left = (now - begun) / done * (total - done) if done else None
                self.events.emit(
                    {"event": "progress", "attack": attack, "done": done, "total": total, "eta_seconds": left}
                )

        return report

    def _check_stop(self) -> None:
        if self.stop():
            raise Cancelled(f"The audit of run {self.run.id} was cancelled; finished attacks are kept.")


def _is_done(version: int, outcome: Outcome | None) -> bool:
    if outcome is None or outcome.state not in ("done", "not possible"):  # cohorts do not change
        return False
    return outcome.version == version


def summaries() -> tuple[Summary, ...]:
    """The tables computed from the attacks' tables, in the order in which they are made."""
    from core.evaluation.defences.filter_evasion import FILTER_EVASION
    from core.evaluation.membership.summary import MEMBERSHIP
    from core.evaluation.memorisation.summary import MEMORISATION
    from core.evaluation.probes.figures import PROBE_FIGURES

    return (MEMBERSHIP, *MEMORISATION, PROBE_FIGURES, *FILTER_EVASION)
