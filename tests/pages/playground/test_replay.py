"""A recorded first answer: which attempts it takes, and that the models write the same again."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from streamlit.testing.v1 import AppTest

from core.runs.store import Workspace
from core.serving.server import Sampling, Server
from pages.parts.common import phi_text
from pages.parts.playground import replay
from pages.parts.playground.side_by_side import Answer, Try
from tests.pages.visit import WAIT

AUDITED = Sampling(new_tokens=16)  # as the audits of `leaky_workspace` sampled


@dataclass(frozen=True)
class Mark:
    """What `phi_text` reads of a span."""

    start: int
    end: int
    kind: str
    field: str = "full_name"
    patient_ids: tuple[str, ...] = ("P0001",)


@pytest.fixture
def pair(monkeypatch, leaky_workspace):
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    runs = [run for run in Workspace(leaky_workspace, shared=()).runs() if not run.spec.is_base]
    return sorted(runs, key=lambda run: run.spec.privacy.private)


def test_the_models_write_the_recorded_answer_again(pair, leaky_workspace):
    found = replay.find("Patient:", pair, 1, AUDITED, [])
    assert found is not None and set(found.answers) == {run.id for run in pair}
    server = Server(Workspace(leaky_workspace, shared=()))
    try:
        for run in pair:
            live = server.generate(run.id, "Patient:", seeds=found.seeds, sampling=AUDITED).result(WAIT)
            assert tuple(live) == found.answers[run.id].texts
    finally:
        server.close()
    assert found.answers[pair[0].id].samples_with_leak == 1 and found.answers[pair[1].id].samples_with_leak == 0


def test_without_attempts_that_would_come_again_there_is_no_replay(pair, monkeypatch):
    assert replay.find("Dear colleague,", pair, 1, AUDITED, []) is None, "the audit did not ask it"
    assert replay.find("Patient:", pair, 1, Sampling(), []) is None, "the audit wrote fewer tokens"
    assert replay.find("Patient:", pair, 2, AUDITED, []) is None, "the audit asked once"
    found = replay.find("Patient:", pair, 1, AUDITED, [])
    seen = Try("Patient:", (Answer(pair[0].id, found.seeds, ("text",), ((),)),))
    assert replay.find("Patient:", pair, 1, AUDITED, [seen]) is None, "the session has seen it"
    assert replay.find("Re:", pair, 1, AUDITED, [seen]) is not None, "but not another prompt"
    monkeypatch.setattr(replay.classroom, "room", lambda: "ABCDE")
    assert replay.find("Re:", pair, 1, AUDITED, []) is None, "a class would count one sample thirty times"


def _page() -> None:
    import streamlit as st

    from core.serving.server import Sampling
    from pages.parts.pickers import run_picker
    from pages.parts.playground import prompt_session
    from pages.parts.session import owner

    prompt_session.begin()
    pair = [run for run in run_picker.default_pair(owner.workspace().runs()) if run is not None]
    slots, notice = [st.empty() for _ in pair], st.empty()
    if st.button("Ask"):
        prompt_session.queue("Patient:")
    sampling = Sampling(new_tokens=16)
    prompt_session.answer_queued(pair, slots, notice, samples=1, first_seed=0, sampling=sampling, replayed=True)


def test_a_replayed_answer_is_drawn_first_and_counts_once_it_is_live(pair, monkeypatch):
    from pages.parts.playground import side_by_side

    drawn: list[tuple[str, ...]] = []
    really = side_by_side.draw_recorded
    monkeypatch.setattr(side_by_side, "draw_recorded", lambda *given: (drawn.append(given[1].texts), really(*given))[1])
    app = AppTest.from_function(_page, default_timeout=WAIT).run()
    app.button[0].click().run()
    assert not app.exception
    (attempt,) = app.session_state["tries"]
    assert len(drawn) == 2 and {answer.texts for answer in attempt.answers} == set(drawn)
    assert all(answer.recorded for answer in attempt.answers)
    assert app.session_state["next_seed"] == 0, "seeds of the session are not used up"
    app.button[0].click().run()
    last = app.session_state["tries"][-1].answers[0]
    assert last.seeds == (0,) and not last.recorded, "no further attempt is recorded"


def test_cards_hold_text_alone_end_at_a_word_and_light_up_when_they_leak():
    texts = ["<b>Ann Lee</b> came in to", "Nobody here.", "Bo"]
    spans = [[Mark(3, 10, "leak")], [Mark(0, 6, "invented")], []]
    drawn = phi_text.cards_html(texts, spans, prompt="<i>")
    assert drawn.count('class="phi-text phi-card phi-lit"') == 1 and drawn.count('class="phi-text phi-card"') == 2
    assert "&lt;b&gt;" in drawn and "<i>" not in drawn and "<b>Ann" not in drawn
    assert "came in …" in drawn and "Nobody" in drawn and ">Bo<" in drawn
    assert "leak: full name of patient P0001" in drawn and "<b>invented</b>" in drawn
    marked = phi_text.cards_html(["to Ann Lee"], [[Mark(3, 10, "leak")]], prompt="x")
    assert "Ann Lee<b>" in marked, "a marked word is never cut"
    assert "came in to<span" in phi_text.cards_html(texts[:1], [[]], prompt="x", growing=True)


def test_a_name_that_may_still_grow_is_not_marked(pair, monkeypatch):
    from pages.parts.playground import side_by_side

    run = pair[0]
    monkeypatch.setattr(side_by_side.owner, "workspace", lambda: Workspace(run.folder.parents[1], shared=()))
    patients = Workspace(run.folder.parents[1], shared=()).corpus(run.spec.corpus).patients
    name = patients[patients["split"] == "member"]["full_name"].iloc[0]
    growing, whole = side_by_side._written_spans((f" {name}", f" {name}, MRN"), "Patient:", run)
    assert growing == () and [span.kind for span in whole] == ["leak"]


def test_html_of_leaks_has_a_cursor_while_it_grows():
    assert phi_text.leaks_html("", [], prompt="List all.").count("wrote nothing more") == 1, "no empty place"
    assert phi_text.cards_html(["", "Ann"], [[], []], prompt="x").count("wrote nothing more") == 1
    assert "nothing" not in phi_text.leaks_html("", [], prompt="x", growing=True), "it has only just begun"
    assert phi_text.leaks_html("Ann", [], prompt="Patient:", growing=True).endswith("▍</span></div>")
