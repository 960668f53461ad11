"""Figures of released notes, on texts and numbers whose answer is known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.evaluation import released_notes
from core.evaluation.released_notes import (
    RESAMPLES,
    _by_chance,
    _quantile,
    answers,
    coherence,
    likeness,
    membership,
    named,
    nearest,
    similarity,
    table,
    taggers,
    usefulness,
)
from core.evaluation.stats.intervals import proportion_interval
from core.tasks.coherence import phrases
from core.tasks.released import TaggerCounts

VOCABULARY = [f"w{number}" for number in range(40)]


def random_notes(rng, patients, prefix, notes=2):
    rows = [
        (f"{prefix}{one}", " ".join(rng.choice(VOCABULARY[:6], 25))) for one in range(patients) for _ in range(notes)
    ]
    return pd.DataFrame(rows, columns=["patient_id", "text"])


def test_likeness_is_the_share_of_five_word_sequences_by_a_naive_count():
    rng = np.random.default_rng(0)
    notes, texts = random_notes(rng, 7, "P"), random_notes(rng, 9, "T", 1)["text"].tolist()
    found, ids = likeness([*texts, "too short"], notes)

    def grams(text):
        words = text.lower().split()
        return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}

    for row, text in enumerate(texts):
        for column, patient in enumerate(ids):
            of_patient = notes.loc[notes["patient_id"] == patient, "text"]
            expected = max(len(grams(text) & grams(note)) / len(grams(text)) for note in of_patient)
            assert found[row, column] == pytest.approx(expected, abs=1e-6)
    assert not found[-1].any()


def test_copies_of_members_are_nearest_to_members():
    rng = np.random.default_rng(1)
    members, heldout = random_notes(rng, 30, "M"), random_notes(rng, 30, "H")
    share = nearest(members["text"].tolist(), members, heldout, seed=0)[0]
    assert share.value == 1.0 and share.low > 0.5
    back = nearest(heldout["text"].tolist(), members, heldout, seed=0)[0]
    assert back.value == 0.0 and back.high < 0.5


def test_texts_of_nobody_are_as_near_to_either_side():
    """Null: over 40 hospitals the mean is one half, and hardly more than one interval in twenty misses it."""
    shares = []
    for seed in range(40):
        rng = np.random.default_rng([2, seed])
        texts = random_notes(rng, 30, "T", 1)["text"].tolist()
        shares.append(nearest(texts, random_notes(rng, 40, "M"), random_notes(rng, 15, "H"), seed=seed)[0])
    assert np.mean([one.value for one in shares]) == pytest.approx(0.5, abs=0.05)
    assert sum(one.low <= 0.5 <= one.high for one in shares) >= 35


def test_the_interval_leaves_out_one_half_in_at_most_one_null_hospital_of_twenty(monkeypatch):
    """A few patients repeat what everybody writes and are nearest to most texts: resampled, they are too certain."""
    rng, missed = np.random.default_rng(9), 0
    for seed in range(150):
        sides = [0.5 * rng.random((60, 30)).astype(np.float32) for _ in range(2)]
        for place in rng.permutation(60)[:4]:
            sides[place // 30][:, place % 30] += 0.5 * rng.random(60)
        left = iter(sides)
        monkeypatch.setattr(released_notes, "likeness", lambda texts, notes, left=left: (next(left), None))
        found = nearest(["a text"] * 60, pd.DataFrame(), pd.DataFrame(), seed=seed)[0]
        missed += not found.low <= 0.5 <= found.high
    assert missed <= 15, "at most 5 % of 150 and three standard errors"


def test_shares_by_chance_are_those_of_a_naive_count():
    rng = np.random.default_rng(4)
    sides = [rng.integers(0, 3, (70, 5)).astype(np.float32) for _ in range(2)]

    def share(own, other):
        own, other = own.max(axis=1), other.max(axis=1)
        return np.mean((own > other) + 0.5 * (own == other))

    value, chance = _by_chance(sides, np.random.default_rng(1))
    assert value == pytest.approx(share(*sides)) and chance[0] == value and len(chance) == RESAMPLES
    pooled = np.concatenate(sides, axis=1)
    every = [share(pooled[:, list(own)], np.delete(pooled, own, axis=1)) for own in combinations(range(10), 5)]
    assert {round(float(one), 9) for one in chance} <= {round(float(one), 9) for one in every}
    assert chance.mean() == pytest.approx(np.mean(every), abs=0.01) and np.mean(every) == pytest.approx(0.5)
    assert np.quantile(chance, 0.9) == pytest.approx(np.quantile(every, 0.9), abs=0.02)


def test_where_nothing_is_shared_nothing_is_claimed():
    notes = pd.DataFrame({"patient_id": ["A", "B"], "text": ["a b c d e f", "g h i j k l"]})
    (found,) = nearest(["q r s t u v"], notes, notes, seed=0)
    assert np.isnan(found.value) and np.isnan(found.low) and "none shares" in found.note


def test_the_percentile_lies_between_order_statistics():
    """Of 999 equally spaced values, the interval of the 99th percentile holds it and leaves out the middle."""
    found = _quantile(np.arange(1, 1_000) / 1_000, 0.99)
    assert found.value == pytest.approx(0.99, abs=0.002) and 0.97 < found.low < found.value < found.high < 1
    rng = np.random.default_rng(5)
    for size in (50, 100, 200, 400):
        held = [_quantile(rng.random(size), 0.99) for _ in range(400)]
        assert np.mean([one.low <= 0.99 <= one.high for one in held]) >= 0.92, size
    assert _quantile(rng.random(50), 0.99).high == 1.0, "the largest of 50 bounds nothing"
    assert _quantile(rng.random(5), 0.01).low == 0.0


def test_names_count_patients_and_phantoms_count_texts():
    hits = pd.DataFrame(
        [(0, "full_name", "M1"), (0, "mrn", "M1"), (1, "full_name", "H1"), (2, "ssn", None), (2, "mrn", None)],
        columns=["generation_id", "field", "patient_id"],
    )
    hits.loc[len(hits)] = [3, "diagnosis", "M2"]  # a health detail identifies nobody
    patients = pd.DataFrame({"patient_id": ["M1", "M2", "H1", "H2"], "split": ["member"] * 2 + ["heldout"] * 2})
    members, heldout, phantom = named(hits, Corpus(None, patients, pd.DataFrame(), pd.DataFrame()), texts=8)
    assert (members.value, members.n) == (0.5, 2) and (heldout.value, heldout.n) == (0.5, 2)
    assert (phantom.value, phantom.n) == (1 / 8, 8) and phantom.low < 1 / 8 < phantom.high


def scored(gain):
    """Two notes of ten tokens for each of 20 members and 20 others; members gain `gain` nats a token under `aux`."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(40):
        member = number < 20
        for _ in range(2):
            public = 30 + rng.normal()
            rows.append((f"P{number}", member, 10, public, public - (10 * gain if member else 0) + 1e-3 * rng.normal()))
    return pd.DataFrame(rows, columns=["patient_id", "member", "tokens", "public", "aux"])


def test_membership_through_the_notes():
    (sure,) = membership(scored(1.0), ["aux"])
    assert sure.value == 1.0 and 0.8 < sure.low < 1.0
    (blind,) = membership(scored(0.0), ["aux"])
    assert blind.low < 0.5 < blind.high


def test_perplexity_is_that_of_held_out_notes():
    notes = pd.DataFrame(
        {"patient_id": ["A", "B", "M"], "member": [False, False, True], "tokens": 10, "public": 10 * np.log(5.0)}
    )
    (found,) = usefulness(notes, ["public"])
    assert found.value == pytest.approx(5.0) and found.n == 2


def histogram(left, right):
    """Rows of `cluster_counts`: texts of two sides by cluster, each of a patient of its own."""
    rows = [
        {"task": "texts", "kind": kind, "patient_id": f"{kind}{cluster}-{one}", "cluster": cluster, "trials": 1}
        for kind, counts in (("compared", left), ("reference", right))
        for cluster, count in enumerate(counts)
        for one in range(count)
    ]
    return pd.DataFrame(rows)


def test_similarity_is_one_for_the_same_clusters_and_falls_with_distance():
    counts = {"same": histogram([10, 20, 30], [10, 20, 30]), "near": histogram([15, 20, 25], [10, 20, 30])}
    rows = similarity(counts | {"disjoint": histogram([60, 0, 0], [0, 30, 30])}, seed=0)
    values = {row.arm: row.value for row in rows}
    assert values["same"] == pytest.approx(1.0) and values["same"] > values["near"] > values["disjoint"]
    assert values["disjoint"] < 0.05 and all(row.metric == "text_similarity" and row.n == 60 for row in rows)
    *close, disjoint = rows
    assert all(0 <= row.low <= row.value <= row.high <= 1 for row in close)
    assert np.isnan(disjoint.low) and np.isnan(disjoint.high), "no resample has a common cluster"


def test_coherence_counts_sentences_whose_facts_share_a_disease_group():
    own = [fact for found in phrases().values() for fact in found if len(fact.groups) == 1]
    first = own[0]
    alike = next(fact for fact in own[1:] if fact.groups == first.groups and not set(fact.words) & set(first.words))
    other = next(fact for fact in own if fact.groups != first.groups and not set(fact.words) & set(first.words))
    one, same, far = (" ".join(fact.words) for fact in (first, alike, other))
    texts = [f"Given {one} with {same}.", f"Given {one} with {far}. Then {one} with {same}", "Nothing is said here."]
    heldout = pd.DataFrame({"patient_id": ["P1", "P2"], "text": [f"Given {one} with {same}.", f"Given {one}."]})
    written, real, shuffled = coherence("released notes", texts, heldout, seed=0)
    assert (written.value, written.n) == (0.5, 2), "the unfinished last sentence does not count"
    assert (real.arm, real.value, real.n) == ("held out", 1.0, 1)
    assert shuffled.metric == "facts_fit_shuffled" and 0 <= shuffled.value <= 1 and shuffled.n == 2
    nothing = coherence("released notes", ["Nothing is said."], heldout, seed=0)[0]
    assert np.isnan(nothing.value) and nothing.n == 0


def test_shares_of_1_are_as_sure_as_the_patients_behind_them():
    """Held-out notes that all fit: patients are the trials, not notes. A precision: those with a tagged entity."""
    first = next(fact for of in phrases().values() for fact in of if len(fact.groups) == 1)
    alike = next(
        fact
        for of in phrases().values()
        for fact in of
        if fact.groups == first.groups and not set(fact.words) & set(first.words)
    )
    text = f"Given {' '.join(first.words)} with {' '.join(alike.words)}."
    heldout = pd.DataFrame({"patient_id": ["P1", "P2", "P3"] * 20, "text": [text] * 60})
    real = coherence("released notes", [text], heldout, seed=0)[1]
    assert (real.value, real.n) == (1, 60) and (real.low, real.high) == pytest.approx(proportion_interval(3, 3))
    rows = [("entities", "problem", f"p{patient}", 5, patient < 2, patient < 2) for patient in range(30)]
    counts = pd.DataFrame(rows, columns=["task", "kind", "patient_id", "trials", "predicted", "correct"])
    found = {row.metric: row for row in taggers({"public": TaggerCounts(counts, 9, 9)}, seed=0)}
    precision = found["entity_precision"]
    assert (precision.value, precision.low, precision.high) == pytest.approx((1, *proportion_interval(2, 2)))


def test_answers_and_the_table():
    counts = pd.DataFrame({"patient_id": ["A", "B", "C"], "trials": [3, 3, 3], "correct": [3, 0, 3]})
    (found,) = answers(counts, "public")
    assert found.value == pytest.approx(6 / 9) and answers(counts.iloc[:0], "public") == []
    assert table([found]).loc[0, "metric"] == "nli_accuracy"


def test_taggers_have_micro_averages_by_hand():
    """Two patients: 4 entities of which 3 are among the 5 said. F1 = 2 · 3 / (4 + 5)."""
    rows = [
        ("entities", "problem", "p", 3, 3, 2),
        ("entities", "test", "p", 0, 1, 0),
        ("entities", "test", "q", 1, 1, 1),
    ]
    counts = pd.DataFrame(rows, columns=["task", "kind", "patient_id", "trials", "predicted", "correct"])
    silent = counts.assign(predicted=0, correct=0)
    arms = {"released notes": TaggerCounts(counts, 9, 1_234), "public": TaggerCounts(silent, 9, 0)}
    found = table(taggers(arms, seed=0)).set_index(["arm", "metric"])
    of_notes, of_public = found.loc["released notes"], found.loc["public"]
    assert of_notes["value"].to_dict() == pytest.approx(
        {"entity_f1": 6 / 9, "entity_precision": 3 / 5, "entity_recall": 3 / 4}
    )
    assert (of_notes["n"] == 2).all() and of_notes.loc["entity_f1", "note"].endswith("on 9 texts with 1,234 labels")
    assert (of_notes["low"] <= of_notes["value"]).all() and (of_notes["high"] >= of_notes["value"]).all()
    assert of_public.loc["entity_f1", "value"] == 0 and np.isnan(of_public.loc["entity_precision", "value"])
    assert np.isnan(of_public.loc["entity_precision", "low"]), "a tagger that says nothing has no precision"
