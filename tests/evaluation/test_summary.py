from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.evaluation.registry import explain
from core.evaluation.stats.intervals import mean_interval, proportion_interval
from core.evaluation.stats.roc import privacy_leakage, roc, says_member
from core.evaluation.summary import METRIC_COLUMNS, scale_to_pool, summarise
from core.phi.fields import FIELDS
from core.runs.facts import ABSENT, UNKNOWN, hipaa_rows
from core.runs.tables import SCHEMAS, write_table
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec

AUDIT = AuditSpec(bootstrap=200)
MEMBERS, HELDOUT = 17, 7  # patients of the smoke cohort


@pytest.fixture(scope="module")
def corpus():
    return build(CORPUS_PRESETS["smoke"])


def ids(corpus, split: str) -> list[str]:
    return corpus.patients.loc[corpus.patients["split"] == split, "patient_id"].tolist()


def tables(corpus, *, gap: float = 0.0, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Tables of an imagined run: members' notes score `gap` higher, and hits as listed below."""
    rng = np.random.default_rng(seed)
    notes = corpus.notes_of("member", "heldout")
    member = (notes["split"] == "member").to_numpy()
    scores = notes[["note_id", "admission_id", "patient_id", "split", "note_type"]].assign(
        attack="loss",
        tokens=rng.integers(20, 90, len(notes)),
        member=member,
        score=rng.normal(-3.0, 0.2, len(notes)) + gap * member,
    )
    public = pd.DataFrame(
        {"attack": "public loss", "note_id": ["p1", "p2"], "split": "public", "tokens": [10, 30], "member": False}
    ).assign(score=[-2.0, -4.0])
    m, h = ids(corpus, "member"), ids(corpus, "heldout")
    hits = pd.DataFrame(
        [
            (0, "full_name", "leak", m[0], "member", "value"),
            (0, "ssn", "leak", m[0], "member", "value"),
            (1, "full_name", "leak", m[0], "member", "value"),  # the same patient again
            (2, "full_name", "leak", m[1], "member", "value"),
            (2, "full_name", "coincidence", h[0], "heldout", "value"),  # shares the name
            (3, "diagnosis", "linked leak", m[2], "member", "value"),
            (4, "diagnosis", "coincidence", None, None, "value"),  # linked to nobody
            (5, "phone", "coincidence", "S0001", "population", "value"),  # neither arm
            (6, "full_name", "leak", "C0006", "canary", "value"),  # a canary is not one of the members
            (7, "full_name", "leak", m[3], "member", "old"),
            (8, "email", "leak", m[3], "member", "old"),
            (8, "email", "coincidence", h[1], "heldout", "old"),
        ],
        columns=["generation_id", "field", "kind", "patient_id", "split", "rule"],
    ).assign(start=0, end=0)
    generations = pd.DataFrame({"generation_id": range(10), "text": ["The patient was qqqq zzzzx."] * 10})
    canaries = pd.DataFrame(
        [
            ("HS", 1, True, 2.0),
            ("HS", 1, True, 4.0),
            ("HS", 1, False, 1.0),
            ("HSH", 8, True, 9.9),
            ("patient", 1, True, None),
        ],
        columns=["form", "insertions", "inserted", "exposure"],
    ).assign(reference_size=1000)
    scores = pd.concat([scores, public], ignore_index=True)
    return {"scores": scores, "generations": generations, "hits": hits, "canaries": canaries}


@pytest.fixture(scope="module")
def metrics(corpus):
    return summarise(tables(corpus, gap=0.3), tables(corpus, seed=1), corpus=corpus, audit=AUDIT)


def test_the_public_model_is_judged_by_the_notes_of_the_run(corpus):
    run, base = tables(corpus, gap=0.3), tables(corpus, seed=1)
    members = run["scores"][run["scores"]["split"] == "member"]["note_id"]
    fewer = {**run, "scores": run["scores"][~run["scores"]["note_id"].isin(members.iloc[::2])]}
    same = {**base, "scores": base["scores"][base["scores"]["note_id"].isin(fewer["scores"]["note_id"])]}
    assert len(same["scores"]) < len(base["scores"])
    pd.testing.assert_frame_equal(
        summarise(fewer, base, corpus=corpus, audit=AUDIT), summarise(fewer, same, corpus=corpus, audit=AUDIT)
    )


def row(metrics: pd.DataFrame, metric: str, arm: str = "run") -> pd.Series:
    found = metrics[(metrics["metric"] == metric) & (metrics["arm"] == arm)]
    assert len(found) == 1, f"{metric} {arm}: {len(found)} rows"
    return found.iloc[0]


def test_membership_and_perplexity_are_those_of_the_scores(corpus, metrics):
    scores = tables(corpus, gap=0.3)["scores"]
    notes = scores[scores["attack"] == "loss"]
    members, others = notes.loc[notes["member"], "score"], notes.loc[~notes["member"], "score"]
    assert row(metrics, "auc_loss")["value"] == pytest.approx(roc(members, others).auc)
    leakage = privacy_leakage(says_member(members, members), says_member(others, members))
    assert row(metrics, "privacy_leakage_loss")["value"] == pytest.approx(leakage)
    heldout = notes[notes["split"] == "heldout"]
    nats = -(heldout["score"] * heldout["tokens"]).sum() / heldout["tokens"].sum()
    assert row(metrics, "perplexity_heldout")["value"] == pytest.approx(math.exp(nats))
    assert row(metrics, "perplexity_public")["value"] == pytest.approx(math.exp((2 * 10 + 4 * 30) / 40))
    assert row(metrics, "perplexity_heldout")["n"] == HELDOUT and row(metrics, "auc_loss")["n"] == MEMBERS + HELDOUT


def test_patient_rates_are_shares_of_each_arms_patients_under_the_same_rule(metrics):
    assert row(metrics, "full_name_patients")["value"] == pytest.approx(2 / MEMBERS)
    assert row(metrics, "full_name_patients", "heldout")["value"] == pytest.approx(1 / HELDOUT)
    assert tuple(row(metrics, "full_name_patients")[["low", "high"]]) == pytest.approx(proportion_interval(2, MEMBERS))
    assert row(metrics, "direct_patients")["value"] == pytest.approx(2 / MEMBERS)
    assert row(metrics, "field_patients:ssn")["value"] == pytest.approx(1 / MEMBERS)
    assert row(metrics, "field_patients:diagnosis")["value"] == pytest.approx(1 / MEMBERS)
    assert row(metrics, "field_patients:diagnosis", "heldout")["value"] == 0.0
    assert row(metrics, "field_patients:phone", "heldout")["value"] == 0.0
    assert row(metrics, "full_name_patients")["n"] == MEMBERS


def test_attempts_have_a_control_of_their_own_size(metrics):
    assert row(metrics, "attempts_with_leak")["value"] == pytest.approx(0.3)  # generations 0, 1, 2
    assert row(metrics, "attempts_with_leak_uncorrected", "heldout")["value"] == pytest.approx(0.1)
    corrected = row(metrics, "attempts_with_leak", "heldout")
    assert corrected["value"] == pytest.approx(1 - 0.9 ** (MEMBERS / HELDOUT))
    low, high = proportion_interval(1, 10)
    assert corrected["low"] == pytest.approx(scale_to_pool(low, MEMBERS / HELDOUT))
    assert corrected["high"] == pytest.approx(scale_to_pool(high, MEMBERS / HELDOUT))
    assert row(metrics, "old_rule_attempts")["value"] == pytest.approx(0.2)
    assert row(metrics, "old_rule_attempts", "heldout")["value"] == pytest.approx(0.1)


EXTRACTED = ("full_name_patients", "direct_patients", "field_patients", "texts_with_name", "attempts_with_leak")


def imported(corpus, *, named: int, heldout: int) -> Corpus:
    """The cohort as if imported, where only the first members and held-out patients have a name, and no other value."""
    known = {*ids(corpus, "member")[:named], *ids(corpus, "heldout")[:heldout]}
    patients = corpus.patients.copy()
    patients[[field.name for field in FIELDS]] = None
    names = corpus.patients["full_name"].where(patients["patient_id"].isin(known))
    one_word = names.fillna(corpus.patients["full_name"].str.split().str[0])  # of the others, which identifies nobody
    return replace(corpus, spec=CorpusSpec(imported="0" * 16), patients=patients.assign(full_name=one_word))


def test_only_patients_whose_value_is_known_count_as_tried(corpus):
    found = summarise(tables(corpus), None, corpus=imported(corpus, named=5, heldout=2), audit=AUDIT)
    assert row(found, "full_name_patients")["value"] == 2 / 5 and row(found, "full_name_patients")["n"] == 5
    assert row(found, "full_name_patients", "heldout")["value"] == 1 / 2
    assert "patients with a known value" in row(found, "direct_patients")["note"]
    leaks = row(found, "attempts_with_leak", "heldout")["value"]
    assert leaks == pytest.approx(1 - 0.9 ** (5 / 2)), "scaled by the patients whose value is known"
    assert row(found, "texts_with_name", "heldout")["value"] == pytest.approx(1 - 0.9 ** (5 / 2))
    assert "field_patients:ssn" not in set(found["metric"]), "nobody's number is known, so none was looked for"


def test_patients_without_any_known_value_are_not_measured_rather_than_never_named(corpus):
    """100 uploaded patients of whom nothing is known were called “none of 100 named”: nobody had looked."""
    nobody = imported(corpus, named=0, heldout=0)
    silent = tables(corpus)
    silent["hits"] = silent["hits"].iloc[:0]
    found = summarise(silent, silent, corpus=nobody, audit=AUDIT)
    assert not set(found["metric"].str.partition(":")[0]) & set(EXTRACTED)
    assert {"auc_loss", "perplexity_heldout", "known_words"} <= set(found["metric"]), "the rest is measured as before"
    rows = {one["number"]: one for one in hipaa_rows(found)}
    assert {rows[number]["tested"] for number in range(1, 18)} == {"no"} and rows[1]["note"] == UNKNOWN
    assert rows[5]["note"] == ABSENT, "a fax number is no field of any record"


def test_without_known_held_out_patients_there_is_a_figure_and_no_control(corpus):
    found = summarise(tables(corpus), None, corpus=imported(corpus, named=5, heldout=0), audit=AUDIT)
    rows = found[found["metric"].isin(["full_name_patients", "attempts_with_leak"])]
    assert list(rows["arm"]) == ["run", "run"]


def test_the_corrected_control_is_level_when_hits_fall_on_anybody():
    """Generations that name people at random hit 70 members as often as 30 held-out patients, once corrected."""
    rng = np.random.default_rng(0)
    for names in (0.2, 1.0, 3.0):  # people named a generation
        people = [rng.integers(0, 100, rng.poisson(names)) for _ in range(20_000)]
        member = np.mean([(one < 70).any() for one in people])
        heldout = np.mean([(one >= 70).any() for one in people])
        assert scale_to_pool(heldout, 70 / 30) == pytest.approx(member, abs=0.015)
        assert abs(heldout - member) > 0.05  # uncorrected, members would seem to leak


def test_exposure_by_insertions_with_canaries_that_were_never_planted_as_control(metrics):
    found = row(metrics, "exposure:1")
    mean, low, high = mean_interval([2.0, 4.0])
    assert found["value"] == mean == 3.0 and found["n"] == 2
    assert found["low"] == max(0.0, low) and found["high"] == min(math.log2(1000), high)
    assert row(metrics, "exposure:1", "heldout")["value"] == 1.0
    assert math.isnan(row(metrics, "exposure:8")["low"])  # one canary has no spread
    assert row(metrics, "exposure:1", "base")["n"] == 2


def test_base_arm_is_the_base_models_own_run_figure(corpus, metrics):
    alone = summarise(tables(corpus, seed=1), None, corpus=corpus, audit=AUDIT)
    assert set(alone["arm"]) == {"run", "heldout"}
    base = metrics[metrics["arm"] == "base"].drop(columns="arm").reset_index(drop=True)
    own = alone[alone["arm"] == "run"].drop(columns="arm").reset_index(drop=True)
    pd.testing.assert_frame_equal(base, own)


def test_known_words_of_the_generations(metrics):
    assert row(metrics, "known_words")["value"] == pytest.approx(3 / 5)


def test_an_identifier_written_is_no_known_word(corpus):
    """A member's name is found in one of two texts: its words count neither among the known nor among all."""
    name = corpus.patients.loc[corpus.patients["split"] == "member", "full_name"].iloc[0]
    written = tables(corpus)
    written["generations"] = pd.DataFrame(
        {"generation_id": [0, 1], "text": [f"{name} was qqqq.", "The patient was qqqq."]}
    )
    written["hits"] = written["hits"].iloc[:1].assign(end=len(name))
    found = row(summarise(written, None, corpus=corpus, audit=AUDIT), "known_words")
    assert found["value"] == pytest.approx(4 / 6), "was, the, patient, was; not the name"


def test_the_table_fits_its_schema_and_repeats_itself(corpus, metrics, tmp_path):
    assert list(metrics.columns) == list(METRIC_COLUMNS) == SCHEMAS["metrics"].names
    write_table(tmp_path, "metrics", metrics)
    again = summarise(tables(corpus, gap=0.3), tables(corpus, seed=1), corpus=corpus, audit=AUDIT)
    pd.testing.assert_frame_equal(metrics, again)
    inside = metrics.dropna(subset=["low", "high"])
    assert (inside["low"] <= inside["value"] + 1e-12).all() and (inside["value"] <= inside["high"] + 1e-12).all()
    assert not metrics.duplicated(["metric", "arm"]).any()
    assert all(map(explain, metrics["metric"]))  # every metric has its sentence


def test_generations_without_words_give_no_figure_rather_than_a_failed_run(corpus):
    silent = tables(corpus)
    silent["generations"]["text"] = "12 / 7 ."
    assert math.isnan(row(summarise(silent, None, corpus=corpus, audit=AUDIT), "known_words")["value"])


def test_a_missing_or_empty_table_is_a_sentence(corpus):
    whole = tables(corpus)
    with pytest.raises(ValueError, match="“hits”"):
        summarise({name: whole[name] for name in whole if name != "hits"}, None, corpus=corpus, audit=AUDIT)
    whole["generations"] = whole["generations"].iloc[:0]
    with pytest.raises(ValueError, match="there are no trials"):
        summarise(whole, None, corpus=corpus, audit=AUDIT)
