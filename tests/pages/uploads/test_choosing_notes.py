"""Choosing among one's uploads, and numbers of the form that are out of their range."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.uploads.own_run import OWNER, bring
from tests.pages.visit import ROOT, WAIT, visit

WARD = b"text,patient_id\nSeen on the ward and sent home.,1\nSeen again and sent home.,2\n"


def test_uploads_under_one_name_can_all_be_chosen(monkeypatch, tmp_path):
    root = tmp_path / "data"
    monkeypatch.setenv("PHILAB_DATA", str(root))
    two = [bring(root), bring(root, without=4)]
    other = bring(root, name="ward 8", without=8)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    app.session_state["owner_of_this_session"] = OWNER
    app.run()
    app.query_params["cohort"] = "my notes"
    app.switch_page("pages/train.py").run()
    names = [f"ward 7 ({upload.digest[:6]})" for upload in two]
    assert not app.exception and set(app.selectbox(key="own_cohort").options) == {*names, "ward 8"}
    for upload in (*two, other):
        app.selectbox(key="own_cohort").set_value(upload.digest).run()
        assert not app.exception and app.session_state["own_cohort"] == upload.digest


@pytest.mark.parametrize(
    ("key", "typed", "told"),
    [
        ("own_canaries", 601, "“Canary sentences” takes a number from 0 to 600, not 601."),
        ("own_seed", -1, "“Seed” takes a number from 0 to 1,000,000, not -1."),
    ],
)
def test_notes_are_not_checked_with_a_number_that_is_not_typed(monkeypatch, tmp_path, key, typed, told):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    app = visit("cohort", cohort="my notes")
    app.file_uploader(key="own_file").set_value(("ward.csv", WARD, "text/csv")).run()
    box = app.number_input(key=key)
    assert box.min is None and box.max is None, "the browser would keep the number back"
    app = box.set_value(typed).run()
    assert [error.value for error in app.error] == [told]
    assert "own_check" not in {one.key for one in app.button}
