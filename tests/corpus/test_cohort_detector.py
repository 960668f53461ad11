"""A cohort's figures use the detector of its import: a name that the shapes miss is counted, and filtered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.attacks.memorisation.extraction import index_of, searched_again, searched_by, value_hits
from core.attacks.probes import generated
from core.attacks.probes.table import PROBES
from core.attacks.registry import REGISTRY, Target
from core.corpus.cohort_detector import cohort_detector
from core.corpus.importing import memory
from core.corpus.importing.importer import read_notes
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.evaluation import registry
from core.evaluation.defences.filter_evasion import FILTER_EVASION
from core.evaluation.defences.filtering import filtered, filters
from core.evaluation.memorisation.known_words import identifier_spans
from core.evaluation.probes.figures import figures
from core.evaluation.released_notes import named
from core.phi.detector import tagger
from core.phi.detector.engine import RULES, SHAPES, WITH_TAGGER, rules, shapes
from core.pipeline.quick_audit import figures as quick_figures
from core.runs.tables import read_table, write_table
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

UNLISTED = " seen by Zorvan Quillt today."  # on no list of names, and without a cue that the shapes know
NAME = "Zorvan Quillt"


def own(detector: str | None) -> CorpusSpec:
    return CorpusSpec(imported="0" * 16, detector=detector)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Twelve uploaded patients, searched by the rules without the tagger."""
    path: Path = tmp_path_factory.mktemp("own") / "notes.csv"
    lasts = ("Keller", "Poe", "Lee", "Abernathy", "Smith", "Jones", "Brown", "Graves", "Reed", "Young", "Hill", "Ward")
    lines = [f'P{number},"Patient: Maria {last} has a cough."' for number, last in enumerate(lasts)]
    path.write_text("\n".join(["patient_id,text", *lines]) + "\n")
    return read_notes(path, detector=RULES, canaries=0)


def written(*texts: str) -> pd.DataFrame:
    rows = [(number, 1, "Note:", number, text) for number, text in enumerate(texts)]
    return pd.DataFrame(rows, columns=["generation_id", "prompt_id", "prompt", "seed", "text"])


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (None, SHAPES),
        (CORPUS_PRESETS["smoke"], SHAPES),
        (own(None), SHAPES),
        (own(SHAPES), SHAPES),
        (own(RULES), RULES),
        (own("rules 1"), RULES),
        (own(WITH_TAGGER), WITH_TAGGER),
        (own("rules 1 + en_core_web_sm 3.7.0"), WITH_TAGGER),
    ],
)
def test_the_detector_is_that_of_the_import_in_todays_version(spec, name, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: memory.TAGGER)
    assert cohort_detector(spec).name == name and cohort_detector(spec).lacks == ""


def test_without_the_tagger_or_its_memory_the_rules_search_and_say_why(monkeypatch):
    monkeypatch.setattr(tagger, "loaded", lambda: False)
    monkeypatch.setattr(memory, "free_memory", lambda: memory.TAGGER - 1)
    found = cohort_detector(own(WITH_TAGGER))
    assert found.name == RULES and "it needs 450 MB of memory" in found.lacks
    monkeypatch.setattr(tagger, "loaded", lambda: True)  # its memory is in use already
    assert cohort_detector(own(WITH_TAGGER)).name == WITH_TAGGER
    monkeypatch.setattr(tagger, "PACKAGE", "no_such_package")
    found = cohort_detector(own(WITH_TAGGER))
    assert found.name == RULES and "not installed" in found.lacks


def test_an_invented_name_that_the_shapes_miss_is_counted_and_its_table_says_who_found_it(cohort, tmp_path):
    detector, index = cohort_detector(cohort.spec), index_of(cohort)
    assert detector == rules()
    generations = written(UNLISTED, " has a cough.")
    assert value_hits(generations, index).empty, "the shapes do not find it"
    hits = value_hits(generations, index, detector)
    assert hits[["generation_id", "field", "value", "kind"]].values.tolist() == [[0, "full_name", NAME, "invented"]]
    assert hits["patient_id"].isna().all()
    write_table(tmp_path, "hits", hits)
    assert searched_by(read_table(tmp_path, "hits", "r")) == RULES
    write_table(tmp_path, "hits", value_hits(generations, index))
    assert searched_by(read_table(tmp_path, "hits", "r")) == SHAPES


def test_a_member_keeps_their_leak_whatever_else_the_detector_finds(cohort):
    member = cohort.patients[cohort.patients["split"] == "member"].iloc[0]
    hits = value_hits(written(f" {member['full_name']} was{UNLISTED}"), index_of(cohort), rules())
    assert hits[["kind", "patient_id"]].fillna("").values.tolist() == [["leak", member["patient_id"]], ["invented", ""]]


def test_hits_that_were_stored_by_shapes_are_searched_again_and_others_are_left(cohort):
    generations = written(UNLISTED)
    index = index_of(cohort)
    old_rule = pd.DataFrame(
        [(0, 0, 5, "full_name", "x", "leak", "P1", "member", "old")], columns=list(value_hits(generations, index))
    )
    stored = {"generations": generations, "hits": pd.concat([value_hits(generations, index), old_rule])}
    again = searched_again(stored, cohort)
    assert again["hits"]["rule"].tolist() == ["value", "old"] and searched_by(again["hits"]) == RULES
    assert searched_again(again, cohort) is again, "once is enough"
    synthetic = build(CORPUS_PRESETS["smoke"])
    assert searched_again(stored, synthetic) is stored, "a synthetic cohort keeps what it has"


def test_known_words_of_a_run_and_of_its_control_leave_out_the_same_identifiers(cohort, monkeypatch):
    """Both were audited by shapes; one of the two texts is a name that the shapes missed."""
    seen: list[tuple[dict, str]] = []

    def summarise(tables, control, **_):
        seen.extend((identifier_spans(one["hits"]), searched_by(one["hits"])) for one in (tables, control))
        return pd.DataFrame()

    monkeypatch.setattr("core.evaluation.summary.summarise", summarise)
    generations = written(UNLISTED)
    stored = {"generations": generations, "hits": value_hits(generations, index_of(cohort))}
    quick_figures(RunSpec(corpus=cohort.spec), cohort, stored, dict(stored), None)
    begin = UNLISTED.index(NAME)
    assert seen == [({0: [(begin, begin + len(NAME))]}, RULES)] * 2
    assert 1 < registry.figure("known_words").since_imported <= registry.version(imported=True)


def test_released_notes_count_the_name_and_say_who_found_it(cohort):
    generations, index = written(UNLISTED, " has a cough."), index_of(cohort)
    by_rules = named(value_hits(generations, index, rules()), cohort, 2)[-1]
    assert (by_rules.metric, by_rules.value) == ("texts_with_phantom", 0.5) and by_rules.note.endswith(RULES)
    by_shapes = named(value_hits(generations, index), cohort, 2)[-1]
    assert by_shapes.value == 0.0 and by_shapes.note == "texts with an invented identifier"


def test_the_output_filter_of_uploaded_notes_searches_with_their_detector(cohort):
    generations = written(UNLISTED)
    own_filters = filters(cohort)
    assert list(own_filters) == [RULES, "known values", "both", "both, answer alone"]
    for name, one in own_filters.items():
        assert (NAME in filtered(generations, one)["text"].iloc[0]) == (name == "known values"), name
    by_shapes = filters(cohort, shapes())
    assert NAME in filtered(generations, by_shapes["both"])["text"].iloc[0]
    assert list(filters(build(CORPUS_PRESETS["smoke"])))[0] == "shapes"
    assert [one.version_imported > one.version for one in FILTER_EVASION] == [True, True]


def test_the_probe_of_names_finds_it_and_its_figure_says_who_did(cohort, monkeypatch):
    monkeypatch.setattr(generated, "name_scores", lambda lm, wholes, found: np.zeros(len(found)))
    models = {role: lambda report: None for role in ("target", "base")}
    target = Target(RunSpec(corpus=cohort.spec), cohort, lambda name: written(UNLISTED, " has a cough."), models)
    rows = generated.generated_names(target)[PROBES]
    assert rows.loc[rows["probe"] == generated.NAMES, "target"].tolist() == [NAME.lower()]
    texts = figures(rows, {"member": 8, "heldout": 4}).query("probe == @generated.TEXTS").iloc[0]
    assert (texts["value"], texts["note"]) == (0.5, f"texts; names found by {RULES}")
    wholes = ["Note:" + UNLISTED]
    assert generated.names_written(wholes, [5]) == generated.names_written(wholes, [5], shapes()) == []


def test_only_imported_runs_have_the_probe_made_again():
    attack = REGISTRY[generated.NAMES]
    assert attack.version_for(RunSpec(corpus=CORPUS_PRESETS["smoke"])) == 1
    assert attack.version_for(RunSpec(corpus=own(RULES))) == 3
