"""Tables from a run's weights: made where they are missing, shipped, read; and the differences computed from them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.membership.decision import LOSS, RATIO
from core.findings import training
from core.findings.claim import Claim, Figure
from core.findings.claims import CLAIMS
from core.findings.from_weights.tables import MEASUREMENTS, Measurement, file_of
from core.findings.judging import measured, needed
from core.findings.measures.attacks import Side, auc, difference
from core.findings.measures.energies import energies_apart, scored
from core.findings.measures.names import layers_apart, seen_by_layer
from core.findings.measures.samples import lengths_apart
from core.findings.measures.unnamed_others import insertion_minus_regular, named_minus_regular_loss
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.shipping import ship
from core.findings.stored_runs import Missing, StoredRuns
from core.findings.written.listing import listed
from core.runs.store import Workspace

TEXTS = dict.fromkeys(("title", "says", "figure", "place", "quantity", "sizes", "differs"), "text")


def test_a_missing_table_is_made_once_from_the_weights_and_shipped(tmp_path, smoke_workspace, smoke_specs, monkeypatch):
    spec, asked = smoke_specs["plain"], []

    def toy(target, report) -> pd.DataFrame:
        asked.append(target.spec.run_id)
        return pd.DataFrame({"value": [float(sum(p.numel() for p in target.lm.model.parameters()))], "left out": [1]})

    monkeypatch.setitem(MEASUREMENTS, "toy", Measurement({"value": "float32"}, toy, 90.0))
    here = Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())
    claim = Claim(
        "J-c0",
        unit="number",
        measure=lambda runs: [Figure("a", *[float(runs.measured(spec, "toy")["value"].iloc[0])] * 3)],
        rule=Above(1.0),
        needs=(Need(spec, scores=True), Need(spec, measured=("toy",))),
        **TEXTS,
    )
    runs = StoredRuns(here)
    assert measured(claim, runs) is None and needed([claim]) == [Need(spec, scores=True, measured=("toy",))]
    (state,) = training.states([claim], runs)
    assert (state.there, state.seconds, state.tables) == (False, 90.0, ("toy",))
    assert "1 tables from its weights), about 2 minutes" in listed([claim], runs)
    with pytest.raises(Missing, match="toy"):
        runs.measured(spec, "toy")

    said: list[str] = []
    training.train([claim], here, said.append)
    training.train([claim], here, said.append)
    assert asked == [spec.run_id]
    which, table = said
    assert which.startswith(f"1/1 tables from the weights of {spec.run_id} (toy)") and "table “toy”" in table
    assert measured(claim, StoredRuns(here)).figures[0].value > 1_000
    assert list(pd.read_parquet(file_of(spec.run_id, "toy", here)).columns) == ["value"]

    out = tmp_path / "shipped"
    assert ship([claim], here, out) == [spec.run_id] and ship([claim], here, out) == []
    copied = StoredRuns(Workspace(tmp_path / "nothing", shared=(out,)))
    assert copied.has(claim.needs[1]) and measured(claim, copied) == measured(claim, StoredRuns(here))
    # A run that was shipped before the table, without its weights, is trained again for another one.
    more = replace(claim, needs=(Need(spec, measured=("toy", "other")),))
    monkeypatch.setitem(MEASUREMENTS, "other", Measurement({"value": "float32"}, toy, 90.0))
    (state,) = training.states([more], copied)
    assert state.seconds > 90.0
    (state,) = training.states([more], StoredRuns(here))
    assert state.seconds == 90.0
    training.train([more], here, said.append)
    assert ship([more], here, out) == [spec.run_id] and (out / "measured" / spec.run_id / "other.parquet").exists()


def test_every_claim_names_tables_that_there_are() -> None:
    for need in needed(CLAIMS):
        assert set(need.measured) <= set(MEASUREMENTS)
    assert {one for need in needed(CLAIMS) for one in need.measured} == set(MEASUREMENTS)


# Differences computed from these tables ------------------------------------------------------------------------------


class Tables:
    """Stored runs with one table."""

    def __init__(self, rows: pd.DataFrame, regular: pd.DataFrame | None = None) -> None:
        self.rows, self.regular = rows, regular

    def measured(self, spec: object, name: str) -> pd.DataFrame:
        return self.rows

    def scores(self, spec: object, attack: str) -> pd.DataFrame:
        assert self.regular is not None
        return self.regular.assign(score=self.regular["score"] * (2 if attack == LOSS else 1))


def notes(shift: float, seed: int) -> pd.DataFrame:
    """Four notes of each of 12 patients, two thirds of them members, whose scores are `shift` higher."""
    rng = np.random.default_rng(seed)
    patients = np.repeat([f"P{one:02d}" for one in range(12)], 4)
    member = np.repeat(np.arange(12) % 3 != 0, 4)
    return pd.DataFrame(
        {
            "note_id": [f"{patient}-{at % 4}" for at, patient in enumerate(patients)],
            "patient_id": patients,
            "split": np.where(member, "member", "heldout"),
            "tokens": 20,
            "score": rng.normal(shift * member).astype(np.float32),
        }
    )


def naive_auc(member: np.ndarray, score: np.ndarray) -> float:
    pairs = [(a > b) + 0.5 * (a == b) for a in score[member] for b in score[~member]]
    return float(np.mean(pairs))


def by_hand(table: pd.DataFrame, base: pd.DataFrame | None = None) -> float:
    score = table["score"].to_numpy(dtype=float) - (0 if base is None else base["score"].to_numpy(dtype=float))
    return naive_auc((table["split"] == "member").to_numpy(), score)


def test_energies_are_compared_on_the_same_notes_and_the_ratio_subtracts_the_base() -> None:
    target, base = {1: notes(0.2, 0), 10: notes(1.0, 1)}, {1: notes(0.0, 2), 10: notes(0.0, 3)}
    parts = [
        frame.assign(model=model, masks=k)
        for model, by in (("target", target), ("base", base))
        for k, frame in by.items()
    ]
    runs = Tables(pd.concat(parts, ignore_index=True))
    assert energies_apart(runs, None, LOSS, 1, 10).value == pytest.approx(by_hand(target[1]) - by_hand(target[10]))
    ratio = energies_apart(runs, None, RATIO, 1, 10)
    assert ratio.value == pytest.approx(by_hand(target[1], base[1]) - by_hand(target[10], base[10]))
    assert ratio.low < ratio.value < ratio.high
    expected = difference(
        *(Side(target[k].assign(score=target[k]["score"] - base[k]["score"]), RATIO) for k in (1, 10)), auc
    )
    assert (ratio.low, ratio.high) == pytest.approx((expected.low, expected.high))
    with pytest.raises(ValueError, match="different notes"):
        scored(pd.concat([parts[0], parts[2].iloc[::-1]]), RATIO)


def test_lengths_are_compared_on_the_same_notes() -> None:
    target, base = {"short": notes(0.2, 0), "long": notes(1.0, 1)}, {"short": notes(0.0, 2), "long": notes(0.0, 3)}
    parts = [
        frame.assign(model=model, length=k)
        for model, by in (("target", target), ("base", base))
        for k, frame in by.items()
    ]
    found = lengths_apart(Tables(pd.concat(parts, ignore_index=True)), None, RATIO)
    assert found.value == pytest.approx(by_hand(target["long"], base["long"]) - by_hand(target["short"], base["short"]))


def test_inserted_names_are_compared_with_the_regular_run() -> None:
    named, base, regular = notes(1.0, 0), notes(0.0, 1), notes(0.3, 2)
    rows = pd.concat([named.assign(model="target"), base.assign(model="base")], ignore_index=True)
    found = insertion_minus_regular(Tables(rows, regular), None, None, RATIO)
    assert found.value == pytest.approx(by_hand(named, base) - by_hand(regular))
    found = insertion_minus_regular(Tables(rows, regular), None, None, LOSS)
    assert found.value == pytest.approx(by_hand(named) - by_hand(regular))


def test_named_notes_are_compared_with_the_same_notes_by_their_loss() -> None:
    """Members' notes alone count, each once, in whatever order the tables have them; the ends by other draws."""
    named, base, regular = notes(1.0, 0), notes(0.0, 1), notes(0.3, 2)
    rows = pd.concat([named.assign(model="target"), base.assign(model="base")], ignore_index=True)
    found = named_minus_regular_loss(Tables(rows, regular.sample(frac=1, random_state=0)), None, None)
    both = named[named["split"] == "member"].merge(regular, on="note_id", suffixes=("", "_regular"))
    apart = 2 * both["score_regular"] - both["score"]  # `Tables` doubles the loss attack's scores
    assert found.value == pytest.approx(apart.mean())
    each = apart.groupby(both["patient_id"]).mean().to_numpy()  # four notes of each of eight members
    drawn = np.random.default_rng(9).choice(each, (50_000, len(each))).mean(axis=1)
    tail = stats.norm.sf(np.sqrt(8 / 7) * stats.t.isf(0.025, 7))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [tail, 1 - tail])), abs=0.03)


def test_layers_are_compared_on_the_same_patients() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"patient_id": [f"P{one:02d}" for one in range(30)], "label": np.arange(30) % 3 != 0})
    frames = [
        people.sample(frac=1, random_state=layer).assign(
            probe=probe, model=model, layer=layer, score=lambda rows, layer=layer: rng.normal(layer * rows["label"])
        )
        for probe in ("name seen", "half a name")
        for model in ("target", "public")
        for layer in (1, 2)
    ]
    rows = pd.concat(frames, ignore_index=True)
    runs = Tables(rows)

    def expected(probe: str, layer: int) -> float:
        part = rows[(rows["probe"] == probe) & (rows["layer"] == layer) & (rows["model"] == "target")]
        return naive_auc(part["label"].to_numpy(), part["score"].to_numpy())

    found = layers_apart(runs, None, 2, 1)
    assert found.value == pytest.approx(expected("half a name", 2) - expected("half a name", 1))
    assert found.low < found.value < found.high
    assert seen_by_layer(runs, None, 2).value == pytest.approx(expected("name seen", 2))
    same = layers_apart(runs, None, 2, 2)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
