"""DuckDB's answers about patients are those of naive pandas over the whole tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.corpus.tables import DIAGNOSES, NOTES, PATIENTS
from core.evaluation.memorisation.discoverable import EASIEST, values
from core.evaluation.rarity.profiles import bucket_of, log_profile_probability
from core.runs.patients.queries import Filters, PatientTables, Scored
from core.runs.tables import write_table

CODES = {"I10": "hypertension", "E11.9": "diabetes", "E11.65": "high sugars", "J45": "asthma", "Q99": "a rare one"}
COUNT = 5


@pytest.fixture(scope="module")
def cohort(tmp_path_factory) -> dict:
    """60 patients of four groups with notes, scores of two attacks and finds, as frames and as files."""
    folder = tmp_path_factory.mktemp("cohort")
    rng = np.random.default_rng(7)
    groups = rng.choice(["member", "heldout", "population", "canary"], 60, p=[0.5, 0.3, 0.15, 0.05])
    chances = dict(zip(CODES, (0.7, 0.4, 0.3, 0.3, 0.05), strict=True))
    patients = pd.DataFrame(
        {
            "patient_id": [f"P{n:02d}" for n in range(60)],
            "split": groups,
            "age": rng.integers(20, 90, 60),
            "sex": rng.choice(["F", "M"], 60),
            "icd_codes": [[code for code, p in chances.items() if rng.random() < p] for _ in range(60)],
        }
    )
    notes = []
    for one in patients.itertuples():
        for number in range(rng.integers(1, 7)):
            named = rng.choice(one.icd_codes) if one.icd_codes and rng.random() < 0.8 else None
            text = f"Seen for {CODES.get(named, 'a cold')}."
            spans = [{"start": 9, "end": len(text) - 1, "field": "problem"}]
            notes.append(
                (
                    f"{one.patient_id}-{number}",
                    one.patient_id,
                    f"{one.patient_id}-A{number // 2}",
                    one.split,
                    "letter",
                    f"2020-01-{number + 1:02d}",
                    text,
                    [],
                    spans,
                )
            )
    notes = pd.DataFrame(notes, columns=NOTES.names)
    write(patients, PATIENTS, folder / "patients.parquet")
    write(notes, NOTES, folder / "notes.parquet")
    judged = notes[notes["split"].isin(["member", "heldout", "population"])]
    scores = [
        judged[["note_id", "admission_id", "patient_id", "split", "note_type"]].assign(
            attack=attack,
            tokens=9,
            member=judged["split"] == "member",
            score=np.round(4 * rng.normal(size=len(judged)) + 4 * (judged["split"] == "member")) / 4,  # ties
        )
        for attack in ("loss", "other", "public loss")
    ]
    scores[1] = scores[1][scores[1]["patient_id"] > "P20"]  # an attack that judges a part
    scores = pd.concat(scores, ignore_index=True)
    write_table(folder, "scores", scores)
    who = rng.choice(patients["patient_id"], 40)
    group = patients.set_index("patient_id")["split"].loc[who].to_numpy()
    kind = np.where(group == "member", rng.choice(["leak", "linked leak", "coincidence"], 40), "coincidence")
    hits = pd.DataFrame(
        {
            "generation_id": rng.integers(0, 12, 40),
            "start": 0,
            "end": 4,
            "value": "x",
            "kind": kind,
            "patient_id": who,
            "field": rng.choice(["full_name", "mrn"], 40),
            "split": group,
            "rule": rng.choice(["value", "old"], 40),
        }
    )
    write_table(folder, "hits", hits)
    write_table(folder, "generations", pd.DataFrame({"generation_id": range(12), "prompt": "Patient:", "text": "text"}))
    return {"folder": folder, "patients": patients, "notes": notes, "scores": scores, "hits": hits}


def write(frame: pd.DataFrame, schema: pa.Schema, path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame.reindex(columns=schema.names), schema=schema), path)


@pytest.fixture(scope="module")
def tables(cohort) -> PatientTables:
    found = PatientTables(cohort["folder"] / "patients.parquet", cohort["folder"] / "notes.parquet")
    found.profile("patient")
    found.profile("admission", CODES)
    return found


def scored(cohort, attack="loss", threshold=None) -> Scored:
    return Scored(attack, cohort["folder"] / "scores.parquet", threshold)


# The oracle ----------------------------------------------------------------------------------------------------------


def profile(cohort, level: str) -> pd.DataFrame:
    """unit, patient_id, log_probability and bucket of judged units, by the plain way."""
    patients = cohort["patients"][cohort["patients"]["split"] != "canary"].set_index("patient_id")
    if level == "patient":
        codes = patients["icd_codes"]
        owner = {unit: unit for unit in codes.index}
    else:
        notes = cohort["notes"][cohort["notes"]["split"] != "canary"]
        named = notes.assign(word=notes["text"].str[9:-1])
        named["code"] = named["word"].map({word: code for code, word in CODES.items()})
        codes = named.dropna(subset="code").groupby("admission_id")["code"].agg(lambda held: sorted(set(held)))
        owner = notes.set_index("admission_id")["patient_id"].to_dict()
    found = log_profile_probability(codes).reset_index()
    found.columns = ["unit", "log_probability"]
    found["codes"] = found["unit"].map(codes.map(lambda held: len(set(held))))
    found["patient_id"] = found["unit"].map(owner)
    found = found[found["patient_id"].map(patients["split"]).isin(["member", "heldout"])]
    return found.assign(bucket=bucket_of(found["log_probability"], edges(found["log_probability"])))


def edges(log_probability: pd.Series) -> np.ndarray:
    """COUNT buckets of about equally many, between values so that rounding moves nobody."""
    return np.quantile(log_probability, np.arange(1, COUNT) / COUNT) + 1e-7


def within(cohort, level: str, bucket: int) -> tuple[float, float]:
    ends = [-np.inf, *edges(profile(cohort, level)["log_probability"]), np.inf]
    return ends[bucket], ends[bucket + 1]


def units(cohort, level: str, attack: str = "loss", threshold: float | None = None) -> pd.DataFrame:
    scores = cohort["scores"]
    rows = scores[(scores["attack"] == attack) & scores["split"].isin(["member", "heldout"])]
    own = rows.loc[rows["member"], "score"].mean() if threshold is None else threshold
    key = {"patient": "patient_id", "admission": "admission_id"}[level]
    found = rows.groupby(key).agg(who=("patient_id", "first"), member=("member", "first"), score=("score", "mean"))
    found["caught"] = found["score"] > own
    others = found.loc[~found["member"], "score"].to_numpy()

    def place(one) -> float:
        rest = others if one.member else np.delete(others, np.flatnonzero(others == one.score)[0])
        return (np.sum(rest < one.score) + np.sum(rest == one.score) / 2) / len(rest)

    found["percentile"] = [place(one) for one in found.itertuples()]
    counts = rows.groupby("patient_id").size()
    return found.assign(notes=found["who"].map(counts)).rename_axis("unit").reset_index()


def passing(cohort, filters: Filters, counts: dict) -> set[str]:
    hits = cohort["hits"]
    kinds = hits["kind"].isin(["leak", "linked leak"]) & (hits["split"] == "member") | (hits["split"] == "heldout")
    written = set(hits.loc[kinds & (hits["rule"] == "value") & (hits["field"] == filters.field), "patient_id"])
    keep = set()
    for one in cohort["patients"].itertuples():
        notes = counts.get(one.patient_id, 0)
        ok = not filters.code or any(code.startswith(filters.code.upper()) for code in one.icd_codes)
        ok &= filters.youngest is None or one.age >= filters.youngest
        ok &= filters.oldest is None or one.age <= filters.oldest
        ok &= filters.least_notes is None or notes >= filters.least_notes
        ok &= filters.most_notes is None or notes <= filters.most_notes
        ok &= not filters.field or one.patient_id in written
        keep |= {one.patient_id} if ok else set()
    return keep


FILTERS = [
    Filters(),
    Filters(code="e11"),
    Filters(youngest=40, oldest=70),
    Filters(least_notes=2, most_notes=4),
    Filters(field="full_name"),
    Filters(code="I1", youngest=30, most_notes=5, field="mrn"),
    Filters(code="%"),
]


# Profiles and buckets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["patient", "admission"])
def test_the_profile_is_that_of_the_function_over_all_patients(cohort, tables, level):
    expected = profile(cohort, level).sort_values("unit")
    found = tables.profile(level)
    assert found["log_probability"] == pytest.approx(expected["log_probability"].to_numpy())
    assert found["codes"].tolist() == expected["codes"].tolist()
    codes = expected["patient_id"].rank(method="dense").astype(int) - 1
    assert found["patient"].tolist() == codes.tolist()


def test_diagnoses_that_notes_came_with_decide_the_profile_of_an_admission(cohort, tmp_path):
    notes, rng = cohort["notes"], np.random.default_rng(8)
    rows = [
        (one.patient_id, one.admission_id, rng.choice(list(CODES)), "words" if number % 2 else None)
        for number, one in enumerate(notes.itertuples())
        if one.split != "canary"
    ]
    diagnoses = pd.DataFrame(rows, columns=DIAGNOSES.names)
    for name in ("patients", "notes"):
        (tmp_path / f"{name}.parquet").symlink_to(cohort["folder"] / f"{name}.parquet")
    write(diagnoses, DIAGNOSES, tmp_path / "diagnoses.parquet")
    tables = PatientTables(tmp_path / "patients.parquet", tmp_path / "notes.parquet")
    codes = diagnoses.groupby("admission_id")["code"].agg(set)
    split = notes.drop_duplicates("admission_id").set_index("admission_id")["split"]
    expected = log_profile_probability(codes)[split.reindex(codes.index).isin(["member", "heldout"])]
    found = tables.profile("admission", CODES)
    assert found["log_probability"] == pytest.approx(expected.sort_index().to_numpy())
    assert tables.described() == {code: "words" for code in set(diagnoses.dropna(subset="wording")["code"])}
    held = cohort["patients"][cohort["patients"]["split"] != "canary"]["icd_codes"].explode().dropna()
    assert tables.codes() == sorted(set(held))
    coded = cohort["patients"].loc[cohort["patients"]["split"] != "canary", "icd_codes"].map(len)
    assert tables.without_codes() == ((coded == 0).sum(), len(coded)) and (coded == 0).any()


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("level", ["patient", "admission"])
def test_judged_units(cohort, tables, level, filters):
    expected = units(cohort, level).merge(profile(cohort, level), on="unit").sort_values("unit", ignore_index=True)
    keep = passing(cohort, filters, dict(zip(expected["who"], expected["notes"], strict=True)))
    found = tables.judged(scored(cohort), level, filters, cohort["folder"] / "hits.parquet")
    assert found["passes"].tolist() == expected["who"].isin(keep).tolist()
    assert found["patient"].tolist() == (expected["who"].rank(method="dense").astype(int) - 1).tolist()
    for name in ("member", "codes"):
        assert found[name].tolist() == expected[name].tolist()
    for name in ("score", "percentile", "log_probability"):
        assert found[name].to_numpy() == pytest.approx(expected[name].to_numpy())
    assert set(found["tokens"]) == {9.0}


def test_a_ratio_is_the_loss_less_the_public_models(cohort, tables, tmp_path):
    """Of units of which both read the same notes; the threshold is the mean ratio of their members' notes."""
    mine = cohort["scores"][cohort["scores"]["attack"] == "loss"]
    rng = np.random.default_rng(4)
    theirs = mine.assign(score=rng.normal(size=len(mine)))
    who = mine.loc[mine["member"], "patient_id"].value_counts().index[0]
    left_out = (mine["patient_id"] == who) & mine["patient_id"].duplicated()  # as by a cap on the notes of a patient
    write_table(tmp_path, "scores", theirs[~left_out])
    ratio = replace(scored(cohort, "ratio base"), public=tmp_path / "scores.parquet")
    judged = mine[mine["split"].isin(["member", "heldout"])].assign(score=mine["score"] - theirs["score"])
    judged = judged[judged["patient_id"] != who]
    expected = judged.groupby("patient_id")["score"].mean()
    found = tables.judged(ratio, "patient")
    assert found["score"].to_numpy() == pytest.approx(expected.to_numpy())
    listed = tables.in_bucket(ratio, "patient", None).set_index("patient_id")
    threshold = judged.loc[judged["member"], "score"].mean()
    assert listed["caught"].to_dict() == (expected > threshold).to_dict()
    each = tables.scores_of([ratio, scored(cohort)], list(expected.index)).set_index(["attack", "patient_id"])
    assert each.loc["ratio base", "score"].to_numpy() == pytest.approx(expected.sort_index().to_numpy())
    assert each.loc["ratio base", "threshold"].tolist() == pytest.approx([threshold] * len(expected))
    assert listed["catching"].to_dict() == listed["caught"].astype(int).to_dict(), "the same attack catches the same"
    assert len(each.loc["loss"]) == len(expected)


def test_a_fitted_attack_keeps_its_own_threshold(cohort, tables):
    found = tables.in_bucket(scored(cohort, threshold=0.0), "patient", None)
    judged = units(cohort, "patient", threshold=0.0)
    assert found["caught"].sum() == judged["caught"].sum() != units(cohort, "patient")["caught"].sum()


# Patients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filters", FILTERS[:5], ids=str)
def test_the_patients_of_a_bucket(cohort, tables, filters):
    judged = units(cohort, "patient").merge(profile(cohort, "patient"), on="unit")
    counts = dict(zip(judged["who"], judged["notes"], strict=True))
    judged = judged[judged["who"].isin(passing(cohort, filters, counts))].set_index("who")
    made = [scored(cohort), scored(cohort, "other", 0.3)]
    hits = cohort["folder"] / "hits.parquet"
    listed = []
    for bucket in range(COUNT):
        found = tables.in_bucket(
            made[0], "patient", within(cohort, "patient", bucket), filters, attacks=made, hits=hits
        )
        assert set(found["patient_id"]) == set(judged.index[judged["bucket"] == bucket])
        assert found["percentile"].is_monotonic_decreasing
        listed += found.to_dict("records")
    assert len(listed) == len(judged)
    catching = pd.concat([units(cohort, "patient"), units(cohort, "patient", "other", 0.3)]).groupby("who")["caught"]
    for row in listed:
        mine = judged.loc[row["patient_id"]]
        assert (row["notes"], row["caught"]) == (mine["notes"], mine["caught"])
        assert (row["percentile"], row["score"]) == pytest.approx((mine["percentile"], mine["score"]))
        assert (row["attacks"], row["catching"]) == (
            catching.size()[row["patient_id"]],
            catching.sum()[row["patient_id"]],
        )


def test_tries_are_those_of_the_figures_and_sort_the_list(cohort, tables, tmp_path):
    """A patient's easiest field by `values`, which is naive; patients who cannot be written come last."""
    rng = np.random.default_rng(3)
    people = cohort["patients"][cohort["patients"]["split"].isin(["member", "heldout"])]
    made = pd.DataFrame(
        [
            (one.patient_id, one.split, field, prompt, rng.choice([-np.inf, rng.uniform(-20, -1)]))
            for one in people.itertuples()
            for field, prompt in (("full_name", 1), ("full_name", 2), ("mrn", 8))
        ],
        columns=["patient_id", "split", "field", "prompt_id", "log_p"],
    )
    made.astype({"log_p": "float32"}).to_parquet(tmp_path / "tries.parquet")
    ask = {"scored": scored(cohort), "level": "patient", "within": None}
    found = tables.in_bucket(**ask, tries=tmp_path / "tries.parquet", by_tries=True)
    chances = values(made).set_index(["field", "patient_id"])["chance"]
    best = chances.drop(EASIEST, level="field").unstack("field")
    possible = found["one_in"].notna()
    assert 1 / found.loc[possible, "one_in"].to_numpy() == pytest.approx(
        chances[EASIEST][found.loc[possible, "patient_id"]].to_numpy(), rel=1e-5
    )
    assert (chances[EASIEST][found.loc[~possible, "patient_id"]] == 0).all() and 0 < (~possible).sum() < len(found)
    assert found.loc[possible, "easiest"].tolist() == best.idxmax(axis=1)[found.loc[possible, "patient_id"]].tolist()
    assert found["one_in"].dropna().is_monotonic_increasing and not possible.iloc[possible.sum() :].any()
    without = tables.in_bucket(**ask)
    assert without["one_in"].isna().all() and without["easiest"].isna().all()
    assert set(without["patient_id"]) == set(found["patient_id"])


def test_a_value_whose_chance_is_no_float_is_still_written_and_one_that_is_ruled_out_is_not(cohort, tables, tmp_path):
    people = cohort["patients"][cohort["patients"]["split"].isin(["member", "heldout"])]
    logs = np.where(np.arange(len(people)) % 2, -800.0, -np.inf)
    made = people[["patient_id", "split"]].assign(field="mrn", prompt_id=8, log_p=logs.astype("float32"))
    made.to_parquet(tmp_path / "tries.parquet")
    found = tables.in_bucket(scored(cohort), "patient", None, tries=tmp_path / "tries.parquet").set_index("patient_id")
    written = found["one_in"].notna()
    assert written.sum() > 5 and found["one_in"][written].tolist() == pytest.approx([1e308] * written.sum())
    assert set(found.index[written]) <= set(made.loc[made["log_p"] == -800, "patient_id"])


def test_of_chances_that_are_no_float_the_likeliest_is_the_easiest(cohort, tables, tmp_path):
    """As in `core.evaluation.memorisation.discoverable.values`, which keeps logarithms."""
    people = cohort["patients"][cohort["patients"]["split"].isin(["member", "heldout"])][["patient_id", "split"]]
    each = {"address": -744.0, "mrn": -712.0, "phone": -743.0}
    made = pd.concat([people.assign(field=field, prompt_id=8, log_p=log) for field, log in each.items()])
    made.astype({"log_p": "float32"}).to_parquet(tmp_path / "tries.parquet")
    found = tables.in_bucket(scored(cohort), "patient", None, tries=tmp_path / "tries.parquet")
    assert set(found["easiest"].dropna()) == {"mrn"} and found["easiest"].notna().sum() > 5


def test_pages_of_patients_make_the_whole_list(cohort, tables):
    ask = {"scored": scored(cohort), "level": "patient", "within": None}
    whole = tables.in_bucket(**ask)
    pages = [tables.in_bucket(**ask, limit=7, offset=at) for at in range(0, len(whole), 7)]
    assert pd.concat(pages)["patient_id"].tolist() == whole["patient_id"].tolist()
    assert set(whole["total"]) == {len(whole)}
    everybody = profile(cohort, "patient")
    rarer = everybody.set_index("patient_id")["log_probability"]
    for row in whole.itertuples():
        rest = rarer.drop(row.patient_id)
        own = rarer[row.patient_id]
        expected = ((rest < own - 1e-9).sum() + (abs(rest - own) < 1e-9).sum() / 2) / len(rest)
        assert row.percentile_rarity == pytest.approx(expected, abs=0.02)  # sums in another order may break a tie


def test_admissions_of_a_bucket_list_their_patients(cohort, tables):
    owners = profile(cohort, "admission")
    for bucket in range(COUNT):
        found = tables.in_bucket(scored(cohort), "admission", within(cohort, "admission", bucket))
        assert set(found["patient_id"]) == set(owners.loc[owners["bucket"] == bucket, "patient_id"])


def test_what_prompts_wrote_of_a_patient(cohort, tables):
    hits = cohort["hits"]
    kinds = hits["kind"].isin(["leak", "linked leak"]) & (hits["split"] == "member") | (hits["split"] == "heldout")
    mine = hits[kinds & (hits["rule"] == "value")]
    found = tables.written(cohort["folder"] / "hits.parquet", cohort["patients"]["patient_id"].tolist())
    assert set(found["patient_id"]) == set(mine["patient_id"])
    for row in found.itertuples():
        own = mine[mine["patient_id"] == row.patient_id]
        assert list(row.fields) == sorted(own["field"].unique()) and row.texts == own["generation_id"].nunique()
    who = mine["patient_id"].iloc[0]
    leaks = tables.leaks_of(who, cohort["folder"] / "hits.parquet", cohort["folder"] / "generations.parquet")
    texts = set(mine.loc[mine["patient_id"] == who, "generation_id"])
    assert set(leaks["generation_id"]) == texts and set(leaks["text"]) == {"text"}
    assert len(leaks) == ((hits["rule"] == "value") & hits["generation_id"].isin(texts)).sum()


def test_one_patient(cohort, tables):
    assert tables.record("P00")["age"] == cohort["patients"]["age"][0]
    assert tables.record("' OR true --") is None
    notes = cohort["notes"]
    assert tables.notes_of("P03")["note_id"].tolist() == notes.loc[notes["patient_id"] == "P03", "note_id"].tolist()
    patients = cohort["patients"][cohort["patients"]["split"] != "canary"]
    share = np.mean(["I10" in codes for codes in patients["icd_codes"]])
    assert tables.rates(["I10", "Z99"]) == pytest.approx({"I10": share})
