"""A name that a member and a held-out patient have counts for neither: figures with a known answer."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.attacks.forgetting import written
from core.attacks.memorisation.extraction import index_of, value_hits
from core.attacks.memorisation.own_values import own_hits, own_rows
from core.cli import attacks
from core.corpus.tables import Corpus
from core.evaluation.across_sizes import named_texts
from core.evaluation.defences.filter_evasion import USUAL, filter_evasion
from core.evaluation.memorisation.discoverable import tries_figures
from core.evaluation.memorisation.extraction import by_field, first_leaks
from core.evaluation.probes.figures import of_own_names
from core.evaluation.released_notes import named
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import extraction_rows, left_out, pools, scale_to_pool
from core.evaluation.verdict import NAMED, chance_sentence, found
from core.evaluation.wording import left_out_sentence, shared_values_sentence
from core.phi.fields import DIRECT, FIELDS
from core.spec import CorpusSpec, RunSpec

SPEC = CorpusSpec(imported="0" * 16)
NAMES = {
    "A": ("member", "Maria Keller"),
    "B": ("member", "Bob Martin"),
    "C": ("member", "Cleo Hart"),
    "D": ("member", "Dan Frost"),
    "X": ("heldout", "Keller, Maria"),
    "Y": ("heldout", "Yan Lindqvist"),
    "Z": ("heldout", "Zoe Okafor"),
}
# The model has learned two members' names. One of them is a held-out patient's, too.
TEXTS = ["Maria Keller came.", "Seen: Maria Keller, asthma.", "Bob Martin left.", "Nobody.", "Nobody."]


def cohort(**columns: dict[str, str]) -> Corpus:
    """The patients of `NAMES`, and more of their values by column and patient."""
    frame = pd.DataFrame([(who, *known) for who, known in NAMES.items()], columns=["patient_id", "split", "full_name"])
    frame = frame.reindex(columns=["patient_id", "split", *(field.name for field in FIELDS)]).astype(object)
    for column, values in columns.items():
        frame[column] = frame["patient_id"].map(values)
    frame = frame.where(frame.notna(), None)
    canaries = pd.DataFrame({"canary_id": [], "inserted": []})
    return Corpus(spec=SPEC, patients=frame, notes=pd.DataFrame(), canaries=canaries)


def generated(texts: list[str] = TEXTS) -> pd.DataFrame:
    return pd.DataFrame({"generation_id": range(len(texts)), "prompt_id": 1, "prompt": "", "text": texts})


def figures(corpus: Corpus, texts: list[str] = TEXTS) -> dict:
    """The rows of the metrics table by figure and arm."""
    hits = value_hits(generated(texts), index_of(corpus))
    return {(row.metric, row.arm): row for row in extraction_rows(generated(texts), hits, corpus)}


def test_the_name_of_two_patients_counts_for_neither():
    """Counted for both, one of three held-out patients were “named by chance”, though no chance was at work."""
    rows = figures(cohort())
    own, control = rows[NAMED, "run"], rows[NAMED, "heldout"]
    assert (own.value, own.n) == (pytest.approx(1 / 3), 3), "Bob, of Bob, Cleo and Dan"
    assert (control.value, control.n) == (0.0, 2), "neither Yan nor Zoe; X would have been a hit"
    assert (own.low, own.high) == proportion_interval(1, 3) and (control.low, control.high) == proportion_interval(0, 2)
    assert own.note.endswith("; 1 left out, because other patients have the same value")
    texts = rows["attempts_with_leak", "run"], rows["attempts_with_leak_uncorrected", "heldout"]
    assert [row.value for row in texts] == [pytest.approx(1 / 5), 0.0], "texts 0 and 1 prove nothing"


def test_texts_with_a_name_are_scaled_by_those_who_count():
    corpus = cohort()
    texts = [*TEXTS, "Zoe Okafor."]
    hits = own_hits(value_hits(generated(texts), index_of(corpus)), corpus.shared_values)
    rows = {row.arm: row.value for row in named_texts(generated(texts), hits, pools(corpus, ("full_name",)))}
    assert rows == {"run": pytest.approx(1 / 6), "heldout": pytest.approx(scale_to_pool(1 / 6, 3 / 2))}


def test_every_count_of_patients_follows_the_same_rule():
    corpus = cohort()
    hits = value_hits(generated(), index_of(corpus))
    fields = by_field(hits, corpus).set_index(["field", "arm"])
    assert fields.loc[("full_name", "run"), ["patients", "pool"]].tolist() == [1, 3]
    assert fields.loc[("full_name", "heldout"), ["patients", "pool"]].tolist() == [0, 2]
    first = first_leaks(generated(), hits, corpus)
    assert set(first["patient_id"]) == set("BCDYZ") and first.loc[first["leaked"], "patient_id"].tolist() == ["B"]
    released = {row.arm: (row.value, row.n) for row in named(hits, corpus, len(TEXTS)) if row.arm != "texts"}
    assert released == {"members": (pytest.approx(1 / 3), 3), "held out": (0.0, 2)}
    reworded = generated([]).assign(wording="running text", model="target")
    evaded = filter_evasion(reworded, generated(), corpus, compared={}).set_index(["wording", "arm"])["value"]
    assert evaded[USUAL, "run"] == pytest.approx(1 / 5) and evaded[USUAL, "heldout"] == 0.0


def test_a_patient_with_another_identifier_counts_by_that_one():
    corpus = cohort(mrn={"A": "MRN-1111111", "X": "MRN-2222222"})
    assert pools(corpus, DIRECT) == {"run": 4, "heldout": 3} and left_out(corpus, DIRECT) == {"run": 0, "heldout": 0}
    rows = figures(corpus, [*TEXTS, "MRN-1111111"])
    assert rows["direct_patients", "run"].value == pytest.approx(2 / 4), "A by the record number, B by name"
    assert rows["direct_patients", "heldout"].value == 0.0
    assert rows[NAMED, "run"].n == 3, "by name A still does not count"


def test_a_number_of_relatives_is_treated_like_a_name():
    corpus = cohort(phone={"B": "(415) 555-0142", "Y": "415-555-0142", "C": "(415) 555-9999"})
    rows = figures(corpus, ["Call (415) 555-0142.", "Call (415) 555-9999."])
    assert rows["field_patients:phone", "run"].value == 1.0 and rows["field_patients:phone", "run"].n == 1
    assert ("field_patients:phone", "heldout") not in rows, "nobody held out has a number of their own"


def test_a_shared_name_links_no_health_detail():
    """“Maria Keller, asthma” is no more about the one than about the other. Beside a record number it is."""
    both = {"diagnosis": {who: "asthma" for who in NAMES}, "mrn": {"A": "MRN-1111111"}}
    corpus = cohort(**both)
    key = "field_patients:diagnosis"
    rows = figures(corpus)
    assert rows[key, "run"].value == rows[key, "heldout"].value == 0.0
    assert rows[key, "run"].n == 4 and rows[key, "heldout"].n == 2, "X has nothing else that would tell who it is"
    linked = figures(corpus, ["Maria Keller, MRN-1111111, asthma.", "Bob Martin has asthma."])
    assert linked[key, "run"].value == pytest.approx(2 / 4) and linked[key, "heldout"].value == 0.0


def test_hits_of_the_loose_rule_and_of_no_patient_stay():
    corpus = cohort()
    hits = value_hits(generated(), index_of(corpus))
    more = pd.concat([hits.assign(rule="old"), hits.assign(patient_id=None)])
    pd.testing.assert_frame_equal(own_hits(more, corpus.shared_values), more)
    assert own_hits(hits, frozenset()) is hits and own_rows(hits, frozenset()) is hits


def test_tries_are_compared_without_shared_values():
    """X's name is as easy as A's, since it is the same: no member's name would be easier than every control."""
    chances = {"A": -1.0, "B": -2.0, "C": -9.0, "D": -9.0, "X": -1.0, "Y": -8.0, "Z": -8.0}
    rows = [(who, NAMES[who][0], "full_name", 1, chance) for who, chance in chances.items()]
    table = pd.DataFrame(rows, columns=["patient_id", "split", "field", "prompt_id", "log_p"])

    def above(table: pd.DataFrame) -> pd.Series:
        found = tries_figures(table, resamples=20)
        return found[(found["field"] == "full_name") & (found["figure"] == "above")].iloc[0]

    assert above(table)["value"] == 0.0
    counted = above(own_rows(table, cohort().shared_values))
    assert counted["value"] == pytest.approx(1 / 3) and counted["patients"] == 3


def test_probes_ask_about_names_that_were_not_read_under_another_patient():
    rows = [("half a name", who, split, 0.0) for who, (split, _) in NAMES.items()]
    rows += [("generated names", "A", "member", 3.0), ("generated names", "B", "member", 2.0)]
    rows += [("frequency", None, None, 1.0)]
    probes = pd.DataFrame(rows, columns=["probe", "patient_id", "split", "score"])
    kept = of_own_names(probes, cohort().shared_values)
    asked = kept.groupby("probe")["patient_id"].apply(list)
    assert asked["half a name"] == list("BCDYZ") and asked["generated names"] == ["B"]
    assert len(kept[kept["probe"] == "frequency"]) == 1 and of_own_names(probes, frozenset()) is probes
    few = of_own_names(probes[~probes["patient_id"].isin(["Y", "Z"])], cohort().shared_values)
    assert "half a name" not in set(few["probe"]), "without a held-out patient nothing is compared"


def test_forgetting_does_not_blame_a_model_for_a_namesake():
    corpus = cohort()
    found = written(generated(), index_of(corpus), "B", list("XYZ"), list("ABCD"), corpus.shared_values)
    assert (found["never_seen"], found["never_seen_written"], found["others"], found["others_leaked"]) == (2, 0, 2, 0)
    assert found["patient_texts"] == 1
    of_two = written(generated(), index_of(corpus), "A", list("XYZ"), list("ABCD"), corpus.shared_values)
    assert of_two["patient_texts"] is None, "no value is A's alone"


def test_without_memorisation_neither_group_is_favoured():
    """Over all splits of eight patients, two of them namesakes, whose name and Bob's are written by chance.

    Counted for nobody, the name of two patients leaves the mean rates of both groups equal. Leaving out only patients
    with a namesake in the other group would favour members: in the larger group, namesakes are together more often.
    """
    names = ["Maria Keller"] * 2 + ["Bob Martin", "Cleo Hart", "Dan Frost", "Yan Lindqvist", "Zoe Okafor", "Eve Moss"]
    known = pd.DataFrame({"patient_id": list("ABCDEFGH"), "full_name": names, "split": "member"})
    known = known.reindex(columns=["patient_id", "split", *(field.name for field in FIELDS)])
    corpus, texts = replace(cohort(), patients=known), generated(["Maria Keller and Bob Martin."])
    hits = value_hits(texts, index_of(corpus))
    hit = np.isin(known["patient_id"], hits["patient_id"])
    assert hit.tolist() == [True] * 3 + [False] * 5
    by_rule, across_alone = [], []
    for chosen in combinations(range(8), 5):
        member = np.isin(np.arange(8), chosen)
        split = dict(zip(known["patient_id"], np.where(member, "member", "heldout"), strict=True))
        drawn = replace(corpus, patients=known.assign(split=known["patient_id"].map(split)))
        counted, pool = own_hits(hits, drawn.shared_values)["patient_id"].map(split), pools(drawn, ("full_name",))
        by_rule.append((counted == "member").sum() / pool["run"] - (counted == "heldout").sum() / pool["heldout"])
        kept = (np.array(names) != "Maria Keller") | (member[0] == member[1])
        across_alone.append(hit[member & kept].mean() - hit[~member & kept].mean())
    assert np.mean(by_rule) == pytest.approx(0.0, abs=1e-12)
    assert np.mean(across_alone) > 0.05


def test_the_verdict_blames_no_namesake():
    rows = figures(cohort(), [*TEXTS, "Zoe Okafor."])
    metrics = pd.DataFrame([vars(row) for row in rows.values()])
    own = found(metrics, RunSpec(corpus=SPEC))
    assert own.own_values
    assert "same name" not in chance_sentence(own) and "by chance (95" in chance_sentence(own)
    earlier = found(metrics.assign(note="of member patients with a known value"), RunSpec(corpus=SPEC))
    assert not earlier.own_values
    assert "or because a training patient has the same name" in chance_sentence(earlier)


def test_the_sentence_for_names():
    assert left_out_sentence(0, 0) == ""
    assert left_out_sentence(1, 1) == (
        "2 patients with the same full name as another patient are left out (1 trained on, 1 held out): the name does "
        "not show which patient is meant."
    )
    assert left_out_sentence(0, 1).startswith("1 patient with the same full name as another patient is left out (0 ")


def test_the_sentence_for_any_identifier():
    assert shared_values_sentence(frozenset()) == ""
    shared = {("A", "full_name"), ("A", "phone"), ("X", "full_name")}
    assert shared_values_sentence(shared).startswith("2 patients share a name, number or address with another patient.")


def test_the_command_counts_and_says_the_same(capsys):
    corpus = cohort()
    hits = value_hits(generated(), index_of(corpus))
    attacks._tell("a run", corpus, {"run": (generated(), hits)}, as_json=False)
    told = capsys.readouterr().out
    assert "patients with a direct identifier: 1 member, 0 held-out (control)" in told
    assert told.rstrip().endswith(shared_values_sentence(corpus.shared_values))
    attacks._tell("a run", corpus, {"run": (generated(), hits)}, as_json=True)
    shared = [{"patient_id": "A", "field": "full_name"}, {"patient_id": "X", "field": "full_name"}]
    assert json.loads(capsys.readouterr().out)["shared_values"] == shared


def test_playground_and_canaries_count_as_the_stored_audit_does(monkeypatch):
    from core.phi.leaks import find_many
    from pages.parts.canaries import generated_text
    from pages.parts.playground.leak_counts import counted
    from pages.parts.playground.side_by_side import Answer
    from pages.parts.session import owner, resources

    corpus = cohort()
    spans = tuple(tuple(one) for one in find_many(TEXTS, index_of(corpus)))
    splits = corpus.patients.set_index("patient_id")["split"]
    tries = counted([Answer("r", tuple(range(5)), tuple(TEXTS), spans)], splits, corpus.shared_values)
    assert (tries.samples, tries.leaks, tries.control) == (5, 1, 0)

    hits = value_hits(generated(), index_of(corpus))
    stored = {"greedy_generations": generated(), "greedy_hits": hits}
    monkeypatch.setattr(generated_text, "audit_table", lambda run, name: stored[name])
    monkeypatch.setattr(owner, "workspace", lambda: SimpleNamespace(corpus=lambda spec: corpus))
    resources.empty_caches()
    told = generated_text.greedy_sentence(SimpleNamespace(spec=SimpleNamespace(corpus=SPEC)))
    assert told.endswith("reveal an identifier of 1 training and 0 held-out patients.")
    resources.empty_caches()
