"""Deduplication and scrubbing of training notes: exact spans, the recall that was asked for, and ids that stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.corpus.transforms.defences import PLACEHOLDERS, deduplicate, defended, is_found, scrub
from core.phi.fields import DIRECT
from core.phi.index import PhiIndex
from core.phi.leaks import find_many
from core.runs.run import RunBroken, read_spec
from core.spec import CORPUS_PRESETS, CorpusSpec, DefenceSpec, PrivacySpec, RunSpec, TrainingSpec
from core.spec.schema import read, written

DEMO = Path(__file__).resolve().parents[3] / "assets" / "demo" / "runs"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """The smoke cohort with more canaries, so that some are planted more than once."""
    return build(CORPUS_PRESETS["smoke"].model_copy(update={"canaries": 24, "copy_forward": 0.5}))


def notes_of(*rows: tuple[str, str, list[tuple[int, int, str]]]) -> pd.DataFrame:
    """A notes table of (patient, text, PHI spans)."""
    spans = [[{"start": start, "end": end, "field": field} for start, end, field in row[2]] for row in rows]
    return pd.DataFrame(
        {
            "note_id": [f"N{number}" for number in range(len(rows))],
            "patient_id": [row[0] for row in rows],
            "text": [row[1] for row in rows],
            "phi_spans": spans,
            "entity_spans": [[] for _ in rows],
        }
    )


def marked(notes: pd.DataFrame) -> list[tuple[str, str]]:
    """(field, text) of every span of every note."""
    return [
        (span["field"], text[span["start"] : span["end"]])
        for column in ("phi_spans", "entity_spans")
        for text, spans in zip(notes["text"], notes[column], strict=True)
        for span in spans
    ]


# Scrubbing -----------------------------------------------------------------------------------------------------------


def test_a_known_note_is_scrubbed_and_what_stays_keeps_its_place():
    text = "Pt Maria Keller, MRN 4410937, has gout. Maria Keller left."
    spans = [(3, 15, "full_name"), (21, 28, "mrn"), (34, 38, "diagnosis"), (40, 52, "full_name")]
    scrubbed = scrub(notes_of(("P1", text, spans)), 1.0)
    assert scrubbed["text"].tolist() == ["Pt [NAME], MRN [MRN], has gout. [NAME] left."]
    assert marked(scrubbed) == [("diagnosis", "gout")]


@settings(max_examples=60)
@given(
    pieces=st.lists(
        st.tuples(
            st.text("ab 1[]\n😀é", max_size=5),
            st.sampled_from([*DIRECT, "diagnosis", "blood_pressure"]),
            st.text("xyzÄ7", min_size=1, max_size=6),
        ),
        max_size=6,
    ),
    recall=st.sampled_from([0.3, 0.7, 1.0]),
    seed=st.integers(0, 5),
)
def test_offsets_stay_exact_for_what_remains(pieces, recall, seed):
    """Against the obvious way: put the text together again from its pieces."""
    text, spans, expected, remaining = "", [], "", []
    for plain, field, value in pieces:
        spans.append((len(text) + len(plain), len(text) + len(plain) + len(value), field))
        text += plain + value
        gone = field in DIRECT and is_found("P1", field, value, recall, seed=seed)
        expected += plain + (PLACEHOLDERS[field] if gone else value)
        remaining += [] if gone else [(field, value)]
    scrubbed = scrub(notes_of(("P1", text, spans)), recall, seed=seed)
    assert scrubbed["text"].iloc[0] == expected
    assert marked(scrubbed) == remaining


def test_every_form_of_a_value_is_found_or_missed_together():
    found = {
        form: [is_found(f"P{n}", "date_of_birth", form, 0.5) for n in range(40)]
        for form in ("1957-03-22", "22 March 1957", "03/22/1957")
    }
    first, *others = found.values()
    assert all(other == first for other in others) and 5 < sum(first) < 35
    names = [[is_found(f"P{n}", "full_name", form, 0.5) for n in range(40)] for form in ("Ann Lee", "LEE, ANN")]
    assert names[0] == names[1]


@pytest.mark.parametrize("recall", [0.5, 0.95])
def test_recall_is_realised_within_its_binomial_interval(recall):
    """2,000 values at three seeds: outside the central 99.99 % a right draw would come once in 3,000 times."""
    values = [(f"P{number}", field) for number in range(400) for field in DIRECT[:5]]
    for seed in range(3):
        found = sum(
            is_found(patient, field, f"{patient} value 1990-01-01 123456", recall, seed=seed)
            for patient, field in values
        )
        low, high = binom.ppf([5e-5, 1 - 5e-5], len(values), recall)
        assert low <= found <= high


def test_a_higher_recall_finds_what_a_lower_one_finds():
    found = {
        recall: {n for n in range(300) if is_found(f"P{n}", "ssn", "514-22-9078", recall)}
        for recall in (0.8, 0.95, 1.0)
    }
    assert found[0.8] < found[0.95] < found[1.0] == set(range(300))
    assert found[0.8] != {n for n in range(300) if is_found(f"P{n}", "ssn", "514-22-9078", 0.8, seed=1)}


def test_whole_recall_leaves_nobodys_identifier_and_every_other_span(corpus):
    notes = corpus.training_notes()
    scrubbed = scrub(notes, 1.0)
    index = PhiIndex.build(corpus.patients)
    kinds = {span.kind for spans in find_many(scrubbed["text"].tolist(), index) for span in spans}
    assert "leak" not in kinds and "linked leak" not in kinds
    assert marked(scrubbed) == [one for one in marked(notes) if one[0] not in DIRECT]
    assert scrubbed.drop(columns=["text", "phi_spans", "entity_spans"]).equals(
        notes.drop(columns=["text", "phi_spans", "entity_spans"])
    )


# Deduplication -------------------------------------------------------------------------------------------------------


def test_copies_near_copies_and_repeated_lines_go_and_short_lines_stay():
    body = "the patient walked sixty meters with the aide and had no pain at all during the whole of the long day"
    other = "dressing dry and intact with no drainage seen by the night nurse"
    notes = notes_of(
        ("P1", f"Ward 5\n{body}", []),
        ("P2", f"Ward  5\n{body.upper()}", []),  # a copy
        ("P3", f"Ward 5\n{body} today", []),  # nearly
        ("P4", f"Ward 5\n{other}\nMaria Keller went home", [(len(other) + 8, len(other) + 20, "full_name")]),
        ("P5", f"{other}\nHe ate well and asked for more of it.", [(len(other) + 1, len(other) + 3, "diagnosis")]),
        ("P6", f"Ward 5\n{other}", []),
        ("P7", other, []),  # nothing of it is new
    )
    kept = deduplicate(notes)
    assert kept["note_id"].tolist() == ["N0", "N3", "N4", "N5"]
    assert kept["text"].tolist()[2:] == ["He ate well and asked for more of it.", "Ward 5"]
    assert marked(kept) == [("full_name", "Maria Keller"), ("diagnosis", "He")]


def test_the_last_line_takes_its_break_along():
    line = "one two three four five six"
    kept = deduplicate(
        notes_of(("P1", f"alpha beta\n{line}", []), ("P2", f"gamma delta epsilon zeta eta theta\n{line}", []))
    )
    assert kept["text"].tolist() == [f"alpha beta\n{line}", "gamma delta epsilon zeta eta theta"]


def test_a_planted_canary_is_read_once(corpus):
    notes = corpus.training_notes()
    often = corpus.canaries.query("inserted and form != 'patient' and insertions > 1")
    kept = deduplicate(notes)
    assert len(often) > 2
    for row in often.itertuples():
        assert (notes["text"] == row.text).sum() == row.insertions
        assert (kept["text"] == row.text).sum() == 1
    lines = [line.lower() for text in kept["text"] for line in text.split("\n") if len(line.split()) >= 5]
    assert len(lines) == len(set(lines)) and len(kept) < len(notes)
    assert set(marked(kept)) <= set(marked(notes))


# The spec ------------------------------------------------------------------------------------------------------------


def test_no_defence_changes_nothing_and_both_come_in_order(corpus):
    notes = corpus.training_notes()
    assert defended(notes, None) is notes
    both = defended(notes, DefenceSpec(deduplicate=True, scrub_recall=1.0))
    assert both["text"].tolist() == scrub(deduplicate(notes), 1.0)["text"].tolist()
    assert np.array_equal(both.columns, notes.columns)


def test_ids_of_shipped_runs_are_what_they_were():
    specs = {path.parent.name: read(path.read_text()).spec for path in DEMO.glob("*/spec.json")}
    assert len(specs) > 10
    assert all(spec.run_id == name for name, spec in specs.items())
    undefended = [spec for spec in specs.values() if spec.defence is None]
    assert undefended and all("defence" not in spec.model_dump() for spec in undefended), "its digest knows no defence"


def test_a_defence_makes_another_run_and_the_same_control():
    plain = RunSpec()
    ids = {plain.run_id}
    for defence in (
        DefenceSpec(deduplicate=True),
        DefenceSpec(scrub_recall=0.9),
        DefenceSpec(scrub_recall=0.9, seed=1),
    ):
        spec = RunSpec(defence=defence)
        assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
        assert spec.base_spec() == plain.base_spec()
        ids.add(spec.run_id)
    assert len(ids) == 4
    assert "defence" not in plain.model_dump() and RunSpec.model_validate(plain.model_dump()) == plain


IMPORTED = CorpusSpec(imported="0123456789abcdef")
PRIVATE = [PrivacySpec(target_epsilon=8.0), PrivacySpec(noise_multiplier=1.0, unit="patient")]


@pytest.mark.parametrize("privacy", PRIVATE, ids=["note", "patient"])
def test_scrubbing_goes_with_dp_only_where_no_other_note_decides_what_is_found(privacy):
    scrubbing = DefenceSpec(scrub_recall=0.95)
    with_table = IMPORTED.model_copy(update={"identifiers": "table"})
    for corpus in (CORPUS_PRESETS["classroom"], with_table):
        assert RunSpec(corpus=corpus, privacy=privacy, defence=scrubbing).defence == scrubbing
    with pytest.raises(ValidationError, match="scrubbing and DP cannot be combined.*a table of identifiers"):
        RunSpec(corpus=IMPORTED, privacy=privacy, defence=scrubbing)
    assert RunSpec(corpus=IMPORTED, defence=scrubbing).defence == scrubbing, "without a promise none is broken"
    for corpus, offered in ((CORPUS_PRESETS["classroom"], True), (with_table, True), (IMPORTED, False)):
        with pytest.raises(ValidationError, match="deduplication and DP") as error:
            RunSpec(corpus=corpus, privacy=privacy, defence=DefenceSpec(deduplicate=True))
        assert ("or scrubbing with DP" in str(error.value)) is offered


def test_a_stored_run_that_scrubbed_such_notes_is_refused_with_the_reason(tmp_path):
    spec = RunSpec(corpus=IMPORTED, privacy=PRIVATE[0]).model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)})
    (tmp_path / spec.run_id).mkdir()
    (tmp_path / spec.run_id / "spec.json").write_text(written(spec))
    with pytest.raises(RunBroken, match=rf"{spec.run_id}.*scrubbing and DP cannot be combined"):
        read_spec(tmp_path / spec.run_id)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DefenceSpec(), "has no effect"),
        (lambda: DefenceSpec(deduplicate=True, seed=1), "without scrubbing"),
        (lambda: DefenceSpec(scrub_recall=0.0), "greater than 0"),
        (lambda: DefenceSpec(scrub_recall=1.1), "less than or equal to 1"),
        (lambda: RunSpec(defence=DefenceSpec(deduplicate=True), training=TrainingSpec(epochs=0)), "needs training"),
        (
            lambda: RunSpec(defence=DefenceSpec(deduplicate=True), privacy=PrivacySpec(target_epsilon=8.0)),
            "cannot be combined",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, says):
    with pytest.raises(ValidationError, match=says):
        make()
