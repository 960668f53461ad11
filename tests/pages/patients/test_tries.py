"""Tries on the Patients page: the list sorts by them, the card says them beside the control, or how to compute them."""

from __future__ import annotations

import math
import shutil
import time
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest

from core.evaluation.memorisation.discoverable import tries
from core.runs.audits import Outcome
from core.runs.patients import queries
from core.runs.patients.queries import PatientTables
from core.runs.store import Workspace
from core.spec import ModelSpec
from pages.parts.patients import tries as patient_tries
from pages.parts.patients.data import PAGE_SIZE
from pages.parts.session import owner
from tests.pages.visit import said, visit

opened = partial(visit, "patients")


@pytest.fixture(scope="module")
def computed(smoke_workspace, smoke_specs, tmp_path_factory):
    """A run whose audit computed tries: the n-th member's name has a chance of 1/(100·n), all else hardly any."""
    root = tmp_path_factory.mktemp("tries") / "data"
    shutil.copytree(smoke_workspace, root)
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["plain"].run_id)
    people = workspace.corpus(run.spec.corpus).patients
    members, others = (people.loc[people["split"] == split, "patient_id"].tolist() for split in ("member", "heldout"))
    rows = [(one, "member", "full_name", 1, -math.log(100 * n)) for n, one in enumerate(members, start=1)]
    rows += [(one, "heldout", "full_name", 1, -math.log(1e6 * n)) for n, one in enumerate(others, start=1)]
    rows += [(one, split, "mrn", 8, -math.inf) for one, split, *_ in rows[:-1]] + [
        (others[-1], "heldout", "mrn", 8, -1)
    ]
    table = pd.DataFrame(rows, columns=["patient_id", "split", "field", "prompt_id", "log_p"])
    outcome = Outcome(patient_tries.ATTACK, "done", 1.0, "", ("discoverable",), 1, time.time())
    workspace.audit(run.id).record(outcome, {"discoverable": table})
    return root, run.id, members, others


@pytest.fixture
def data(computed, monkeypatch):
    monkeypatch.setenv("PHILAB_DATA", str(computed[0]))
    return computed


def table_with(app, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def test_the_list_starts_with_the_fewest_tries_or_the_highest_score(data):
    _, run, members, others = data
    app = opened(run=run)
    listed = table_with(app, "one try in")
    assert listed["patient"].tolist()[:2] == [others[-1], members[0]] and len(listed) == PAGE_SIZE
    assert listed["easiest"].tolist()[:2] == ["medical record number", "full name"]
    assert listed["one try in"].tolist()[:2] == [3, 100]
    assert "fewest tries to extract a value first" in said(app)
    app = opened(run=run, first="highest score")
    assert table_with(app, "one try in")["score percentile"].is_monotonic_decreasing
    assert "highest attack score first" in said(app)


def test_the_card_says_tries_beside_the_control(data):
    _, run, members, others = data
    told = said(opened(run=run, patient=members[2]))
    assert "One in 300 tries writes this name." in told
    assert f"Control, names alone: the easiest of {len(others)} held-out patients' names takes 1 million tries" in told
    app = opened(run=run, patient=others[-1])
    assert "Easiest: medical record number, one in 3 tries; the easiest of" in said(app)
    assert "held-out patients' is never written." in said(app)
    table = table_with(app, "tries for 95 %").set_index("identifier")
    assert table.loc["medical record number", "tries for 95 %"] == f"{tries(math.exp(-1), 0.95):.0f}"
    assert table.loc["medical record number", "held out: easiest"] == "never", "the others' values, without their own"
    assert f"of {len(others) - 1} held-out" in said(app)


def test_shares_of_the_control_are_naive_counts(data, monkeypatch):
    _, run_id, members, others = data
    run = Workspace(data[0], shared=()).run(run_id)
    monkeypatch.setattr(owner, "workspace", lambda: Workspace(data[0], shared=()))
    found = patient_tries.tries_table(run, members[0]).set_index("field")
    assert found.loc["full_name", "one_in"] == pytest.approx(100) and found.loc["full_name", "others_easier"] == 0
    middle = patient_tries.tries_table(run, others[1]).set_index("field").loc["full_name"]
    assert middle["others"] == len(others) - 1 and middle["others_easier"] == pytest.approx(1 / (len(others) - 1))
    assert patient_tries.tries_table(run, "nobody").empty


def test_without_the_attack_the_page_says_how_to_get_it(smoke_workspace, smoke_specs, monkeypatch):
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    run = smoke_specs["plain"].run_id
    app = opened(run=run)
    assert "one try in" not in table_with(app, "caught by").columns
    assert any(f'core audit {run} --suite full --attack "tries to extract"' in one.value for one in app.markdown)
    assert "highest attack score first" in said(app)


def test_a_masked_model_has_no_tries():
    masked = SimpleNamespace(id="r", spec=SimpleNamespace(model=ModelSpec(kind="bert")))
    said_of_it = patient_tries.missing_tries(masked)
    assert "GPT-2 only" in said_of_it and "does not continue" not in said_of_it, "Playground shows that it does"


def test_the_list_names_the_easiest_members_beside_the_easiest_held_out_patient():
    """By hand: the members' medians are 10 notes of the first ten and 5 of all twenty."""
    members = pd.DataFrame({"patient_id": [f"P{n:02}" for n in range(20)], "split": "member"})
    members = members.assign(notes=[10] * 10 + [0] * 10, easiest="full_name", one_in=[182.0 + n for n in range(20)])
    other = {"patient_id": "H1", "split": "heldout", "notes": 3, "easiest": "mrn", "one_in": 123_754.0}
    found = pd.concat([members, pd.DataFrame([other])])
    first = "Easiest members: P00 (full name, one in 180 tries), P01 (full name, one in 180 tries), P02 (full name, "
    assert patient_tries.easiest_sentence(found) == (
        f"{first}one in 180 tries). Control, any identifier: the easiest of the 1 held-out patients in this list takes "
        "120,000 tries (medical record number). The 10 easiest members have 10 notes (median), all members 5."
    )
    easy = patient_tries.easiest_sentence(found.assign(one_in=[360_000.0] * 20 + [250_000.0]))
    assert "250,000 tries (medical record number). No member is easier than that, so these tries are no sign" in easy
    few = found[found["split"] == "member"].head(3)
    assert patient_tries.easiest_sentence(few) == f"{first}one in 180 tries)."
    assert patient_tries.easiest_sentence(few.assign(one_in=math.nan)) == ""


def test_the_line_stands_above_the_list_by_tries_alone(data):
    _, run, members, others = data
    told = said(opened(run=run))
    assert f"Easiest members: {members[0]} (full name, one in 100 tries)" in told
    assert f"any identifier: the easiest of the {len(others)} held-out patients in this list takes 3 tries (" in told
    assert "Easiest members" not in said(opened(run=run, first="highest score"))


def test_a_value_that_several_patients_have_is_nobodys_easiest(computed):
    """Its tries do not show whose it is: for the list and its control the next value of the patient counts."""
    root, run_id, members, others = computed
    workspace = Workspace(root, shared=())
    folder = workspace.corpus_folder(workspace.run(run_id).spec.corpus)
    tables = PatientTables(folder / "patients.parquet", folder / "notes.parquet")
    file = next(iter(workspace.audit(run_id).files("discoverable").values()))
    easiest = {
        shared: tables.ask(queries._EASIEST, tries=str(file), shared=[f"{others[-1]} {field}" for field in shared])
        for shared in ((), ("mrn",), ("mrn", "full_name"))
    }
    fields = {shared: found.set_index("patient_id")["easiest"] for shared, found in easiest.items()}
    assert [fields[shared].get(others[-1]) for shared in fields] == ["mrn", "full_name", None]
    assert all(found[members[0]] == "full_name" for found in fields.values())
