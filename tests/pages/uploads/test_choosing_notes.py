"""Choosing among one's uploads."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.pages.uploads.own_run import OWNER, bring
from tests.pages.visit import ROOT, WAIT


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
