"""The attack that computes tries: its table on a run of the real pipeline, and models that know names or none."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pandas as pd
import pytest

from core.attacks.battery import REGISTRY, applicable
from core.attacks.memorisation.discoverable import COLUMNS, TABLE, discoverable
from core.attacks.prompts import ASKED, PROMPTS
from core.attacks.registry import NotPossible, Target, checked
from core.corpus.tables import Corpus
from core.evaluation.memorisation.discoverable import values
from core.models.generation.continuations import begins_with
from core.models.generation.generate import sample
from core.phi.fields import DIRECT
from core.phi.written_forms import written_forms
from core.pipeline.full_audit import audit, target_of
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, RunSpec

NAMES = ["Maria Keller", "Peter Brown", "Ann Leeds", "Carl Burke", "Eve Stone", "Ida Moss"]


def target(lm, names: list[str], splits: list[str], **columns) -> Target:
    patients = pd.DataFrame({"patient_id": [f"P{n}" for n in range(len(names))], "split": splits, "full_name": names})
    corpus = Corpus(
        spec=CorpusSpec(), notes=pd.DataFrame(), patients=patients.assign(**columns), canaries=pd.DataFrame()
    )
    return Target(RunSpec(audit=AuditSpec(new_tokens=10)), corpus, {}.get, {"target": lambda report: lm})


@pytest.fixture(scope="module")
def knows_some(teach):
    return teach("gpt2", [f"{prompt.text} {name} came" for name in NAMES[:3] for prompt in PROMPTS[:2]], 60)


def run(made: Target) -> pd.DataFrame:
    return checked(REGISTRY["tries to extract"], discoverable(made, lambda done, total: None))[TABLE]


def test_members_whose_names_were_learned_take_fewer_tries(knows_some):
    made = target(knows_some, NAMES, ["member"] * 3 + ["heldout"] * 2 + ["population"])
    table = run(made)
    assert list(table.columns) == list(COLUMNS) and set(table["split"]) == {"member", "heldout"}
    assert len(table) == 5 * len(ASKED["full_name"]), "a row a patient and prompt"
    chances = values(table).query("field == 'full_name'").set_index("patient_id")["chance"]
    assert chances[["P0", "P1", "P2"]].min() > 100 * chances[["P3", "P4"]].max()
    for prompt in (1, 2):
        texts = sample(
            knows_some, [PROMPTS[prompt - 1].text] * 1_000, new_tokens=10, seeds=list(range(1_000)), batch_size=500
        )
        log_p = table[table["prompt_id"] == prompt].set_index("patient_id")["log_p"]
        for patient, name in zip(("P0", "P1", "P2"), NAMES, strict=False):
            forms = written_forms("full_name", name)
            counted = np.mean([any(begins_with(text, form) for form in forms) for text in texts])
            assert counted == pytest.approx(math.exp(log_p[patient]), abs=4 * math.sqrt(0.25 / 1_000))


def test_an_untrained_model_knows_nobody(untrained):
    made = target(untrained["gpt2"], NAMES, ["member", "heldout"] * 3)
    assert values(run(made))["chance"].max() < 1e-4


def test_swapping_the_groups_changes_no_chance(knows_some):
    splits = ["member"] * 3 + ["heldout"] * 3
    one, other = (run(target(knows_some, NAMES, order)) for order in (splits, splits[::-1]))
    pd.testing.assert_series_equal(one["log_p"], other["log_p"])


def test_a_cohort_without_identifiers_is_not_possible(untrained):
    with pytest.raises(NotPossible, match="no patient of this cohort"):
        discoverable(target(untrained["gpt2"], ["Cher"], ["member"]), lambda done, total: None)


def test_patients_without_a_value_are_left_out(untrained):
    made = target(untrained["gpt2"], NAMES[:2], ["member", "heldout"], ssn=["514-22-9078", None])
    assert set(run(made).query("field == 'ssn'")["patient_id"]) == {"P0"}


def test_it_is_for_causal_models_and_every_direct_identifier_has_a_prompt():
    assert "tries to extract" not in {attack.name for attack in applicable("bert")}
    assert set(ASKED) == set(DIRECT)
    assert sorted(prompt for prompts in ASKED.values() for prompt in prompts) == [one.prompt_id for one in PROMPTS]


def test_an_audit_stores_it_with_its_figures(smoke_workspace, smoke_specs, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    made = workspace.run(smoke_specs["plain"].run_id)
    stored = audit(made, workspace, attacks=["tries to extract"])
    assert stored.outcomes()["tries to extract"].state == "done"
    table = stored.table(TABLE)
    people = target_of(made, workspace).corpus.patients["split"].value_counts()
    assert table.groupby("split")["patient_id"].nunique().to_dict() == {
        split: people[split] for split in ("heldout", "member")
    }
    figures = stored.table("tries")
    assert set(figures["field"]) == {*DIRECT, "easiest"} and set(figures["arm"]) == {"run", "heldout"}
