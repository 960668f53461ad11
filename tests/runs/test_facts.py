"""What a run is, as facts; and its model card, which says the same."""

from __future__ import annotations

import json
import math
import re

import pandas as pd
import pytest

from core.evaluation.registry import on_card
from core.runs.card import write_card
from core.runs.facts import SPEAKS_OF, hipaa_rows, limits, run_facts
from core.runs.ledger.choice import Choice
from core.runs.store import DEMO, Workspace
from core.spec import CorpusSpec, DefenceSpec, ModelSpec, PrivacySpec, RiskLimit, RunSpec
from core.training.accounting.mechanism import Mechanism


@pytest.fixture(scope="module")
def workspace(smoke_workspace):
    return Workspace(smoke_workspace, shared=())


def test_hipaa_rows_tell_figures_from_the_metrics_and_what_was_not_tested(workspace, smoke_specs):
    metrics = workspace.run(smoke_specs["plain"].run_id).metrics
    rows = {row["number"]: row for row in hipaa_rows(metrics)}
    at = metrics.set_index(["metric", "arm"])["value"]
    assert list(rows) == list(range(1, 19))
    assert rows[1]["value"] == at["field_patients:full_name", "run"]
    assert rows[1]["control"] == at["field_patients:full_name", "heldout"]
    assert [number for number, row in rows.items() if row["tested"] == "yes"] == [4, 6, 7, 8]
    assert [number for number, row in rows.items() if row["tested"] == "partly"] == [1, 2, 3, 18]
    without = {row["number"]: row for row in hipaa_rows(metrics[~metrics["metric"].str.startswith("exposure")])}
    assert without[18]["tested"] == "no"


def test_the_model_card_says_the_same(workspace, smoke_specs, tmp_path):
    run = workspace.run(smoke_specs["dp"].run_id)
    folder = tmp_path / run.id
    folder.mkdir()
    write_card(folder, run.spec, run.privacy, run.metrics, on_card())
    card = (folder / "README.md").read_text()
    facts = run_facts(run.id, run.spec, run.privacy, run.metrics)
    for sentence in (facts.about, facts.training, facts.promise, *facts.limits):
        assert sentence in card
    assert "two runs that differ in one note" in card and "relatives" in card, "what the unit leaves out"
    for row in run.metrics[run.metrics["metric"].isin(on_card())].to_dict("records"):
        assert f"| {row['metric']} | {row['arm']} | {row['value']:.4g} |" in card
    for row in facts.hipaa:
        assert f"| {row['number']} | {row['identifier']} | {row['tested']} |" in card
    assert json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL).group(1)) == run.spec.model_dump(mode="json")


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_a_promise_says_whom_it_leaves_out(workspace, smoke_specs, unit):
    run = workspace.run(smoke_specs["dp"].run_id)
    privacy = run.privacy.model_copy(update={"unit": unit})
    limits = " ".join(run_facts(run.id, run.spec, privacy, run.metrics).limits)
    assert f"two runs that differ in one {unit}" in limits and "relatives" in limits and "the same." in limits
    assert "relatives" in SPEAKS_OF[unit] and not any(
        sentence in run_facts(run.id, run.spec, None, run.metrics).limits for sentence in SPEAKS_OF.values()
    ), "without privacy there is no promise to limit"


def test_a_public_seed_is_no_promise_and_a_secret_key_is_one(workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    public, secret, plain = (
        run_facts(run.id, run.spec, mechanism, run.metrics)
        for mechanism in (run.privacy, run.privacy.model_copy(update={"noise_source": "secret"}), None)
    )
    assert public.promise.endswith("Reproducible: ε is shown, not promised.")
    assert "not promised" not in secret.promise and secret.promise in public.promise
    told = {name: " ".join(facts.limits) for name, facts in (("public", public), ("secret", secret), ("plain", plain))}
    again = "generate the noise again"
    assert again in told["public"] and again not in told["secret"] + told["plain"]
    assert "destroyed when training ended" in told["secret"] and "destroyed" not in told["public"] + told["plain"]
    assert (public.guarantee["noise_source"], secret.guarantee["noise_source"]) == ("public seed", "secret")


@pytest.mark.parametrize("limit", [RiskLimit(right=0.6), RiskLimit(caught=0.05, accused=0.01)])
def test_a_limit_on_the_attacker_is_stated_of_one_training_and_not_of_the_best_of_several(
    workspace, smoke_specs, limit
):
    """One step with σ = 1.974 allows 60 right guesses of 100; the largest of 100 such outputs (η = 1) allows 66.6."""
    run = workspace.run(smoke_specs["dp"].run_id)
    spec = run.spec.model_copy(update={"privacy": PrivacySpec(noise_multiplier=1.974, risk_limit=limit)})
    mechanism = run.privacy.model_copy(update={"noise_source": "secret"})
    alone = run_facts("x", spec, mechanism, run.metrics).promise
    chosen = run_facts("x", spec, mechanism, run.metrics, Choice.of(100, 1.0, "loss on public notes")).promise
    assert alone.endswith(f"σ was chosen by a limit on the attacker. {limit.sentence(mechanism.unit)}")
    assert limit.sentence(mechanism.unit) not in chosen and "of 100" not in chosen.split("accountant")[1]
    assert "by a limit on the attacker for one run" in chosen and "no such limit is known" in chosen


def test_what_epsilon_assumes_of_the_base_and_what_imported_notes_reveal_beside_it(workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    other = run.spec.model_copy(update={"model": ModelSpec(base="gpt2"), "corpus": imported(run.spec)})

    def said(spec: RunSpec, mechanism: Mechanism | None) -> str:
        return " ".join(run_facts(run.id, spec, mechanism, run.metrics).limits)

    shipped, public = said(run.spec, run.privacy), said(other, run.privacy)
    assumed, hashed = (
        "assumes that the base model, gpt2, read none",
        "can check by an id whether one more was among them",
    )
    assert assumed in public and hashed in public and "assumes that the base" not in shipped and hashed not in shipped
    assert not {assumed, hashed} & {part for part in (assumed, hashed) if part in said(other, None)}, "no ε, no limit"


def imported(spec: RunSpec) -> CorpusSpec:
    return spec.corpus.model_copy(update={"imported": "0" * 16})


def test_every_shipped_card_of_a_private_run_says_that_its_epsilon_is_not_promised():
    shipped = Workspace("nowhere", shared=(DEMO,)).runs()
    private = [run for run in shipped if run.noise_source is not None]
    assert len(private) >= 37 and {run.noise_source for run in private} == {"public seed"}
    for run in private:
        card = (run.folder / "README.md").read_text(encoding="utf-8")
        assert "Reproducible: ε is shown, not promised." in card and "fresh, secret seed" not in card


def test_a_card_says_where_there_is_no_interval(workspace, smoke_specs, tmp_path):
    run = workspace.run(smoke_specs["plain"].run_id)
    metrics = run.metrics.assign(low=math.nan, high=math.nan)
    (tmp_path / run.id).mkdir()
    write_card(tmp_path / run.id, run.spec, None, metrics, on_card())
    figures = (tmp_path / run.id / "README.md").read_text().split("## Quick audit")[1].split("##")[0]
    assert "| none |" in figures and "nan" not in figures


def test_the_card_of_a_run_on_imported_notes_says_which_values_count_for_no_patient(workspace, smoke_specs, tmp_path):
    run = workspace.run(smoke_specs["plain"].run_id)
    imported = run.spec.corpus.model_copy(update={"imported": "0" * 16})
    for corpus, said in ((imported, 1), (run.spec.corpus, 0)):
        write_card(tmp_path, run.spec.model_copy(update={"corpus": corpus}), None, run.metrics, on_card())
        figures = (tmp_path / "README.md").read_text().split("## Quick audit")[1].split("##")[0]
        assert figures.count("that several patients have") == said


def test_a_promise_about_brought_notes_speaks_of_those_that_were_left(workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    brought = run.spec.corpus.model_copy(update={"imported": "0" * 16, "deduplicated": "near"})
    theirs = run_facts("x", run.spec.model_copy(update={"corpus": brought}), run.privacy, run.metrics)
    assert "the notes that were left after copies had been removed" in theirs.promise
    assert "70 %" not in theirs.training, "they may have splits of their own"
    assert not any("which patients are members" in one for one in theirs.limits)
    given = run.spec.model_copy(update={"corpus": brought.model_copy(update={"split": "given"})})
    for mechanism in (run.privacy, None):
        assert sum("said which patients are members" in one for one in limits(mechanism, given)) == 1
    told = run_facts("x", run.spec, run.privacy, run.metrics)
    assert "copies" not in told.promise and "70 % of them members" in told.training


def test_a_defence_on_the_notes_is_told(workspace, smoke_specs):
    run = workspace.run(smoke_specs["plain"].run_id)
    defended = run.spec.model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)})
    assert "training notes scrubbed (recall 95 %)" in run_facts("x", defended, None, run.table("metrics")).training
    assert "scrubbed" not in run_facts("x", run.spec, None, run.table("metrics")).training


@pytest.mark.parametrize(("epochs", "told"), [(1, " 1 epoch, "), (4, " 4 epochs, ")])
def test_epochs_and_delta_are_written_as_people_write_them(workspace, smoke_specs, epochs, told):
    run = workspace.run(smoke_specs["dp"].run_id)
    training = run.spec.training.model_copy(update={"epochs": epochs})
    mechanism = run.privacy.model_copy(update={"delta": 1e-5})
    facts = run_facts("x", run.spec.model_copy(update={"training": training}), mechanism, run.metrics)
    assert told in facts.training
    assert ", 10⁻⁵)-differential privacy" in facts.promise


def test_shares_stand_with_their_own_intervals():
    rows = [("field_patients:ssn", "run", 0.4, 0.3, 0.5), ("field_patients:ssn", "heldout", 0.2, 0.1, 0.25)]
    metrics = pd.DataFrame(rows, columns=["metric", "arm", "value", "low", "high"])
    (row,) = [row for row in hipaa_rows(metrics) if row["tested"] != "no"]
    names = ("value", "low", "high", "control", "control_low", "control_high")
    assert [row[name] for name in names] == [0.4, 0.3, 0.5, 0.2, 0.1, 0.25]


def test_the_public_model_of_imported_notes_read_no_notes_of_a_hospital(workspace, smoke_specs):
    run = workspace.run(smoke_specs["base"].run_id)
    spec = run.spec.model_copy(update={"corpus": imported(run.spec)})
    told = [run_facts("x", one, None, run.metrics).promise for one in (run.spec, spec)]
    assert told == [f"The model was never trained on {whose} notes." for whose in ("the hospital's", "the imported")]
