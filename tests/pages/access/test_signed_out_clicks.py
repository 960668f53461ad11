"""Clicks in a tab from before its viewer signed out, or lost the role: a callback runs before the page asks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core.jobs.limits import Limits, User
from core.runs.store import Workspace
from pages.parts.access import viewer
from pages.parts.access.rules import Role
from pages.parts.forget import live
from pages.parts.session import classroom
from pages.parts.session.room_values import Vote
from tests.pages.access.conftest import person

OUT = viewer.Standing(True, why="signed out")


def standing(monkeypatch: pytest.MonkeyPatch, now: viewer.Standing) -> None:
    monkeypatch.setattr(viewer, "standing", lambda: now)


def test_only_who_is_let_in_votes(monkeypatch) -> None:
    rooms = classroom.classroom()
    code, _ = rooms.open()
    session: dict = {}
    monkeypatch.setattr("streamlit.session_state", session)
    standing(monkeypatch, OUT)
    assert not classroom.join(code) and not session
    standing(monkeypatch, viewer.Standing(True, Role.VIEWER, owner="user-a"))
    assert classroom.join(code)
    vote = Vote(right=True, machine=True, helped=False)
    classroom.voted("run", vote)
    standing(monkeypatch, OUT)
    classroom.voted("run", vote)
    classroom.predicted(1, "a")
    assert classroom.room() is None and classroom.deal("hospital", 6) is None
    assert not classroom.answered(0, 1, after=False)
    now = rooms.counts(code)
    assert (len(now.votes["run"]), now.predictions, now.joined) == (1, {}, 1)
    assert rooms.deal(code, "hospital", 6)[1].start == 0, "no note was dealt to nobody"


def test_only_who_is_let_in_cancels_a_forgetting(monkeypatch) -> None:
    cancelled: list[str] = []
    going = SimpleNamespace(user=User("user-a"), cancel=lambda: cancelled.append("yes"))
    monkeypatch.setattr(live.monitor, "engine", lambda: SimpleNamespace(limits=Limits()))
    monkeypatch.setattr("streamlit.toast", lambda *told, **how: None)
    for now in (
        OUT,
        viewer.Standing(True, Role.VIEWER, owner="user-a"),
        viewer.Standing(True, Role.TRAINER, owner="user-b"),
    ):
        standing(monkeypatch, now)
        live._cancel(going)
        assert not cancelled, now
    standing(monkeypatch, viewer.Standing(True, Role.TRAINER, owner="user-a"))
    live._cancel(going)
    assert cancelled == ["yes"]


@pytest.mark.slow
def test_a_viewer_has_no_gradients_computed_and_sees_those_that_are_there(
    opened, data, smoke_specs, monkeypatch
) -> None:
    from pages.parts.session import resources
    from pages.parts.step import gradients

    resources.forget_process()
    begun: list[str] = []
    real = gradients._read
    monkeypatch.setattr(gradients, "_read", lambda run, report: (begun.append(run.id), real(run, report))[1])
    run = smoke_specs["dp"].run_id
    monkeypatch.setenv("PHILAB_DATA", str(data))
    assert Workspace(data, shared=()).run(run)
    app = opened("step", user=person("viewer"), run=run)
    needed = "To compute the gradients of a training step, you need the role of a trainer."
    assert needed in app.info[0].value and not begun and not app.get("plotly_chart")
    assert opened("step", user=person("trainer"), run=run).get("plotly_chart") and begun == [run]
    app = opened("step", user=person("viewer"), run=run)
    assert len(app.get("plotly_chart")) == 3 and not app.info and begun == [run]
