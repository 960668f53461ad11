"""Figures of names in many texts, and of half a name, against slow and obvious ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.findings.claims import chosen
from core.findings.experiments import plain, rarely_named
from core.findings.measures.names import half_names_apart, highest_ranked, linked, patients_written
from core.findings.stored_runs import Missing
from core.spec import ModelKind, RunSpec

Scores = list[float | None]


def stored(members: Scores, others: Scores, invented: Scores) -> SimpleNamespace:
    """Runs with one table. Of each patient and of each other name the score is given, None if no text has the name."""
    rows = [
        (f"{split}{at}" if split else None, split, 0 if score is None else 2, np.nan if score is None else score)
        for split, scores in (("member", members), ("heldout", others), (None, invented))
        for at, score in enumerate(scores)
    ]
    table = pd.DataFrame(rows, columns=["patient_id", "split", "texts", "score"])
    table = table.sample(frac=1, random_state=0)
    return SimpleNamespace(measured=lambda spec, name: table, run=lambda spec: SimpleNamespace(id="a-run"))


def wilson(count: int, n: int) -> tuple[float, float]:
    found = stats.binomtest(count, n).proportion_ci(method="wilson")
    return found.low, found.high


def test_patients_count_once_however_many_texts_name_them() -> None:
    runs = stored([1.0] * 6 + [None] * 24, [2.0] + [None] * 9, [3.0] * 50)
    found = patients_written(runs, None)  # type: ignore[arg-type]
    assert found.value == pytest.approx(6 / 30 - 1 / 10)
    (low, high), (below, above) = wilson(6, 30), wilson(1, 10)
    assert found.low == pytest.approx(0.1 - np.hypot(0.2 - low, above - 0.1))
    assert found.high == pytest.approx(0.1 + np.hypot(high - 0.2, 0.1 - below))


def test_no_patient_named_is_a_difference_of_0_with_an_interval() -> None:
    found = patients_written(stored([None] * 30, [None] * 10, [3.0]), None)  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == pytest.approx((0, -wilson(0, 10)[1], wilson(0, 30)[1]))


def test_the_hundred_highest_names_count_and_others_are_scaled_to_as_many_patients() -> None:
    """Of 160 names the hundred with the highest scores: 40 of 60 members, 5 of 20 others, 55 invented."""
    runs = stored([9.0] * 40 + [1.0] * 5 + [None] * 15, [8.0] * 5 + [2.0] * 5 + [None] * 10, [7.0] * 55 + [0.0] * 50)
    found = highest_ranked(runs, None)  # type: ignore[arg-type]
    control = 1 - (1 - 5 / 100) ** 3  # three times as many members as others
    assert found.value == pytest.approx(0.40 - control)
    (low, high), (below, above) = wilson(40, 100), (1 - (1 - end) ** 3 for end in wilson(5, 100))
    assert found.low == pytest.approx(0.40 - control - np.hypot(0.40 - low, above - control))
    assert found.high == pytest.approx(0.40 - control + np.hypot(high - 0.40, control - below))


def test_names_of_equal_score_at_the_cut_count_in_proportion() -> None:
    """98 places are taken, and the other two are shared by ten names, five of which are members'."""
    runs = stored([5.0] * 5, [None] * 5, [6.0] * 98 + [5.0] * 5)
    assert highest_ranked(runs, None).value == pytest.approx(2 * 5 / 10 / 100)  # type: ignore[arg-type]


def test_of_fewer_than_a_hundred_names_all_count() -> None:
    found = highest_ranked(stored([1.0] + [None] * 9, [None] * 10, [3.0] * 3), None)  # type: ignore[arg-type]
    assert found.value == pytest.approx(1 / 4)
    assert found.low == pytest.approx(1 / 4 - np.hypot(1 / 4 - wilson(1, 4)[0], wilson(0, 4)[1]))


def test_without_any_name_none_is_ranked() -> None:
    with pytest.raises(Missing, match="a-run"):
        highest_ranked(stored([None] * 3, [None] * 3, []), None)  # type: ignore[arg-type]


def test_the_claims_ask_these_two_figures() -> None:
    runs = stored([1.0] * 3 + [None], [None] * 4, [2.0])
    (patients,), (ranked,) = (chosen([name])[0].measure(runs) for name in ("L-c18", "L-c19"))  # type: ignore[misc]
    assert (patients.label, patients.value) == ("DistilBERT", pytest.approx(3 / 4))
    assert (ranked.label, ranked.value) == ("DistilBERT", pytest.approx(3 / 4))


def pairs(rows: list[tuple[str, int, int, float]]) -> SimpleNamespace:
    """Runs with one table of texts with a name and a condition: (split, paired, right, chance) of each patient."""
    table = pd.DataFrame(rows, columns=["split", "paired", "right", "chance"])
    table.insert(0, "patient_id", [f"P{at}" for at in range(len(rows))])
    return SimpleNamespace(measured=lambda spec, name: table, run=lambda spec: SimpleNamespace(id="a-run"))


def test_a_link_is_what_members_have_more_often_than_others() -> None:
    """Of 40 texts about members 24 are right, where 10 would be by chance; held-out patients do not count."""
    rows = [("member", 3, 2, 0.5)] * 8 + [("member", 2, 1, 0.75)] * 8 + [("member", 0, 0, 0.0)] * 4
    found = linked(pairs([*rows, ("heldout", 50, 50, 1.0)]), None)  # type: ignore[arg-type]
    assert found.value == pytest.approx((24 - 10) / 40)
    rng, more, of = np.random.default_rng(0), np.repeat([1.5, 0.25], 8), np.repeat([3, 2], 8)
    drawn = rng.integers(16, size=(20_000, 16))
    means = more[drawn].sum(axis=1) / of[drawn].sum(axis=1)
    assert [found.low, found.high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.02)


def test_without_a_pair_nothing_is_linked() -> None:
    with pytest.raises(Missing, match="a-run"):
        linked(pairs([("member", 0, 0, 0.0), ("heldout", 2, 1, 0.5)]), None)  # type: ignore[arg-type]


def test_the_claims_of_inserted_names_ask_the_longer_texts() -> None:
    """The table of the longer texts alone answers."""
    names = stored([1.0] * 3 + [None], [None] * 4, [2.0]).measured(None, "")
    asked = names.assign(paired=[2, *[0] * (len(names) - 1)], right=0, chance=0.5)

    def measured(spec: RunSpec, name: str) -> pd.DataFrame:
        assert spec.corpus.variant == "name-insertion" and name == "written links"
        return asked

    runs = SimpleNamespace(measured=measured, run=lambda spec: SimpleNamespace(id="a-run"))
    (patients,), (ranked,) = (chosen([name])[0].measure(runs) for name in ("L-c20", "L-c21"))  # type: ignore[misc]
    assert patients.value == ranked.value == pytest.approx(3 / 4)
    asked = asked.assign(split="member", paired=2, right=1)
    (link,) = chosen(["L-c22"])[0].measure(runs)  # type: ignore[arg-type]
    assert link.value == pytest.approx((1 - 0.5) / 2)


def asked(**scores: dict[str, float]) -> SimpleNamespace:
    """Runs called as the keywords, each with the scores of its patients: a name in capitals is a member's."""
    found = {}
    for name, by_patient in scores.items():
        rows = pd.DataFrame({"patient_id": list(by_patient), "score": list(by_patient.values())})
        rows["split"] = np.where(rows["patient_id"].str.isupper(), "member", "heldout")
        own = rows.assign(method="own other half", model="target", target="last name")
        noise = [own.assign(**{column: "another", "score": -1.0}) for column in ("method", "model")]
        first = own.assign(target="first name", score=-own["score"])
        found[name] = pd.concat([own, first, *noise]).sample(frac=1, random_state=0)
    audits = SimpleNamespace(audit=lambda name: SimpleNamespace(table_of=lambda probe, table: found.get(name)))
    return SimpleNamespace(run=lambda spec: SimpleNamespace(id=spec.run_id), workspace=audits)


A, B, C = (SimpleNamespace(run_id=name) for name in "abc")


def test_half_a_name_is_compared_among_those_that_both_models_were_asked_about() -> None:
    """`b` puts every member that both know above all others; the rest of its members, below all, do not count."""
    others = {f"p{at}": 1.0 for at in range(10)}
    shared, rest = {f"P{at}": 2.0 for at in range(12)}, {f"R{at}": 0.0 for at in range(20)}
    runs = asked(a={**dict.fromkeys(shared, 1.0), **others}, b={**rest, **others, **shared})
    found = half_names_apart(runs, A, B, "last name")  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == (-0.5, -0.5, -0.5)
    found = half_names_apart(runs, B, B, "last name")  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_half_a_name_is_compared_with_the_same_draws_of_patients() -> None:
    """Against pairs in loops, and draws of its own."""
    rng = np.random.default_rng(3)
    people = [*(f"P{at:02d}" for at in range(40)), *(f"p{at:02d}" for at in range(30))]
    each = {name: 2.0 * rng.normal() + name.isupper() for name in people}  # what both models find easy
    first, second = (
        {name: score + rng.normal() + name.isupper() * more for name, score in each.items()} for more in (0, 1)
    )
    found = half_names_apart(asked(a=first, b=second), A, B, "last name")  # type: ignore[arg-type]

    def above(scores: dict[str, float]) -> np.ndarray:
        return np.array([[scores[m] > scores[h] for h in people[40:]] for m in people[:40]], dtype=float)

    apart = above(first) - above(second)
    assert found.value == pytest.approx(apart.mean())
    ours, theirs = (rng.multinomial(n, np.full(n, 1 / n), size=20_000) / n for n in (40, 30))
    drawn = np.einsum("bm,mh,bh->b", ours, apart, theirs, optimize=True)
    tail = stats.norm.sf(np.sqrt(30 / 29) * stats.t.isf(0.025, 29))  # of the smaller group
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [tail, 1 - tail]), abs=0.005)


def test_models_with_other_members_or_without_the_probe_are_not_compared() -> None:
    runs = asked(a={"P1": 1.0, "P2": 1.0, "p1": 0.0, "p2": 0.0}, b={"P1": 1.0, "P2": 1.0, "p1": 0.0, "p2": 0.0})
    moved = runs.workspace.audit("b").table_of("", "")
    moved.loc[moved["patient_id"] == "P1", "split"] = "heldout"
    with pytest.raises(ValueError, match="different members"):
        half_names_apart(runs, A, B, "last name")  # type: ignore[arg-type]
    with pytest.raises(Missing, match="run c has no results of the probe “half a name”"):
        half_names_apart(runs, A, C, "last name")  # type: ignore[arg-type]


def test_the_claim_on_fewer_names_sets_a_tenth_of_the_notes_against_half() -> None:
    """Members are known by `plain` alone, which finds them by the last name; by the first it ranks them lowest."""
    people = {**{f"P{at}": 1.0 for at in range(5)}, **{f"p{at}": 1.0 for at in range(5)}}
    known = {name: score + name.isupper() for name, score in people.items()}
    kinds: tuple[ModelKind, ...] = ("distilbert", "gpt2")
    fewer, half = ({run(kind).run_id: by for kind in kinds} for run, by in ((rarely_named, people), (plain, known)))
    found = chosen(["L-c29"])[0].measure(asked(**fewer, **half))  # type: ignore[arg-type, misc]
    assert [one.label for one in found] == [
        *(f"DistilBERT, seed 0, {name} name hidden" for name in ("last", "first")),
        "GPT-2, seed 0, last name hidden",
    ]
    assert [one.value for one in found] == [-0.5, 0.5, -0.5]
