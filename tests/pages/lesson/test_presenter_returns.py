"""A presenter whose page was reloaded, or who opens an older address, leads the class on. Ending it asks once more."""

from __future__ import annotations

import pytest

from pages.parts.session import classroom, seat
from tests.pages.lesson.test_page_lesson import link, press, served
from tests.pages.visit import said, visit

__all__ = ["served"]  # the fixture
SEAT = "presenters-own-browser"  # as long as a seat


@pytest.fixture
def same_browser(monkeypatch):
    """Every session has the cookie of one browser."""
    assert len(SEAT) == 22
    monkeypatch.setattr(seat, "_kept", lambda: SEAT)


def keys(app) -> set[str]:
    return {one.key for kind in ("button", "toggle") for one in app.get(kind)}


def back(app, page: str, address: dict[str, str]):
    """The browser's Back button: another entry of the history, in the same session."""
    app.query_params.clear()
    app.query_params.update(address)
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return app


def test_back_to_the_address_with_the_key_makes_a_counted_browser_the_presenter(served):
    host = press(visit("lesson", step="1"), "class-open")
    address = {name: link(host, name) for name in ("step", "room", "round", "host")}
    counts = classroom.classroom().counts
    app = visit("patients", room=address["room"])  # reloaded there, by a browser without cookies
    assert "class-lead" not in keys(app) and counts(address["room"]).joined == 1
    back(app, "lesson", address)
    assert {"class-lead", "class-reset"} <= keys(app) and link(app, "host") == address["host"]
    assert counts(address["room"]).joined == 0, "the presenter is no student"


def test_a_wrong_key_in_the_link_of_a_student_changes_nothing(served):
    code = link(press(visit("lesson", step="1"), "class-open"), "room")
    student = back(visit("lesson", room=code), "lesson", {"room": code, "host": "A" * 12})
    assert "class-lead" not in keys(student) and classroom.classroom().counts(code).joined == 1


@pytest.mark.parametrize("asked", [{}, {"step": "1"}])
def test_a_presenter_who_opens_an_older_address_resumes_where_the_class_is(served, asked):
    host = press(visit("lesson", step="1"), "class-open")
    code, key = link(host, "room"), link(host, "host")
    host.toggle(key="class-lead").set_value(True).run()
    press(press(host, "lesson-next"), "lesson-next")
    student = visit("lesson", room=code)
    assert "step 3 of 5" in said(student)
    again = visit("lesson", room=code, host=key, **asked)
    assert link(again, "step") == "3"
    student.run()
    assert "step 3 of 5" in said(student), "the class was not taken back"


def test_a_presenter_who_comes_back_from_another_page_resumes_at_its_step(served):
    host = press(visit("lesson", step="1"), "class-open")
    code, key = link(host, "room"), link(host, "host")
    host.toggle(key="class-lead").set_value(True).run()
    press(host, "lesson-next")
    host.switch_page("pages/glossary.py").run()
    assert classroom.classroom().counts(code).lead.page == "glossary"
    assert link(visit("lesson", room=code, host=key), "step") == "2"


def test_the_presenters_browser_leads_on_after_a_reload_of_another_page(served, same_browser):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    host.toggle(key="class-lead").set_value(True).run()
    again = visit("patients", room=code)
    assert "class-lead" in keys(again) and "host" not in again.query_params, "the screen is shared"
    counts = classroom.classroom().counts
    assert counts(code).joined == 0 and counts(code).lead.page == "patients"
    again.toggle(key="class-lead").set_value(False).run()
    assert counts(code).lead is None
    assert "class-lead" not in keys(visit("lesson", room=code)), "the same browser rehearses as a student"


def test_a_page_from_the_menu_keeps_the_class_in_its_address(served):
    code = link(press(visit("lesson", step="1"), "class-open"), "room")
    student = back(visit("lesson", room=code), "patients", {})
    assert (link(student, "room"), link(student, "round")) == (code, "0")
    visit("patients", room=code, round="0")  # loaded again, by a browser without cookies
    assert classroom.classroom().counts(code).joined == 1
    back(press(back(student, "lesson", {}), "class-leave"), "patients", {})
    assert "room" not in student.query_params and "round" not in student.query_params


def test_another_browser_gets_no_key_of_a_room(served, tmp_path):
    rooms = classroom.rooms_of(str(tmp_path))
    code, key = rooms.open()
    rooms.join(code, "a seat")
    rooms.predict(code, "a seat", 1, "a")
    rooms.present(code, "wrong key", "a seat")
    assert rooms.key_of(code, "a seat") is None and rooms.counts(code).joined == 1
    rooms.present(code, key, "a seat")
    own = rooms.key_of(code, "a seat")
    assert own and rooms.hosts(code, own) and own.encode() not in rooms._store.read(code)
    assert rooms.counts(code).joined == 0 and rooms.counts(code).predictions[1].total() == 0
    assert rooms.key_of(code, "another seat") is None
    rooms.reset(code)
    assert rooms.key_of(code, "a seat") == own


def test_restarting_and_leaving_a_class_ask_once_more(served):
    host = press(visit("lesson", step="1"), "class-open")
    asks = {one.proto.popover.label for one in host.get("popover")}
    assert {"Restart the class", "Leave the class"} <= asks
    labels = {button.key: button.label for button in host.button}
    assert labels["class-reset"] == "Restart and delete all votes"
    assert labels["class-leave"] == "Leave and stop leading"
