"""An analyst's way: notes from a file, a model of them, a bucket of patients, one patient, and a file to take away."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Error, Page, expect

from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS
from tests.browser.served import (
    WAIT,
    downloaded,
    finished_run,
    first_patient,
    listening,
    no_traceback,
    settled,
    to_entry,
    type_in,
)
from tests.browser.test_screens import cut_texts

RUDE = '<img src=x onerror="alert(1)"> 👩‍⚕️'  # the name of a column


@pytest.fixture(scope="module")
def ward(tmp_path_factory) -> tuple[Path, Path]:
    """Notes under odd column names, with markup and a formula among them, and their patients' identifiers."""
    hospital = build(CORPUS_PRESETS["smoke"])
    notes = hospital.notes[hospital.notes["split"] != "canary"][["text", "patient_id"]]
    notes = notes.rename(columns={"text": RUDE, "patient_id": "Fall"}).assign(ward='=HYPERLINK("http://x")')
    folder = tmp_path_factory.mktemp("ward")
    notes.to_csv(folder / "ward.csv", index=False)
    people = hospital.patients[["patient_id", "full_name", "age", "sex", "icd_codes"]]
    people.assign(icd_codes=people["icd_codes"].map(" ".join)).to_csv(folder / "people.csv", index=False)
    return folder / "ward.csv", folder / "people.csv"


def upload(page: Page, number: int, path: Path) -> None:
    """Give a file to the first or second box for files, until it holds it: a page that is drawn anew loses it."""
    box = page.locator("[data-testid=stFileUploader]").nth(number)
    for _ in range(4):
        settled(page)
        with contextlib.suppress(Error, AssertionError):
            box.locator("input[type=file]").set_input_files(path)
            expect(box.get_by_text(path.name, exact=True).first).to_be_visible(timeout=WAIT / 4)
            return settled(page)
    raise AssertionError(f"the box does not take {path.name}")


def choose(page: Page, label: str, option: re.Pattern) -> None:
    """Pick from a select box until it holds the option: a page that is drawn anew closes its list."""
    box = page.get_by_role("combobox", name=label, exact=True)
    for _ in range(24):
        settled(page)
        with contextlib.suppress(Error):
            box.click(timeout=WAIT / 24)
            page.get_by_role("option", name=option).first.click(timeout=WAIT / 24)
            settled(page)
            if option.search(box.input_value(timeout=WAIT / 24)):
                return
    raise AssertionError(f"the box {label} does not take {option.pattern}")


def to_page(page: Page, title: str) -> None:
    """Go by the menu: the address bar would start another session, which sees no brought notes."""
    to_entry(page, title)
    expect(page.get_by_role("heading", level=1, name=title)).to_be_visible(timeout=WAIT)
    settled(page)


def test_from_a_file_to_a_patient_to_a_file(tab, server, data, ward, shot):
    fired: list[str] = []
    with listening(tab, "dialog", lambda dialog: (fired.append(dialog.message), dialog.dismiss())):
        from_a_file_to_a_file(tab, server, data, ward, shot)
    assert fired == []
    no_traceback(tab)

    tab.reload()  # another session: nothing of the notes is there
    settled(tab)
    expect(tab.get_by_text("own notes of", exact=False)).to_have_count(0)


def from_a_file_to_a_file(tab: Page, server: str, data: Path, ward: tuple[Path, Path], shot) -> None:
    """The whole way; leaves the tab on Patients."""
    tab.goto(f"{server}/cohort?cohort=my+notes")
    settled(tab)
    upload(tab, 0, ward[0])
    upload(tab, 1, ward[1])
    expect(tab.get_by_text("Choose the column for:", exact=False)).to_be_visible(timeout=WAIT)
    choose(tab, "Text of the note", re.compile("onerror"))
    choose(tab, "Patient", re.compile("^Fall$"))
    tab.locator(".st-key-own_check button").click()
    use = tab.locator(".st-key-own_use button")
    expect(use).to_be_visible(timeout=WAIT)
    settled(tab)
    expect(tab.get_by_test_id("stMetricValue").nth(1)).to_have_text("32")
    shot(tab, "analyst-1-checked", full=True)
    use.click()
    written = tab.get_by_role("button", name="I have written it down")  # the deletion code, shown once
    expect(written).to_be_visible(timeout=WAIT)
    written.click()
    expect(tab.get_by_text("ward.csv: only you see", exact=False)).to_be_visible(timeout=WAIT)

    to_page(tab, "Train")
    expect(tab.get_by_text("Your notes: 32 patients", exact=False)).to_be_visible(timeout=WAIT)
    for label, value in (("Epochs", "1"), ("Batch size", "32")):
        type_in(tab, label, value)
    tab.locator(".st-key-train button").click()
    expect(tab.locator("[data-testid=stProgress]").first).to_be_visible(timeout=WAIT)
    to_page(tab, "Glossary")  # Train would draw the training every second, which costs more than the training
    finished_run(data, lambda run: run.spec.corpus.imported is not None and run.spec.privacy.private)

    to_page(tab, "Patients")
    model = tab.get_by_role("combobox", name="Model", exact=True)
    expect(model).to_have_value(re.compile("own notes of 32 patients"), timeout=WAIT)  # what was trained opens the page
    choose(tab, "Bucket (1 = rarest profiles)", re.compile("^1$"))
    expect(tab.get_by_text(re.compile(r"patients in bucket 1"))).to_be_visible(timeout=WAIT)
    settled(tab)
    patient = first_patient(tab)
    assert cut_texts(tab) == []
    shot(tab, "analyst-2-patient", full=True)
    file = downloaded(tab, tab.locator("[class*=st-key-download-patients-][class*=-bucket-1] button"))
    frame = pd.read_csv(file.path())
    assert frame["patient"].iloc[0] == patient
    assert set(frame["patient"]) <= set(pd.read_csv(ward[1])["patient_id"]) and frame["profile"].notna().all()


def test_a_broken_file_is_a_sentence(tab, server, tmp_path):
    tab.goto(f"{server}/cohort?cohort=my+notes")
    settled(tab)
    path = tmp_path / "broken.csv"
    path.write_bytes(b'patient_id,text\nP1,"never closed\nP2,fine\n')
    upload(tab, 0, path)
    expect(tab.get_by_text("row 2: a quote was opened here and never closed", exact=False)).to_be_visible(timeout=WAIT)
    expect(tab.locator(".st-key-own_check")).to_have_count(0)
    no_traceback(tab)
