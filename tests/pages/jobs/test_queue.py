"""The queue of a class on the pages: students see all of it and change their own; the instructor changes the rest."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.jobs.engine import Engine, Job
from core.jobs.limits import Limits, User
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, PrivacySpec, RunSpec, recipe
from pages.parts.jobs import monitor
from pages.parts.jobs.battery import LABEL
from pages.parts.jobs.sentences import already_trained
from pages.parts.session import seat
from tests.pages.visit import visit

KEY = "3f2a-91bc-77de-0a45-c3d8"
TINY = {"cohort": "tiny", "epsilon": "2", "batch_private_16": "16", "epochs_private_45": "2"}
OTHER = User("session-somebody-else")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """The engine behind the pages of a class, which never starts a worker."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_INSTRUCTOR_KEY", KEY)
    return Engine.connect(workspace=Workspace(tmp_path))


def spec_of(seed: int) -> RunSpec:
    return RunSpec(corpus=CORPUS_PRESETS["smoke"], training=recipe("gpt2", seed=seed))


def keys(app: AppTest) -> set[str]:
    return {button.key for button in app.button}


def submitted(engine: Engine, *others: str) -> tuple[AppTest, str]:
    """The page Train after somebody pressed Train on it, and their job, the only one besides `others`."""
    app = visit("train", **TINY)
    app.button(key="train").click().run()
    app.run()
    (own,) = [job.id for job in engine.jobs() if job.id not in others]
    return app, own


def test_a_student_cancels_their_own_job_only(engine: Engine) -> None:
    other = engine.submit(spec_of(7), OTHER).id
    app = visit("train", **TINY)
    limits = "2 jobs at a time, 20 minutes per job, 90 minutes of jobs in any 24 hours"
    assert any(limits in told.value for told in app.caption)
    app.button(key="train").click().run()
    assert not app.exception
    app.run()
    (own,) = [job.id for job in engine.jobs() if job.id != other]
    assert f"cancel-queue-{own}" in keys(app) and f"cancel-queue-{other}" not in keys(app)
    assert not any(key and key.startswith("first-") for key in keys(app)) and "queue-close" not in keys(app)
    app.button(key=f"cancel-queue-{own}").click().run()
    assert not app.exception and [job.id for job in engine.jobs() if job.active] == [other]


@pytest.mark.parametrize(("second", "is_the_same"), [("a" * 22, True), ("b" * 22, False)])
def test_a_student_who_reloads_the_page_keeps_the_job(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, second: str, is_the_same: bool
) -> None:
    """The browser's cookie says who it is; another browser may not cancel the job."""
    monkeypatch.setattr(seat, "_kept", lambda: "a" * 22)
    _, own = submitted(engine)
    monkeypatch.setattr(seat, "_kept", lambda: second)
    reloaded = visit("train", **TINY)
    assert (f"cancel-queue-{own}" in keys(reloaded)) == is_the_same
    assert any("yours" in shown.value for shown in reloaded.markdown) == is_the_same
    assert "a" * 22 not in (engine.workspace.root / "jobs").joinpath("queue.sqlite").read_bytes().decode("latin-1")


def test_a_student_sees_that_the_instructor_cancelled_the_job(engine: Engine) -> None:
    app, own = submitted(engine)
    engine.cancel(own, User("session-of-the-instructor", KEY))
    app.run()
    assert not app.exception and any("Cancelled by the instructor" in told.value for told in app.caption)
    app.button(key="train").click().run()
    app.run()
    app.button(key=f"cancel-queue-{own}").click().run()
    assert engine.status(own).message == "Cancelled."


def test_a_hidden_job_of_another_user_is_counted_as_what_it_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list has one job, before which another one waits: not “next”, and not one more of the list."""
    hidden = CORPUS_PRESETS["smoke"].model_copy(update={"seed": 99})
    other = engine.submit(spec_of(7).model_copy(update={"corpus": hidden}), OTHER).id
    monkeypatch.setattr(Workspace, "shows", lambda self, corpus: corpus != hidden)
    app, own = submitted(engine, other)
    assert f"cancel-queue-{own}" in keys(app) and not any(other in key for key in keys(app) if key)
    assert any(told.value.startswith("1 waiting or running") for told in app.caption)
    assert any(told.value == "Waiting: 1 job of all users ahead" for told in app.caption)
    engine.cancel(other)
    app.run()
    assert any(told.value == "Waiting: next" for told in app.caption)


def test_a_disk_that_is_full_when_a_job_is_cancelled_is_a_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, own = submitted(engine)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/cancel")

    monkeypatch.setattr(Engine, "cancel", full)
    app.button(key=f"cancel-queue-{own}").click().run()
    assert not app.exception
    assert any("The disk is full: /data/cancel could not be written" in told.value for told in app.error)


def test_a_third_job_is_refused_in_a_sentence(engine: Engine) -> None:
    app, _ = submitted(engine)
    app.number_input(key="training_seed").set_value(1).run()
    app.button(key="train").click().run()
    app.number_input(key="training_seed").set_value(2).run()
    app.button(key="train").click().run()
    assert not app.exception
    assert any("You have 2 jobs waiting or running" in error.value for error in app.error)
    assert len(engine.jobs()) == 2


def test_a_job_that_is_too_long_is_refused_in_a_sentence(engine: Engine) -> None:
    app = visit("train", **TINY)
    app.number_input(key="epochs_private_45").set_value(900).run()
    engine.limits = type(engine.limits)(minutes=1, key=KEY)
    app.button(key="train").click().run()
    assert any("× 900 epochs); the limit here is 1 minute" in error.value for error in app.error)


def test_the_key_makes_an_instructor_of_this_session_alone(engine: Engine) -> None:
    first, second = engine.submit(spec_of(1), OTHER).id, engine.submit(spec_of(2), OTHER).id
    app = visit("train", **TINY)
    submit = next(button.proto for button in app.button if button.key == "instructor-enter")
    assert submit.is_form_submitter and submit.form_id == app.text_input(key="instructor_typed").proto.form_id, "Enter"
    app.text_input(key="instructor_typed").set_value("3f2a")
    app.button(key="instructor-enter").click().run()
    assert any("Wrong key" in error.value for error in app.error) and "queue-close" not in keys(app)
    app.text_input(key="instructor_typed").set_value(f" {KEY} ")
    app.button(key="instructor-enter").click().run()
    assert not app.exception and not app.error
    app.button(key=f"first-{second}").click().run()
    assert [job.id for job in engine.jobs()] == [second, first]
    app.button(key="queue-close").click().run()
    assert engine.queue_closed and any("The queue is closed" in warning.value for warning in app.warning)
    student = visit("train", **TINY)
    assert "queue-close" not in keys(student) and f"cancel-queue-{first}" not in keys(student)
    student.button(key="train").click().run()
    assert any("The queue is closed" in error.value for error in student.error)
    app.button(key=f"cancel-queue-{first}").click().run()
    assert [job.id for job in engine.jobs() if job.active] == [second]
    app.button(key="instructor-leave").click().run()
    assert "queue-close" not in keys(app) and f"cancel-queue-{second}" not in keys(app)


@pytest.mark.parametrize(("key", "opens"), [("1234", False), ("eleven-char", False), ("twelve-chars", True)])
def test_a_key_that_is_soon_guessed_opens_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, key: str, opens: bool
) -> None:
    monkeypatch.setenv("PHILAB_INSTRUCTOR_KEY", key)
    app = visit("train", **TINY)
    app.text_input(key="instructor_typed").set_value(key)
    app.button(key="instructor-enter").click().run()
    assert ("queue-close" in keys(app)) == opens
    assert opens or "fewer than 12 characters, so it could be guessed" in app.error[0].value


def test_the_full_battery_is_limited_too(engine: Engine, smoke_workspace: Path, smoke_specs) -> None:
    for folder in ("corpora", "runs"):
        shutil.copytree(smoke_workspace / folder, engine.workspace.root / folder)
    run_id = smoke_specs["plain"].run_id
    engine.close_queue(True)
    app = visit("probes", run=run_id)
    next(button for button in app.button if button.label == LABEL).click().run()
    assert not app.exception and any("The queue is closed" in error.value for error in app.error)
    engine.close_queue(False)
    engine.submit_audit(run_id, OTHER)
    assert not any(button.label == "Cancel" for button in visit("probes", run=run_id).button)


def test_a_job_that_ends_while_the_page_is_drawn_gives_the_button_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, own = submitted(engine)
    assert any("waiting or running" in told.value for told in app.info)
    draw = monitor.train_button

    def ends(spec: RunSpec) -> bool:
        asked = draw(spec)
        engine.cancel(own)
        return asked

    monkeypatch.setattr(monitor, "train_button", ends)
    app.run()
    assert app.button(key="train") and not any("waiting or running" in told.value for told in app.info)


def test_on_ones_own_computer_there_is_no_instructor(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PHILAB_INSTRUCTOR_KEY")
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "own"))
    alone = Engine.connect(workspace=Workspace(tmp_path / "own"))
    other = alone.submit(spec_of(7), OTHER).id
    app = visit("train", **TINY)
    assert f"cancel-queue-{other}" in keys(app) and "instructor-enter" not in keys(app)


def test_a_scheduler_that_does_not_answer_is_said_once_and_jobs_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_SCHEDULER", "tcp://127.0.0.1:9")
    engine = Engine.of_server(Workspace(tmp_path))
    engine._hand_over()
    app = visit("train", **TINY)
    app.button(key="train").click().run()
    (warning,) = [told.value for told in app.warning if "scheduler" in told.value]
    assert "does not answer" in warning and "Jobs wait" in warning
    assert not app.exception and not app.error
    assert [job.state for job in engine.jobs()] == ["queued"]
    engine.close()


def test_jobs_on_notes_of_others_are_counted_and_nothing_else_is_said_of_them(engine, monkeypatch) -> None:
    shows = Workspace.shows
    monkeypatch.setattr(Workspace, "shows", lambda self, corpus: corpus.seed != 99 and shows(self, corpus))
    captions = [one.value for one in visit("train", **TINY).caption]
    assert any(one.startswith("No jobs yet. Everyone sees this list, except") for one in captions)
    spec = spec_of(7)
    engine.submit(spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"seed": 99})}), OTHER)
    app = visit("train", **TINY)
    said = "1 job on other users' uploaded notes is running or waiting"
    assert [one.value.startswith(f"{said}. Choose the settings") for one in app.info].count(True) == 1
    captions = [one.value for one in app.caption]
    assert any(one.startswith(f"{said}; no other jobs yet. Everyone sees this list, except") for one in captions)
    assert not any("Nothing is being trained" in one.value for one in app.info) and not any(
        "watch-" in k for k in keys(app)
    )
    app, own = submitted(engine, *[job.id for job in engine.jobs()])
    captions = [one.value for one in app.caption]
    assert any(one.startswith(f"1 waiting or running, 0 finished here. {said}. Everyone") for one in captions)
    assert any(one == "Waiting: 1 job of all users ahead" for one in captions), "the private one"


@pytest.mark.parametrize(("settings", "promised"), [({}, True), ({"noise_source": "secret"}, False)])
def test_the_same_settings_give_the_same_run_unless_the_noise_is_secret(settings: dict, promised: bool) -> None:
    said = already_trained(RunSpec(corpus={}, privacy=PrivacySpec(target_epsilon=8.0, **settings)))
    assert said.startswith("Already trained") and ("always give the same run" in said) == promised
    assert ("would give another model" in said) != promised


def test_a_training_that_ends_while_the_queue_is_drawn_is_listed_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    """The jobs are read before the runs, and the run may be finished between the two."""
    root = shutil.copytree(smoke_workspace, tmp_path / "data")
    monkeypatch.setenv("PHILAB_DATA", str(root))
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    spec = smoke_specs["plain"]
    ending = Job(spec.run_id, spec, "running", "", 0.0, None)
    monkeypatch.setattr(monitor, "_shown_and_private", lambda: ([ending], ""))
    app = visit("train", **TINY)
    assert not app.exception
    assert [button.key for button in app.button].count(f"watch-{spec.run_id}") == 1


def test_a_job_that_was_cancelled_is_shown_as_cancelled_after_a_reload(engine: Engine, monkeypatch) -> None:
    """Another tab may have cancelled it: “Nothing is being trained” would leave the reader to guess."""
    monkeypatch.setattr(engine, "limits", Limits())
    _, own = submitted(engine)
    engine.cancel(own)
    app = visit("train", **TINY)
    assert "Last training" in [one.value for one in app.header]
    assert any("cancelled" in shown.value for shown in app.markdown)
    assert not any("Nothing is being trained" in told.value for told in app.info)


def test_in_a_class_another_student_s_cancelled_job_is_not_shown_as_one_s_own(engine: Engine) -> None:
    other = engine.submit(spec_of(7), OTHER).id
    engine.cancel(other, OTHER)
    app = visit("train", **TINY)
    assert any("Nothing is being trained" in told.value for told in app.info)
    assert "Last training" not in [one.value for one in app.header]
