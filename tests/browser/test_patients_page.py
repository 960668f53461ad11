"""The Patients page as a browser shows it: from a bar to a patient to a file, and the link that restores it."""

from __future__ import annotations

import re
import shutil

import pandas as pd
import pytest
from playwright.sync_api import expect

from core.demo import demo_spec
from core.runs.store import DEMO
from tests.browser.served import (
    WAIT,
    click_at,
    downloaded,
    first_patient,
    fits,
    in_link,
    no_traceback,
    place_in,
    serving,
    settled,
)
from tests.browser.test_screens import NARROW, WIDE, cut_texts


@pytest.fixture(scope="module")
def patient_server(tmp_path_factory):
    """The app over the shipped runs: the tests' own hospitals have too few patients for a bar."""
    folder = tmp_path_factory.mktemp("patients")
    shutil.copytree(DEMO, folder / "data")
    with serving(folder / "data", folder / "log.txt") as address:
        yield address


def test_from_a_bar_to_a_patient_to_a_file(tab, patient_server, shot):
    tab.set_viewport_size(WIDE)
    tab.goto(f"{patient_server}/patients?run={demo_spec('gpt2', None, 0).run_id}")
    bars = tab.locator(".barlayer .point path")
    expect(bars.first).to_be_visible(timeout=WAIT)
    settled(tab)
    assert cut_texts(tab) == []
    shot(tab, "patients")
    chosen = tab.get_by_text(re.compile(r"patients? in bucket \d+"))
    click_at(tab, lambda: place_in(bars.last, 0.9), lambda time: expect(chosen).to_be_visible(timeout=time))
    bucket = in_link(tab, r"bucket=(\d+)").group(1)
    settled(tab)
    patient = first_patient(tab)
    shot(tab, "patients-one", full=True)
    file = downloaded(tab, tab.locator(f"[class*=st-key-download-patients-][class*=-bucket-{bucket}] button"))
    frame = pd.read_csv(file.path())
    run = demo_spec("gpt2", None, 0).run_id
    assert file.suggested_filename.startswith(f"patients-{run}-")
    assert file.suggested_filename.endswith(f"-bucket-{bucket}.csv")
    assert frame["patient"].iloc[0] == patient and frame["one try in"].dropna().is_monotonic_increasing
    tab.reload()
    expect(tab.get_by_role("heading", name=re.compile(f"^Patient {patient}"))).to_be_visible(timeout=WAIT)
    in_link(tab, f"bucket={bucket}\\b")
    in_link(tab, f"patient={patient}")
    settled(tab)
    tab.set_viewport_size(NARROW)
    shot(tab, "patients-narrow")
    fits(tab, NARROW["width"])
    no_traceback(tab)


def test_the_link_on_a_card_takes_its_patient_to_forget(tab, patient_server):
    """Streamlit drops a parameter of the link that a widget of the page it leaves is bound to."""
    tab.goto(f"{patient_server}/patients?run={demo_spec('gpt2', None, 0).run_id}&patient=P0355")
    tab.get_by_role("link", name="Forget this patient").click(timeout=WAIT)
    expect(tab.get_by_role("heading", level=1, name="Forget a patient")).to_be_visible(timeout=WAIT)
    in_link(tab, r"/forget\?.*\bout=P0355\b")
    settled(tab)
    expect(tab.get_by_label("Patient", exact=True)).to_have_value("P0355", timeout=WAIT)
    no_traceback(tab)
