"""What a report says of releases that were the best of several trainings."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pandas as pd
import pytest

from core.common.formatting import promised_text
from core.corpus.tables import Corpus
from core.evaluation.report.findings import promised_facts
from core.evaluation.report.tables import ledger_table
from core.runs.ledger.choice import Choice
from core.runs.ledger.totals import DELTA, promised
from core.training.accounting.choosing import chosen_epsilon
from tests.runs.released import SMOKE, mechanism, release

NOTES = pd.DataFrame({"patient_id": ["a", "a", "b"], "split": "member"})
COHORT = Corpus(SMOKE, pd.DataFrame(), NOTES, pd.DataFrame())
BEST = release(1, mechanism=mechanism(3.0), choice=Choice.of(10, 0.0, "loss on public notes"))


def test_totals_name_their_accountant_and_each_choice():
    told = promised_facts([BEST, release(2, mechanism=mechanism(5.0))], COHORT, DELTA)
    total = promised([BEST, release(2, mechanism=mechanism(5.0))], "note")
    note = told["totals"]["note"]
    assert note == {"releases": 2, "epsilon": total.epsilon, "accountant": "rdp", "choices": 1}
    alone = promised_text(chosen_epsilon(mechanism(3.0), 10))
    assert told["sentences"] == [
        f"For the patient with the most notes (2), everything together promises ε = "
        f"{promised_text(told['together'][0]['epsilon'])} at δ = 10⁻⁵.",
        f"Everything released of this cohort so far promises ε = {promised_text(total.epsilon)} at δ = 10⁻⁵ for one "
        "note. Added up by Rényi divergences (RDP), because one of them was chosen among several trainings.",
        "release 1 was released as the best of 10 expected trainings (η = 0), chosen by loss on public notes: with the "
        f"choice it has ε = {alone} at δ = 10⁻⁵ per note on its own.",
    ]
    without = promised_facts([release(1, mechanism=mechanism(3.0))], COHORT, DELTA)
    assert without["sentences"][1].endswith("for one note. Composed by PRV.") and len(without["sentences"]) == 2


def test_the_json_of_a_choice_follows_the_schema():
    schema = json.loads((files("core.evaluation.report") / "report.schema.json").read_text(encoding="utf-8"))
    told = promised_facts([BEST], COHORT, DELTA)
    checker = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **schema["properties"]["promised"]})
    assert list(checker.iter_errors(told)) == []
    del told["totals"]["note"]["accountant"]
    assert len(list(checker.iter_errors(told))) == 1


def test_the_table_of_releases_has_the_choice_and_its_cost():
    table = ledger_table([BEST, release(2, mechanism=mechanism(5.0))])
    assert table["chosen"].tolist() == ["best of 10 expected trainings (η = 0), chosen by loss on public notes", ""]
    assert table["epsilon"].tolist() == [
        pytest.approx(chosen_epsilon(mechanism(3.0), 10)),
        pytest.approx(mechanism(5.0).epsilon()),
    ]
