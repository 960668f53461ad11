"""Every probe on a tiny hospital, and the choices that decide whom and what it asks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.attacks.battery import REGISTRY
from core.attacks.probes import cosine, generated, half_name, mlp, name_seen, per_condition, static, table
from core.attacks.probes.cosine import differences
from core.attacks.probes.generated import Named, where_first
from core.attacks.probes.identities import identities, named_in, somebody_else, turned
from core.attacks.probes.per_condition import chosen_conditions
from core.attacks.registry import NotPossible, Target, checked, no_report
from core.corpus.synthetic.hospital import build
from core.corpus.transforms.defences import defended
from core.evaluation.probes.cards import cards
from core.evaluation.probes.figures import figures
from core.spec import CorpusSpec, DefenceSpec, ModelSpec, RunSpec

CORPUS = CorpusSpec(
    patients=40, population=0, notes_per_patient=2, naming_rate=0.5, note_length="brief", canaries=0, canary_patients=0
)
PROBES = [name for name, attack in REGISTRY.items() if attack.tables == (table.PROBES,)]


@pytest.fixture(scope="module")
def corpus():
    return build(CORPUS)


def written(corpus) -> pd.DataFrame:
    """Generations that name a member with their own disease, a held-out patient, and nobody."""
    people = corpus.patients.set_index("split")
    member, other = people.loc["member"].iloc[0], people.loc["heldout"].iloc[0]
    texts = [
        f" {member['full_name']} with {member['diagnosis']}.",
        f" {other['full_name']}, MRN 1234567.",
        " Zed Nobody.",
    ]
    return pd.DataFrame({"prompt": "Patient:", "text": texts})


@pytest.fixture(scope="module")
def targets(corpus, untrained):
    """Makes the target of an untrained model of a kind, on one of the three variants of the notes."""

    def make(kind: str, variant: str = "regular") -> Target:
        models = {role: lambda report, lm=untrained[kind]: lm for role in ("target", "base")}
        spec = RunSpec(corpus=CORPUS.model_copy(update={"variant": variant}), model=ModelSpec(kind=kind))
        own = corpus if variant == "regular" else build(spec.corpus)
        return Target(spec, own, lambda name: {"generations": written(own)}[name], models)

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "variant"),
    [("gpt2", "regular"), ("bert", "regular"), ("distilbert", "name-insertion"), ("gpt2", "template-only")],
)
def test_every_probe_writes_its_table_and_every_figure_is_judged(targets, kind, variant):
    assert len(PROBES) == 7
    target = targets(kind, variant)
    told: list[tuple[int, int]] = []
    found = []
    for name in PROBES:
        attack = REGISTRY[name]
        frame = checked(attack, attack.run(target, lambda done, total: told.append((done, total))))[table.PROBES]
        assert len(frame) and np.isfinite(frame["score"]).all(), name
        found.append(frame)
    assert told and all(0 <= done <= total for done, total in told)
    rows = pd.concat(found, ignore_index=True)
    assert set(rows["probe"]) == {*PROBES, generated.PAIRS, generated.TEXTS}
    judged = figures(rows, corpus_pool(target), resamples=20)
    assert set(judged["probe"]) == set(rows["probe"])
    known = judged.dropna(subset=["low"])
    assert ((known["low"] <= known["value"] + 1e-9) & (known["value"] <= known["high"] + 1e-9)).all()
    assert [card.row for card in cards(judged)] == ["L2", "L3", "L3", "L4", "L5", "L6", "L7"]


def corpus_pool(target: Target) -> dict[str, int]:
    return target.corpus.patients["split"].value_counts().to_dict()


def test_only_named_members_and_their_conditions_are_asked_about(targets):
    target = targets("bert")
    asked = identities(target)
    notes = target.corpus.training_notes()
    members = asked.patients[asked.members]
    for person in members.itertuples():
        own = notes[notes["patient_id"] == person.patient_id]["text"]
        assert own.str.contains(f"{person.first} {person.last}", regex=False).any()
    everybody = target.corpus.patients.set_index("patient_id")
    unnamed = set(everybody.index[everybody["split"] == "member"]) - set(members["patient_id"])
    assert unnamed == set(everybody.index[everybody["split"] == "member"]) - named_in(notes, target.corpus.patients)
    assert unnamed, "this hospital leaves some members unnamed"
    counted = everybody.loc[members["patient_id"], "icd_codes"].explode().value_counts()
    assert set(asked.codes) == set(counted.index)
    assert asked.frequency.tolist() == [counted[code] for code in asked.codes]
    for row, patient_id in enumerate(asked.patients["patient_id"]):
        assert {code for code, has in zip(asked.codes, asked.has[row], strict=True) if has} == set(
            everybody.loc[patient_id, "icd_codes"]
        ) & set(asked.codes)


def test_without_codes_the_probes_of_names_alone_are_still_made(targets):
    target = targets("gpt2")
    patients = target.corpus.patients.assign(icd_codes=[[] for _ in range(len(target.corpus.patients))])
    bare = replace(target, corpus=replace(target.corpus, patients=patients), _kept={})
    assert identities(bare).codes == () and identities(bare).has.shape == (len(identities(bare).patients), 0)
    for name in PROBES:
        if name in (name_seen.PROBE, half_name.PROBE, generated.NAMES):
            frame = checked(REGISTRY[name], REGISTRY[name].run(bare, no_report))[table.PROBES]
            assert len(frame), name
        else:
            with pytest.raises(NotPossible, match="no named member has a known ICD code"):
                REGISTRY[name].run(bare, no_report)


def test_another_name_is_of_the_same_split_and_title_and_lent_once():
    people = pd.DataFrame({"split": ["member"] * 7 + ["heldout"] * 3, "title": list("AABBBBCDDD")})
    other = somebody_else(people, np.random.default_rng(0))
    for row, place in enumerate(other):
        assert place != row and people["split"][place] == people["split"][row]
        if people["title"][row] != "C":  # the only one of its title: anybody of the split
            assert people["title"][place] == people["title"][row]


def test_pairs_to_learn_from_are_balanced():
    has = np.zeros((6, 5), dtype=bool)
    has[[0, 1, 4], [2, 3, 1]] = True
    who, what = mlp.balanced_pairs(has, np.array([0, 1, 2]), np.random.default_rng(0))
    assert set(who) <= {0, 1, 2} and len(who) == 4 and has[who, what].sum() == 2


def test_the_rarer_class_is_repeated():
    labels = np.array([True, False, False, False, False])
    rows = per_condition.balanced(labels)
    assert labels[rows].sum() == 4 and (~labels[rows]).sum() == 4 and set(rows) == {0, 1, 2, 3, 4}


def test_a_half_of_each_label_is_for_training():
    labels = np.array([True] * 9 + [False] * 4)
    train = name_seen.train_half(labels, np.random.default_rng(0))
    assert train[:9].sum() == 4 and train[9:].sum() == 2


def test_the_regression_finds_a_difference_that_is_there():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2 == 0
    features = rng.normal(size=(60, 4)) + 4.0 * labels[:, None]
    train = name_seen.train_half(labels, rng)
    scores = name_seen.regression_scores(features, labels, train)
    assert scores[labels[~train]].min() > scores[~labels[~train]].max()


def test_the_network_finds_a_difference_that_is_there():
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2 == 0
    features = rng.normal(size=(80, 4)) + 3.0 * labels[:, None]
    scores = mlp.probe_scores(features[:40], labels[:40], features[40:], 0)
    assert scores[labels[40:]].mean() > 0.9 > 0.1 > scores[~labels[40:]].mean()


def test_cosine_differences_by_hand():
    names = np.array([[1.0, 0.0], [np.nan, np.nan]])
    conditions = np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [np.nan, np.nan]])
    similarity = cosine.cosines(names, conditions)
    np.testing.assert_allclose(similarity[0, :3], [1.0, 0.0, -1.0])
    found = cosine.differences(similarity, np.array([[True, False, False, True], [True, False, False, False]]))
    assert found[0] == pytest.approx(1.0 - (0.0 - 1.0) / 2) and np.isnan(found[1])


def test_static_vectors_are_repeatable_and_averaged():
    notes = ["Maria Keller has fever.", "John Poe has a rash.", "Maria Keller had fever again."] * 5
    for method in static.METHODS:
        known = static.word_vectors(notes, method, seed=0)
        again = static.word_vectors(notes, method, seed=0)
        assert set(known) == {"maria", "keller", "has", "fever", "john", "poe", "a", "rash", "had", "again"}
        assert all((known[word] == again[word]).all() for word in known)
    mean = static.mean_vectors(
        {"maria": np.ones(static.WIDTH), "keller": np.zeros(static.WIDTH)}, ["Maria Keller", "X"]
    )
    assert (mean[0] == 0.5).all() and np.isnan(mean[1]).all()


def test_names_are_found_only_in_what_was_generated():
    wholes = ["Patient: Maria Keller was seen. Re: Keller, Maria came back.", "Patient: nobody in particular"]
    found = generated.names_written(wholes, [len("Patient: Maria Keller"), 9])
    assert [(one.generation, one.name) for one in found] == [(0, "maria keller")]
    assert wholes[0][found[0].start : found[0].end] == "Keller, Maria"


def test_conditions_are_whole_words_and_the_longest():
    finder = generated.Conditions([("A", "diabetes"), ("B", "type 2 diabetes"), ("C", "rash")])
    assert finder.codes("Type 2 diabetes, no rashes.") == {"B"}
    assert finder.codes("Diabetes and type 2 diabetes; rash") == {"A", "B", "C"}
    finder = generated.Conditions([("250.00", "Diabetes"), ("E11.9", "diabetes"), ("C", "rash")])
    assert finder.codes("No diabetes.") == {"250.00", "E11.9"}, "two codes of imported notes may have the same words"


def test_pairs_by_hand():
    people = pd.DataFrame(
        {
            "patient_id": ["m1", "m2", "m3"],
            "split": "member",
            "full_name": ["Maria Keller", "John Poe", "Ann Lee"],
            "icd_codes": [["A"], ["A", "C"], ["D"]],
        }
    )
    finder = generated.Conditions([("A", "diabetes"), ("C", "rash"), ("D", "gout")])
    wholes = ["Patient: Maria Keller has diabetes. There is gout.", "Patient: Ann Lee has a rash."]
    found = generated.names_written(wholes, [8, 8])
    rows = generated.pair_rows(wholes, [8, 8], found, people, finder).set_index(["patient_id", "bin"])
    sentence = rows.loc[("m1", generated.ONE_SENTENCE)]
    assert sentence["label"] and sentence["score"] == pytest.approx(1 / 2), "of the two others one has diabetes"
    text = rows.loc[("m1", generated.ONE_TEXT)]
    assert text["label"] and text["score"] == pytest.approx(1.0), "both have diabetes or gout"
    wrong = rows.loc[("m3", generated.ONE_SENTENCE)]
    assert not wrong["label"] and wrong["score"] == pytest.approx(1 / 2)
    nameless = people.assign(full_name=["Maria Keller", None, "Ann Lee"])  # as in imported cohorts
    assert generated.pair_rows(wholes, [8, 8], found, nameless, finder)["score"].tolist() == rows["score"].tolist()


def test_without_any_name_nothing_is_ranked_and_the_card_says_so(targets):
    target = targets("bert")
    target.tables = lambda name: pd.DataFrame({"prompt": ["Patient:"] * 50, "text": [" seen today."] * 50})
    attack = REGISTRY[generated.NAMES]
    rows = checked(attack, attack.run(target, lambda done, total: None))[table.PROBES]
    assert set(rows["probe"]) == {generated.TEXTS} and len(rows) == 50 and not rows["label"].any()
    found = figures(rows, corpus_pool(target), resamples=10)
    assert found["value"].tolist() == [0.0] and found["n"].tolist() == [50]
    assert found["high"].iloc[0] == pytest.approx(1.96**2 / (50 + 1.96**2), abs=1e-3), "Wilson's interval of 0 of 50"
    (card,) = cards(found)
    assert (card.row, card.verdict) == ("L7", "no sign")
    assert "None of its 50 texts contains a full name" in card.answer


def test_texts_are_counted_whether_or_not_they_name_anybody():
    wholes = ["Patient: Maria Keller was seen. Re: Keller, Maria came back.", "Patient: nobody in particular"]
    found = generated.names_written(wholes, [8, 8])
    rows = generated.text_rows(2, found)
    assert rows["score"].tolist() == [2.0, 0.0] and rows["label"].tolist() == [True, False]


def test_names_are_found_in_the_usual_ways_to_write_them():
    names = {"a": "Maria Keller", "b": "Keller, Maria", "c": "Maria Anna Keller", "d": "Rosa Poe", "e": None}
    patients = pd.DataFrame({"patient_id": list(names), "full_name": list(names.values())})
    notes = pd.DataFrame(
        [
            ("a", "KELLER, MARIA seen"),
            ("b", "seen: maria keller"),
            ("c", "Maria Keller"),
            ("d", "Rosa"),
            ("d", "POE, ROSA"),
            ("e", "None"),
            ("x", "Maria Keller"),
        ],
        columns=["patient_id", "text"],
    )
    assert named_in(notes, patients) == {"a", "b", "d"}
    assert turned("Keller,  Maria Anna") == "Maria Anna Keller" and turned("Maria  Keller") == "Maria Keller"


def test_a_name_of_several_people_is_the_members():
    people = pd.DataFrame(
        [("a", "member", "John Smith"), ("b", "heldout", "Smith, John"), ("c", "heldout", "Rosa Poe")],
        columns=["patient_id", "split", "full_name"],
    )
    for rows in (people, people.iloc[::-1]):
        assert generated.owners(rows) == {"john smith": ("a", "member"), "rosa poe": ("c", "heldout")}


def test_without_conditions_no_text_has_any():
    assert generated.Conditions([]).codes("type 2 diabetes mellitus") == set()


def test_what_was_read_is_what_the_defence_left(targets):
    target = targets("bert")
    assert target.trained_texts == target.corpus.training_notes()["text"].tolist()
    defence = DefenceSpec(scrub_recall=1.0)
    scrubbed = replace(target, spec=target.spec.model_copy(update={"defence": defence}), _kept={})
    assert scrubbed.trained_texts == defended(target.corpus.training_notes(), defence)["text"].tolist()
    assert scrubbed.trained_texts != target.trained_texts


def test_names_are_kept_in_the_order_in_which_they_were_first_written():
    """The cut at the most names that are scored must not drop those that were written again later."""
    written = ["often", "once", "another", "often", "last"]
    first = where_first([Named(row, 0, 5, name) for row, name in enumerate(written)])
    assert [(one.name, one.generation) for one in first] == [("often", 0), ("once", 1), ("another", 2), ("last", 4)]


def test_conditions_without_a_vector_count_on_neither_side():

    similarity = np.array([[0.8, np.nan, 0.2, 0.4, np.nan]])
    assert differences(similarity, np.array([[True, True, False, False, False]])).tolist() == pytest.approx([0.5])


def test_a_condition_that_everybody_has_is_not_asked_about():

    has = np.zeros((8, 3), dtype=bool)
    has[:4, 0], has[[0, 4], 1] = True, True  # 0: every learning member has it; 1: one of each half
    has[4, 0] = True
    has[:, 2] = True
    asked = SimpleNamespace(members=np.ones(8, dtype=bool), codes=("a", "b", "c"), has=has, frequency=has.sum(0))
    found = chosen_conditions(asked, np.arange(4), np.random.default_rng(0))
    assert [place for place, _ in found] == [1]


def test_where_every_patient_has_every_condition_cosine_and_network_are_not_possible(targets, monkeypatch):
    """`failed` would be tried again at every audit, and a network that sees one answer alone ranks by its noise."""
    target = targets("gpt2")
    asked = identities(target)
    having_all = replace(asked, has=np.ones_like(asked.has))
    monkeypatch.setattr(cosine, "with_conditions", lambda target: having_all)
    with pytest.raises(NotPossible, match="one that they lack"):
        cosine.cosine_similarity(target)
    monkeypatch.setattr(mlp, "with_conditions", lambda target: having_all)
    with pytest.raises(NotPossible, match="its training half has every condition"):
        mlp.probing_network(target)


@pytest.mark.parametrize(("ages", "filled"), [([57, 58], 57), ([57, 59], 58), ([], 60)])
def test_a_patient_without_an_age_gets_the_median_in_whole_years(corpus, ages, filled):
    """As imported cohorts have them: the median of 57 and 58 years does not fit a column of whole years."""

    def asked(patients: pd.DataFrame) -> pd.DataFrame:
        target = Target(RunSpec(corpus=CORPUS), replace(corpus, patients=patients), lambda name: {}[name], {})
        return identities(target).patients

    first = asked(corpus.patients)["patient_id"].head(len(ages)).tolist()
    given = corpus.patients["patient_id"].map(dict(zip(first, ages, strict=True))).astype("Int16")
    found = asked(corpus.patients.assign(age=given)).set_index("patient_id")["age"]
    assert found[first].tolist() == ages and set(found.drop(first)) == {filled}
