"""Why a patient has no score on the Patients page, and what a missing code counts as."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pandas as pd
import pytest

from core.runs.patients.queries import Filters
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import AuditSpec
from pages.parts.patients import card, controls
from pages.parts.patients import data as patient_data
from pages.parts.patients.data import Choice
from tests.pages.visit import visit


@pytest.fixture
def workspace(smoke_workspace, monkeypatch) -> Workspace:
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    return Workspace(smoke_workspace, shared=())


@pytest.fixture
def run(workspace, smoke_specs) -> Run:
    return workspace.run(smoke_specs["plain"].run_id)


@pytest.mark.parametrize("group", ["population", "canary"])
def test_groups_that_no_attack_judges_are_not_sent_to_another_attack(workspace, run, group):
    people = workspace.corpus(run.spec.corpus).patients
    who = people.loc[people["split"] == group, "patient_id"].iloc[0]
    infos = [one.value for one in visit("patients", run=run.id, patient=who).info]
    (info,) = [one for one in infos if "has no score" in one]
    assert info.endswith(f"(group: {group}). Attacks score only members and held-out patients.")


def test_the_reason_depends_on_whether_another_attack_has_a_score(run, monkeypatch):
    scores = pd.DataFrame({"patient_id": ["P1"]})
    tables = SimpleNamespace(scores_of=lambda attacks, ids: scores[scores["patient_id"].isin(ids)])
    monkeypatch.setattr(patient_data, "tables", lambda run: tables)
    monkeypatch.setattr(patient_data, "attacks", lambda run: {})
    part = SimpleNamespace(spec=run.spec.model_copy(update={"audit": AuditSpec(patients=600)}))
    choice = Choice(part, "loss", "patient", Filters())
    assert card._why_not_judged(choice, "P1", "member").startswith("Choose another attack")
    assert "at most 600 patients of each group" in card._why_not_judged(choice, "P2", "member")
    assert "trained without this patient" in card._why_not_judged(choice, "P2", "left out")
    whole = dataclasses.replace(choice, run=run)
    assert card._why_not_judged(whole, "P2", "member") == "No attack on this run has one."


def test_patients_without_a_known_code_are_counted(monkeypatch):
    """Their profile is that of a patient without any disease, though only the table's row may be missing."""
    choice = SimpleNamespace(run=None, level="patient")
    monkeypatch.setattr(patient_data, "without_codes", lambda run: (14, 60))
    assert controls.without_codes_text(choice) == (
        " No ICD code is known for 14 of the cohort's 60 patients. Here they count as patients without any of these "
        "diseases."
    )
    assert not controls.without_codes_text(SimpleNamespace(run=None, level="admission")), "these have no profile"
    for counts in ((0, 60), (60, 60), (0, 0)):
        monkeypatch.setattr(patient_data, "without_codes", lambda run, counts=counts: counts)
        assert not controls.without_codes_text(choice)
