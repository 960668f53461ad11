"""Links and words that hold scripts, in a real browser, and paths that no page links to."""

from __future__ import annotations

import pytest

from bench.faults import hostile
from tests.browser.served import settled

pytestmark = pytest.mark.browser


def test_no_script_in_a_link_or_a_box_runs(server, tab) -> None:
    pages = ["playground", "ledger", "glossary"]
    found = hostile.scripts_run(tab, server, pages, settled)
    assert found.inputs > 200 and found.exceptions == [] and found.markup == []
    tab.evaluate(f"window.{hostile.MARK} = 1")
    assert tab.evaluate(f"window.{hostile.MARK}"), "this is what a script would have left"


def test_no_path_leads_out_of_what_is_served(server, data) -> None:
    found = hostile.sent_by_hand(server, [str(data)])
    assert found.inputs > 200 and found.exceptions == [] and found.others_data == []
