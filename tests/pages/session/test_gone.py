"""A session keeps nothing of notes that were deleted, wherever that was done."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.__main__ import main
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.uploads.records import Upload, record_file, write_record
from core.serving.server import Sampling, Stream
from core.spec import CORPUS_PRESETS, RunSpec
from pages.parts.auditor import guesses
from pages.parts.auditor.deck import Card
from pages.parts.forget import data as forget_data
from pages.parts.pickers import gone_models
from pages.parts.playground import prompt_session
from pages.parts.playground.side_by_side import Answer, Live, Try
from pages.parts.session import gone
from pages.parts.session.room_values import Vote
from tests.pages.uploads import own_run
from tests.pages.visit import ROOT, WAIT

STILL = gone.Still(uploads=frozenset(), lost=frozenset({"0" * 12}))
TYPED = "Patient: Zora Quill"


def answered(prompt: str, *run_ids: str) -> Try:
    return Try(prompt, tuple(Answer(run_id, (0,), (f"by {run_id}",), ((),)) for run_id in run_ids))


class _State(dict):
    """A session's state: a dictionary that is also read and written by attributes."""

    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


@pytest.fixture
def state(monkeypatch) -> _State:
    """The state of a session that may see the run `kept` alone."""
    found = _State()
    monkeypatch.setattr(prompt_session.st, "session_state", found)
    monkeypatch.setattr(gone, "visible_runs", lambda: frozenset({"kept"}))
    return found


def test_what_a_run_that_is_gone_was_asked_goes_with_its_prompt(state):
    state.tries = [
        answered("Patient:", "kept"),
        answered("Patient:", "lost", "kept"),
        answered(TYPED, "kept", "lost"),
        answered(TYPED, "kept"),
        answered("Diagnosis:", "kept"),
    ]
    prompt_session._drop_gone(STILL)
    assert [(one.prompt, [answer.run_id for answer in one.answers]) for one in state.tries] == [
        ("Patient:", ["kept"]),
        ("Diagnosis:", ["kept"]),
    ], "a prompt that was typed may hold what is in the notes; an example may not"


def test_prompts_that_wait_go_with_the_notes_unless_they_are_examples(state):
    state.update(queued=TYPED, queued_seed=7, linked=("Patient:", 5), refused=TYPED, refused_because="too long")
    prompt_session._drop_gone(replace(STILL, lost=frozenset()))
    assert state["queued"] == state["refused"] == TYPED, "nothing is gone"
    prompt_session._drop_gone(STILL)
    assert TYPED not in repr(state) and state["linked"] == ("Patient:", 5)
    assert prompt_session.unqueue("typed") and state == {} and not prompt_session.unqueue("typed")


@pytest.fixture
def own(state, monkeypatch, tmp_path) -> Upload:
    """An upload of this session, with its record."""
    upload = Upload("0" * 12, "me", "ward", CORPUS_PRESETS["smoke"], 0.0, 1.0)
    monkeypatch.setattr(gone.owner, "workspace", lambda: SimpleNamespace(root=tmp_path))
    monkeypatch.setattr(gone.owner, "owner", lambda: "me")
    monkeypatch.setattr(gone, "_drops", {})
    write_record(tmp_path, upload)
    gone.drop()
    return upload


def test_a_deletion_elsewhere_is_said_after_one_here_and_a_new_upload(own, tmp_path):
    gone.deleted_here(own.digest)
    record_file(tmp_path, own.digest).unlink()
    gone.drop()
    assert not gone.lost()
    write_record(tmp_path, own)
    gone.drop()
    record_file(tmp_path, own.digest).unlink()
    gone.drop()
    assert gone.lost() == {own.digest}


def test_a_record_that_cannot_be_read_for_a_moment_is_not_lost(own, monkeypatch, tmp_path):
    seen: list[gone.Still] = []
    monkeypatch.setattr(gone, "_drops", {"one": seen.append})
    read = Path.read_bytes

    def refuse(_: Path) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    gone.drop()
    monkeypatch.setattr(Path, "read_bytes", read)
    gone.drop()
    record_file(tmp_path, own.digest).unlink()
    gone.drop()
    assert [(set(one.uploads), set(one.lost)) for one in seen] == [({own.digest}, set())] * 2 + [(set(), {own.digest})]


@pytest.mark.parametrize(("shown", "said"), [("kept", "Still shown: a name."), ("new", "Shown instead: a name.")])
def test_what_is_shown_where_a_model_is_gone(state, monkeypatch, shown, said):
    warned: list[str] = []
    monkeypatch.setattr(gone_models.st, "warning", lambda words, **_: warned.append(words))
    monkeypatch.setattr(gone_models.shell, "same_page", lambda: True)
    run = {name: SimpleNamespace(id=name, spec=RunSpec(corpus={})) for name in ("kept", "lost", "new")}
    gone_models.say("runs", [run["kept"], run["lost"]], {"kept", "lost"}, "")
    for _ in range(2):
        gone_models.say("runs", [run[shown]], {"kept", "new"}, "a name")
    assert len(warned) == 2 and all(one.endswith(said) for one in warned)


@pytest.mark.parametrize(("run_id", "stays"), [("kept", True), ("lost", False)])
def test_an_answer_that_is_being_written_is_stopped_if_its_run_is_gone(state, run_id, stays):
    stream = Stream(run_id, "Zq", (5,), Sampling(), texts=["words"])
    state.live = Live("Zq", 0, (SimpleNamespace(id=run_id),), (stream,))
    prompt_session._drop_gone(STILL)
    assert ("live" in state) == stays and stream.done != stays


def test_the_note_of_the_last_guess_goes_with_its_run(state):
    card = Card("a note", True, 0.7)
    vote = Vote(right=True, machine=True, helped=False)
    own = state.auditor = guesses._Own((None, None), votes={"kept": [vote], "lost": [vote]})
    own.last = {"kept": card, "lost": card}
    guesses._drop_gone(STILL)
    assert list(own.last) == list(own.votes) == ["kept"]


def test_the_patient_that_was_looked_at_is_forgotten_once_notes_are_gone(state):
    state.update({forget_data.SHOWN: "Zora Quill", "patient": "Zora Quill"})
    forget_data._drop_gone(replace(STILL, lost=frozenset()))
    assert state["patient"] == state[forget_data.SHOWN] == "Zora Quill"
    forget_data._drop_gone(STILL)
    assert state == {"patient": ""}


@pytest.fixture
def own_page(monkeypatch, tmp_path, leaky_workspace, smoke_workspace, smoke_specs) -> tuple[AppTest, Run]:
    """Playground with the owner's run on the right and another one on the left, and the owner's run."""
    root = shutil.copytree(leaky_workspace, tmp_path / "data")
    other = Workspace(root, shared=()).runs()[0].id
    _, run = own_run.give(root, smoke_workspace, smoke_specs["plain"])
    monkeypatch.setenv("PHILAB_DATA", str(root))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    app.session_state["owner_of_this_session"] = own_run.OWNER
    app.run()
    app.switch_page("pages/playground.py").run()
    app.selectbox(key="pick_left").set_value(other).run()
    app.selectbox(key="pick_right").set_value(run.id).run()
    assert not app.exception
    return app, run


def delete_elsewhere(tmp_path) -> None:
    assert main(["delete-upload", own_run.CODE, "--data", str(tmp_path / "data")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", ["playground", "glossary"])
def test_a_deletion_by_a_command_empties_what_the_owner_s_browser_kept(own_page, tmp_path, page):
    app, run = own_page
    for prompt in (TYPED, "Patient:"):
        app.chat_input[0].set_value(prompt).run()
    app.selectbox(key="pick_right").set_value(app.selectbox(key="pick_left").value).run()
    app.chat_input[0].set_value("Diagnosis:").run()
    assert not app.exception and len(app.session_state["tries"]) == 3
    delete_elsewhere(tmp_path)
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception and [one.prompt for one in app.session_state["tries"]] == ["Diagnosis:"]
    assert "Zora Quill" not in "".join(element.proto.body for element in app.get("html"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["chip", "typed", "nothing"])
def test_what_is_asked_of_a_model_that_is_gone_is_asked_of_no_other(own_page, tmp_path, caplog, how):
    app, run = own_page
    delete_elsewhere(tmp_path)
    if how == "chip":
        app.pills(key="chips").set_value("Patient:").run()
    elif how == "typed":
        app.chat_input[0].set_value("Patient:").run()
        assert app.chat_input[0].proto.value == "Patient:", "it can be sent to the models that are shown"
    else:
        app.run()
    assert not app.exception and app.session_state["tries"] == []
    said = f"The model chosen here, “{run.id}”, is gone: its notes were deleted. Shown instead:"
    assert [one.value.replace("\\", "").startswith(said) for one in app.warning].count(True) == 1
    assert not any("is not offered here" in one.value for one in app.warning), "it is said once"
    assert any("the prompt was not sent" in one.value for one in app.caption) == (how != "nothing")
    app.chat_input[0].set_value("Patient:").run()
    assert len(app.session_state["tries"]) == 1, "the next prompt is meant for the models that are shown"
    assert any("is gone" in one.value for one in app.warning), "until another model is picked"
    box, runs = app.selectbox(key="pick_right"), Workspace(tmp_path / "data", shared=()).runs()
    box.set_value(next(one.id for one in runs if one.has_model and one.id != box.value)).run()
    assert not any("chosen here" in one.value for one in app.warning)
    assert "was created with a default value" not in caplog.text
