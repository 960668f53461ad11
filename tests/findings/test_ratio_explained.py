"""When the ratio beats the loss: the measures behind it on tables with known answers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.membership.decision import LOSS, RATIO
from core.attacks.probes.cosine import PROBE as COSINE
from core.findings.measures.attacks import Side, auc, change, difference, single
from core.findings.measures.difficulty import advantage_against_spread
from core.findings.measures.tables import links_apart
from core.findings.measures.weights import loss_with_population
from core.findings.stored_runs import Missing
from tests.findings.toy_scores import scores


def test_a_change_is_the_difference_of_two_differences_and_has_the_same_patients_in_all_four() -> None:
    notes = [Side(scores(shift, seed=seed, patients=30), "loss") for seed, shift in enumerate((1.5, 0.2, 0.3, 0.9))]
    long = [replace(one, length="long") for one in notes]
    found = change((long[0], long[1]), (long[2], long[3]))
    values = [single(one, auc).value for one in long]
    assert found.value == pytest.approx(values[0] - values[1] - values[2] + values[3])
    assert found.low < found.value < found.high
    same = change((long[0], long[1]), (long[0], long[1]))
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert change((long[0], long[1]), (long[0], long[0])).value == pytest.approx(difference(long[0], long[1]).value)


def pair(spread: float, seed: int, patients: int = 40) -> tuple[Side, Side]:
    """The loss, and a ratio that adds noise of this spread: the wider it is, the weaker the attack."""
    loss = scores(1.0, seed=seed, patients=patients)
    noise = np.random.default_rng(seed + 50).normal(0, spread, len(loss))
    return Side(loss.assign(score=loss["score"] + noise), RATIO), Side(loss, LOSS)


@pytest.mark.parametrize("member", [True, False])
def test_the_relation_is_spearmans_over_the_pairs_of_all_hospitals(member: bool) -> None:
    hospitals = [[pair(spread, at) for at, spread in enumerate((0.1, 1.0, 3.0))], [pair(2.0, 7, 30), pair(0.5, 8, 30)]]
    found = advantage_against_spread(hospitals, member=member)
    gained, left = [], []
    for ratio, loss in (one for pairs in hospitals for one in pairs):
        gained.append(single(ratio, auc).value - single(loss, auc).value)
        rows = [side.scores[(side.scores["split"] == "member") == member]["score"] for side in (ratio, loss)]
        left.append(rows[0].std() / rows[1].std())
    assert found.value == pytest.approx(stats.spearmanr(gained, left).statistic)
    assert -1 <= found.low <= found.value <= found.high < 0.2


def test_the_pairs_of_a_hospital_are_about_the_same_patients() -> None:
    with pytest.raises(ValueError, match="different patients"):
        advantage_against_spread([[pair(1.0, 0), pair(1.0, 1, patients=30)]], member=True)


def test_the_loss_on_the_population_follows_from_the_ratio_and_the_public_model() -> None:
    loss, public = scores(1.0), scores(0.0, seed=5).set_index("note_id")["score"]
    loss.loc[loss["patient_id"] == "P00", "split"] = "population"
    other = loss.assign(score=scores(0.5, seed=9)["score"])
    ratios = {
        name: rows.assign(score=rows["score"] - rows["note_id"].map(public))
        for name, rows in (("asked", loss), ("audited", other))
    }
    stored = {("asked", RATIO): ratios["asked"], ("audited", RATIO): ratios["audited"], ("audited", LOSS): other}
    runs = SimpleNamespace(scores=lambda spec, attack: stored[spec, attack])
    found = loss_with_population(runs, "asked", "audited")  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(found, loss)
    assert (found["split"] == "population").any()


def cosines() -> pd.DataFrame:
    """Skip-gram brings the own name .3 closer and another's .1, the model .1 and .2; rows of others differ."""
    added = {"skip-gram": (0.3, 0.1), "contextual": (0.1, 0.2)}
    rows = []
    for patient in range(20):
        for method, (own, another) in added.items():
            for target, value in (("name", own), ("another name", another)):
                for model, split in (("target", "member"), ("target", "heldout"), ("public", "member")):
                    wrong = 9.0 * (split == "heldout" or model == "public") * (target == "name")
                    score = value + 0.01 * (patient % 5) * (target == "name" and method == "skip-gram") + wrong
                    who = f"{split[0]}{patient}"
                    rows.append((COSINE, method, model, who, split, target, score))
    return pd.DataFrame(rows, columns=["probe", "method", "model", "patient_id", "split", "target", "score"])


def test_two_kinds_of_vectors_are_compared_on_the_same_members() -> None:
    tables = {COSINE: cosines()}
    audit = SimpleNamespace(table_of=lambda attack, table: tables.get(attack))
    workspace = SimpleNamespace(audit=lambda run_id: audit)
    runs = SimpleNamespace(run=lambda spec: SimpleNamespace(id="one"), workspace=workspace)
    spec = SimpleNamespace(run_id="one")
    found = links_apart(runs, spec, "skip-gram", "contextual")  # type: ignore[arg-type]
    assert found.value == pytest.approx(0.2 + 0.1 + 0.02)
    assert 0.3 < found.low < found.value < found.high < 0.34
    tables.clear()
    with pytest.raises(Missing, match="no results of the probe"):
        links_apart(runs, spec, "skip-gram", "contextual")  # type: ignore[arg-type]
