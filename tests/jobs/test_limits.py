"""What a user may ask for, and who may change the queue: held by the engine, whatever a page shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from core.attacks.battery import applicable
from core.common.files import make_folder
from core.jobs import limits
from core.jobs.engine import Engine
from core.jobs.limits import CLASS, Limits, Refused, User
from core.jobs.queues.own import Queue, Ticket
from core.jobs.times import expected
from core.jobs.times.costs import audit_stages, whole
from core.jobs.times.expected import request_of
from core.jobs.times.notes import USUAL_CHARACTERS, expected_notes, notes_read
from core.runs.run import RunNotFound
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, recipe

KEY = "3f2a-91bc-77de-0a45-c3d8"
ANNA, BEN, TEACHER = User("session-anna"), User("session-ben"), User("session-teacher", KEY)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine of a class, which never starts a worker."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_CLASS", "1")
    monkeypatch.setenv("PHILAB_INSTRUCTOR_KEY", KEY)
    return Engine(Workspace(tmp_path, shared=()))


def test_a_class_is_strict_and_ones_own_computer_generous() -> None:
    assert Limits.of({}) == Limits() and not Limits.of({}).in_class
    assert Limits.of({"PHILAB_CLASS": "1", "PHILAB_INSTRUCTOR_KEY": KEY}).jobs == CLASS.jobs == 2
    assert Limits.of({"PHILAB_INSTRUCTOR_KEY": KEY}).in_class, "a key alone makes a class"


def test_each_limit_has_its_variable() -> None:
    told = Limits.of({"PHILAB_JOBS_PER_USER": "7", "PHILAB_MINUTES_PER_JOB": "none", "PHILAB_QUEUE": " 9 "})
    assert (told.jobs, told.minutes, told.queue, told.day_minutes) == (7, None, 9, Limits().day_minutes)
    for odd in ("-1", "many", "1e9", "²", "9" * 40):
        assert Limits.of({"PHILAB_JOBS_PER_USER": odd}).jobs == Limits().jobs, "what cannot be read lifts no limit"


def test_in_a_class_without_a_key_nobody_is_the_instructor() -> None:
    alone = Limits.of({"PHILAB_CLASS": "1"})
    assert alone.in_class and not any(alone.instructs(User("x", typed)) for typed in ("", "\0", " ", "none"))
    assert alone.instructs(None), "the machine's owner is"


def test_where_people_have_roles_the_role_decides_and_no_key_helps() -> None:
    for told in (Limits(), Limits.of({"PHILAB_INSTRUCTOR_KEY": KEY}), Limits.of({"PHILAB_CLASS": "1"})):
        assert told.instructs(User("x", "", True))
        assert not told.instructs(User("x", KEY, False))


def test_a_run_of_200_000_patients_and_1_000_epochs_is_refused_everywhere(tmp_path: Path) -> None:
    corpus = CorpusSpec(patients=200_000, canaries=0, canary_patients=0)
    spec = RunSpec(corpus=corpus, training=recipe("gpt2").model_copy(update={"epochs": 1_000}))
    request = request_of(spec, Workspace(tmp_path, shared=()))
    for told in (Limits(), CLASS):
        with pytest.raises(Refused, match=r"about 24 days \(700,000 notes × 1,000 epochs\)"):
            limits.check(told, request, own=0, everybody=0, day_minutes=0)


def test_copies_of_canaries_count_in_the_limits(engine: Engine) -> None:
    """Four patients with one note each, and canaries that are copied 64 times: 23,000 notes."""
    corpus = CorpusSpec(
        **{"patients": 4, "population": 0, "notes_per_patient": 1, "canaries": 2_520, "canary_copies": 64}
    )
    spec = RunSpec(corpus=corpus, training=recipe("gpt2").model_copy(update={"epochs": 1_000}))
    with pytest.raises(Refused, match="notes × 1,000 epochs"):
        engine.submit(spec, ANNA)


def test_imported_notes_are_counted_where_they_are_stored(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Notes of 10,000 characters, and more of them per patient than a cohort's settings can say."""
    splits = ["member"] * 3 + ["heldout"]
    rows = [
        {"note_id": f"N{at}", "patient_id": f"P{at % 4}", "split": splits[at % 4], "text": "x" * 10_000}
        for at in range(1_200)
    ]
    rows += [{"note_id": f"S{at}", "patient_id": "P0", "split": "member", "text": "short"} for at in range(100)]
    corpus = CorpusSpec(
        patients=4, population=0, notes_per_patient=200, canaries=0, canary_patients=0, imported="0" * 16
    )
    cohort = make_folder(engine.workspace.root / "corpora" / corpus.digest())
    pd.DataFrame(rows).to_parquet(cohort / "notes.parquet")
    training = recipe("gpt2").model_copy(update={"epochs": 60})
    spec = RunSpec(corpus=corpus, training=training, privacy=PrivacySpec(target_epsilon=8.0))
    long = 10_000 / USUAL_CHARACTERS
    found = notes_read(spec, cohort)
    assert (found.trained, found.every) == pytest.approx((900 * long + 100, 1_200 * long + 100))
    capped = RunSpec(corpus=corpus, training=training.model_copy(update={"max_notes_per_patient": 310}))
    assert notes_read(capped, cohort).trained == pytest.approx(900 * long + 10), "each patient's first notes"
    assert request_of(spec, Workspace(tmp_path, shared=())).minutes < CLASS.minutes, "by its settings it would pass"
    monkeypatch.setattr(Workspace, "corpus_folder", lambda self, spec: cohort)
    with pytest.raises(Refused, match="notes × 60 epochs"):
        engine.submit(spec, ANNA)


def test_what_a_class_is_for_fits_into_its_limits(tmp_path: Path) -> None:
    """By the shipped audits, on a machine that has made none yet. DistilBERT's takes longest."""
    nothing = Workspace(tmp_path)
    for kind in ("gpt2", "distilbert", "bert"):
        for privacy in (PrivacySpec(), PrivacySpec(target_epsilon=8.0)):
            corpus, training = CORPUS_PRESETS["classroom"], recipe(kind, privacy)
            spec = RunSpec(corpus=corpus, model=ModelSpec(kind=kind), privacy=privacy, training=training)
            assert request_of(spec, nothing).minutes < CLASS.minutes
            a_note = expected._seconds_a_note(expected._audits(spec, nothing, expected_notes)[0])
            attacks = [attack.name for attack in applicable(kind)]
            audit = audit_stages(spec, attacks, expected_notes(spec), a_note, of=len(attacks))
            assert whole(audit) / 60 < CLASS.minutes


def test_a_user_has_so_many_jobs_and_the_others_are_not_held_up(engine: Engine, smoke_spec: Callable) -> None:
    for seed in range(2):
        engine.submit(smoke_spec(seed=seed), ANNA)
    with pytest.raises(Refused, match="You have 2 jobs waiting or running, and the limit here is 2"):
        engine.submit(smoke_spec(seed=2), ANNA)
    with pytest.raises(RunNotFound):
        engine.status(smoke_spec(seed=2).run_id)
    assert not engine.workspace.work(smoke_spec(seed=2).run_id).exists(), "nothing is left of what was refused"
    assert engine.submit(smoke_spec(seed=0), BEN).active, "what waits already is nobody's second job"
    assert engine.submit(smoke_spec(seed=3), BEN).active and engine.submit(smoke_spec(seed=4), TEACHER).active
    assert engine.submit(smoke_spec(seed=5), TEACHER).active and engine.submit(smoke_spec(seed=6), TEACHER).active
    engine.cancel(smoke_spec(seed=1).run_id, ANNA)
    assert engine.submit(smoke_spec(seed=2), ANNA).active, "one was cancelled, so another may be asked for"


def test_minutes_of_a_day_and_the_whole_queue(engine: Engine, smoke_spec: Callable) -> None:
    minutes = request_of(smoke_spec(), engine.workspace).minutes
    engine.limits = Limits(jobs=None, minutes=None, day_minutes=2.5 * minutes, queue=3, key=KEY)
    engine.submit(smoke_spec(seed=1), ANNA)
    engine.submit(smoke_spec(seed=2), ANNA)
    with pytest.raises(Refused, match="in the last 24 hours"):
        engine.submit(smoke_spec(seed=3), ANNA)
    engine.cancel(smoke_spec(seed=2).run_id, ANNA)
    engine.submit(smoke_spec(seed=3), ANNA)
    engine.submit(smoke_spec(seed=4), BEN)
    with pytest.raises(Refused, match="3 jobs are already waiting or running"):
        engine.submit(smoke_spec(seed=5), BEN)
    assert engine.submit(smoke_spec(seed=5)).active, "the command line is the owner's: no limits"


def test_a_job_that_failed_may_be_submitted_again_within_the_minutes_of_a_day(
    engine: Engine, smoke_spec: Callable
) -> None:
    engine.limits = Limits(
        jobs=None, minutes=None, day_minutes=1.5 * request_of(smoke_spec(), engine.workspace).minutes, key=KEY
    )
    run_id = engine.submit(smoke_spec(), ANNA).id
    with engine._lock:
        ticket = engine._queue.get(run_id)
        engine._queue.end(ticket)
        engine._record_end(ticket, "failed", "the disk was full", wanted=True)
    assert engine.status(run_id).state == "failed"
    assert engine.submit(smoke_spec(), ANNA).active, "it resumes, so its minutes count once"
    with pytest.raises(Refused, match="in the last 24 hours"):
        engine.submit(smoke_spec(seed=1), ANNA)


def test_only_owners_and_the_instructor_cancel(engine: Engine, smoke_spec: Callable) -> None:
    run_id = engine.submit(smoke_spec(), ANNA).id
    assert engine.owns(run_id, ANNA) and not engine.owns(run_id, BEN)
    for other in (BEN, User("session-ben", "3f2a-91bc-77de-0a45-c3d9"), User("")):
        assert not engine.may_cancel(run_id, other)
        with pytest.raises(Refused, match="instructor"):
            engine.cancel(run_id, other)
    assert engine.status(run_id).state == "queued"
    assert engine.cancel(run_id, ANNA).state == "cancelled"
    engine.submit(smoke_spec(), ANNA)
    assert engine.cancel(run_id, TEACHER).state == "cancelled"
    engine.submit(smoke_spec())
    with pytest.raises(Refused):
        engine.cancel(run_id, ANNA)


def test_the_instructor_moves_jobs_and_closes_the_queue(engine: Engine, smoke_spec: Callable) -> None:
    ids = [engine.submit(smoke_spec(seed=seed), TEACHER).id for seed in range(3)]
    for refused in (lambda: engine.move(ids[2], 0, ANNA), lambda: engine.close_queue(True, ANNA)):
        with pytest.raises(Refused, match="Only the instructor"):
            refused()
    engine.move(ids[2], 0, TEACHER)
    assert [job.id for job in engine.jobs()] == [ids[2], ids[0], ids[1]]
    assert [job.position for job in engine.jobs()] == [0, 1, 2]
    with pytest.raises(Refused, match="is no longer waiting"):
        engine.move("gpt2-000000000000", 0, TEACHER)
    engine.close_queue(True, TEACHER)
    with pytest.raises(Refused, match="The queue is closed"):
        engine.submit(smoke_spec(seed=9), ANNA)
    assert engine.submit(smoke_spec(seed=9), TEACHER).active
    engine.close_queue(False, TEACHER)
    assert engine.submit(smoke_spec(seed=8), ANNA).active


def test_a_job_that_a_worker_has_keeps_its_place(smoke_spec: Callable) -> None:
    class Busy:
        def done(self) -> bool:
            return False

    queue = Queue()
    for number in range(4):
        queue.add(Ticket(str(number), smoke_spec(), 0.0))
    queue.get("0").future = Busy()
    queue.move("3", 0)
    assert [ticket.job_id for ticket in queue.live()] == ["0", "3", "1", "2"]
    with pytest.raises(KeyError):
        queue.move("0", 2)


def test_without_a_key_everybody_at_the_page_may_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smoke_spec: Callable
) -> None:
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    for name in ("PHILAB_CLASS", "PHILAB_INSTRUCTOR_KEY"):
        monkeypatch.delenv(name, raising=False)
    engine = Engine(Workspace(tmp_path, shared=()))
    run_id = engine.submit(smoke_spec(), ANNA).id
    assert engine.cancel(run_id, BEN).state == "cancelled", "a page that was loaded again is another session"


def test_a_key_does_not_show_in_what_is_printed() -> None:
    assert KEY not in repr(TEACHER) and KEY not in repr(Limits(key=KEY))


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0.2, "1 minute"),
        (0, "0 minutes"),
        (90, "90 minutes"),
        (1_440, "24 hours"),
        (8_640, "6 days"),
        (9e7, "62,500 days"),
    ],
)
def test_minutes_in_words(minutes: float, words: str) -> None:
    assert limits._minutes(minutes) == words


def test_the_limits_of_one_user_in_words() -> None:
    one = limits.Limits(jobs=1, minutes=20.0, day_minutes=None)
    assert limits.in_words(one, False) == ["1 job at a time", "20 minutes per job"]
    assert limits.in_words(limits.Limits(), False)[-1] == "48 hours of jobs in any 24 hours"
