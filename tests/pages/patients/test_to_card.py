"""From other pages to a patient's card: the model stays the same, and no id of a real note gets into the address."""

from __future__ import annotations

import shutil

import pytest
from streamlit.testing.v1 import AppTest

from core.phi.spans import Span
from core.runs.run import Run
from core.runs.store import Workspace
from pages.parts.patients import to_card
from pages.parts.playground.side_by_side import Answer, Try
from pages.parts.session import gone
from tests.pages.uploads import own_run
from tests.pages.visit import ROOT, WAIT, visit

TEXT = "Seen today: Ann Lee."


@pytest.fixture(scope="module")
def brought(smoke_workspace, smoke_specs, tmp_path_factory) -> tuple[Run, str]:
    """A run that was trained on uploaded notes, and one of its members."""
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("brought") / "data")
    _, run = own_run.give(root, smoke_workspace, smoke_specs["plain"])
    people = Workspace(root, shared=()).corpus(run.spec.corpus).patients.set_index("split")["patient_id"]
    return run, people["member"].iloc[1]


def opened(page: str, run: Run, box: str, monkeypatch) -> AppTest:
    monkeypatch.setenv("PHILAB_DATA", str(run.folder.parents[1]))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    app.session_state["owner_of_this_session"] = own_run.OWNER
    app.run()
    app.query_params[box] = run.id
    return app.switch_page(f"pages/{page}.py")


def shows_card(app: AppTest, run: Run, patient: str) -> bool:
    """Whether this is Patients with the card of the patient, whom the address does not name."""
    assert not app.exception and patient not in str(app.query_params)
    assert app.selectbox(key="pick_run").value == run.id and app.text_input(key="patient").value == patient
    return any(header.value.startswith(f"Patient {patient}") for header in app.header)


def test_forget_opens_the_card_of_its_own_model(data, smoke_specs):
    run_id = smoke_specs["plain"].run_id
    app = visit("forget")
    (link,) = (one.proto for one in app.get("page_link") if one.proto.label == "This patient's card")
    patient = app.selectbox(key=f"forget-patient-{run_id}").value
    assert set(link.query_string.split("&")) == {f"run={run_id}", f"patient={patient}"}


def test_forget_opens_the_card_of_an_uploaded_patient_without_naming_them_in_the_address(brought, monkeypatch):
    run, patient = brought
    app = opened("forget", run, "run", monkeypatch).run()
    app.selectbox(key=f"forget-patient-{run.id}").set_value(patient).run()
    assert "This patient's card" not in [one.proto.label for one in app.get("page_link")]
    assert shows_card(app.button(key="forget-card").click().run(), run, patient)


def test_a_chip_opens_the_card_of_an_uploaded_patient_without_naming_them_in_the_address(brought, monkeypatch):
    run, patient = brought
    app = opened("playground", run, "left", monkeypatch)
    leak = Span(12, 19, "full_name", "Ann Lee", "leak", patient_ids=(patient,))
    app.session_state["tries"] = [Try("Re:", (Answer(run.id, (0,), (TEXT,), ((leak,),)),))]
    app.run()
    assert not app.exception
    assert shows_card(app.button(key=f"who0-{patient}-card").click().run(), run, patient)


def test_the_box_stays_empty_for_another_model_and_after_notes_are_gone(monkeypatch, brought):
    run, patient = brought
    state = {to_card._ASKED: ("another", patient)}
    monkeypatch.setattr(to_card.st, "session_state", state)
    to_card.take(run)
    assert state == {}
    state[to_card._ASKED] = (run.id, patient)
    to_card._drop_gone(gone.Still(frozenset(), frozenset({"0" * 12})))
    assert state == {}


def test_forget_shows_the_picked_patient_of_an_upload_again_after_another_page(brought, monkeypatch):
    run, patient = brought
    app, key = opened("forget", run, "run", monkeypatch).run(), f"forget-patient-{run.id}"
    app.selectbox(key=key).set_value(patient).run()
    app.switch_page("pages/glossary.py").run()
    app.switch_page("pages/forget.py").run()
    assert not app.exception and app.selectbox(key=key).value == patient and patient not in str(app.query_params)
