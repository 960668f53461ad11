"""Records read out of notes, against counting them one by one; and that the size of a batch decides nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.importing import files, spool
from core.corpus.importing.importer import import_notes
from core.corpus.importing.records import Evidence, Marker, whole_name
from core.corpus.importing.spool import RawNotes, SpanSpool
from core.corpus.synthetic.hospital import build
from core.phi.detector.engine import rules, shapes
from core.phi.fields import DIRECT
from core.phi.patterns import forms
from core.spec import CORPUS_PRESETS

FIELDS = ("full_name", "phone", "ssn", "date")  # a date is no direct identifier
VALUES = ("Ann Lee", "Lee, Ann", "Ann", "Bo Ek", "(617) 555-0100", "617.555.0100", "555", "Éva Nagy", "éva nagy")
PATIENTS = ("A", "B", "C")
NOTE = st.tuples(st.integers(0, 2), st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES)), max_size=5))


def written(mentions: list[tuple[str, str]]) -> tuple[str, list[tuple[int, int, str]]]:
    """A text that holds these values, and where."""
    text, places = "", []
    for field, value in mentions:
        text += " "
        places.append((len(text), len(text) + len(value), field))
        text += value
    return text, places


def same(field: str, value: str) -> tuple[str, str]:
    """Two forms of one value are the same, as in the search for it."""
    identity, found = forms(field, value)
    return field, identity if found else value.lower()


def counted(notes: list[tuple[int, list[tuple[str, str]]]]) -> list[dict[str, str | None]]:
    """The record of every patient, by the words of docs/methods/imports.md."""
    held: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    heard: Counter[tuple[int, tuple[str, str]]] = Counter()  # notes with a value in any form
    owners: dict[tuple[str, str], set[int]] = defaultdict(set)
    for who, mentions in notes:
        heard.update((who, one) for one in {same(field, value) for field, value in mentions})
        for field, value in set(mentions):
            if field in DIRECT and (field != "full_name" or " " in value):
                held[who, field][value] += 1
                owners[same(field, value)].add(who)
    records = []
    for who in range(len(PATIENTS)):
        record = {}
        for field in DIRECT:
            own = [
                (-heard[who, same(field, value)], -n, value)
                for value, n in held[who, field].items()
                if len(owners[same(field, value)]) == 1
            ]
            record[field] = min(own)[-1] if own else None
        records.append(record)
    return records


@given(st.lists(NOTE, max_size=12), st.integers(1, 4))
def test_a_record_is_what_most_notes_of_one_patient_alone_say(notes, size):
    evidence = Evidence()
    for start in range(0, len(notes), size):
        batch = notes[start : start + size]
        texts, places = zip(*(written(mentions) for _, mentions in batch), strict=True)
        evidence.add([who for who, _ in batch], texts, places)
    records = evidence.records(PATIENTS)
    assert records["patient_id"].tolist() == list(PATIENTS)
    assert records[list(DIRECT)].to_dict("records") == counted(notes)


def test_the_forms_of_a_value_count_together():
    evidence = Evidence()
    names = ["Maria Keller", "Maria Keller", "Keller, Maria", "KELLER, Maria", "Bo Ek", "Bo Ek", "Bo Ek"]
    texts, places = zip(*(written([("full_name", name)]) for name in names), strict=True)
    evidence.add([0] * len(names), texts, places)
    (name,) = evidence.records(["A"])["full_name"]
    assert name == "Maria Keller", "four notes name her, more than the three that name the doctor"


@pytest.mark.parametrize(
    ("field", "usual", "other"),
    [
        ("phone", "(617) 555-0100", "617.555.0100"),
        ("full_name", "Maria Keller", "KELLER, Maria"),
        ("mrn", "MRN-4410937", "4410937"),
    ],
)
def test_what_several_patients_notes_hold_is_nobodys_in_whatever_form_it_is_written(field, usual, other):
    """The ward's telephone was the own number of the one patient in whose notes it was written another way."""
    evidence = Evidence()
    texts, places = zip(*(written([(field, value)]) for value in (usual, usual, other, usual)), strict=True)
    evidence.add(range(4), texts, places)
    assert evidence.records(["A", "B", "C", "D"])[field].isna().all()


def test_texts_and_spans_come_back_as_they_were_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "CHUNK", 3)
    raw, spans = RawNotes(tmp_path), SpanSpool(tmp_path)
    texts = ["a", " ", "", "b\n", "c" * 50, "dé", "e", "\t"]
    for row, text in enumerate(texts):
        raw.add(text, row=row, note_id=f"N{row}")
    frame = raw.frame()
    assert frame["note_id"].tolist() == [f"N{row}" for row in range(len(texts))]
    assert frame["blank"].tolist() == [not text.strip() for text in texts]
    kept = [text for text in texts if text.strip()]
    for _ in range(2):
        assert [text for batch in raw.texts() for text in batch] == kept
    raw.leave_out((frame.loc[~frame["blank"], "row"] == 4).to_numpy())
    assert [text for batch in raw.texts() for text in batch] == [text for text in kept if text[0] != "c"]
    batches = [[[(0, 1, "ssn")], [], [(2, 5, "phone"), (7, 9, "date")]], [[]], [[(1, 2, "mrn")]]]
    for batch in batches:
        spans.add(batch)
    assert list(spans.batches()) == batches == list(spans.batches())
    raw.remove()
    spans.remove()
    assert not list(tmp_path.iterdir())


WRITTEN = {  # of each field, writings of one value that are looked for, and end, in different ways
    "full_name": ("Ann Maria Lee", "Ann M. Lee", "Lee, Ann"),
    "phone": ("(415) 555-0142", "415-555-0142 x12", "+1 415 555 0142", "4155550142"),
    "mrn": ("MRN-441093", "441093"),
    "address": ("12 Elm St Apt 3, Springfield", "12 Elm St Apt 3"),
    "diagnosis": ("Diabetes (type 2)", "diabetes type 2"),
    "medication": ("Metoprolol 50 mg", "metoprolol 50mg"),
}
TEXT = st.lists(st.sampled_from([value for values in WRITTEN.values() for value in values]), max_size=4)
RECORD = st.fixed_dictionaries({field: st.sampled_from([*values, None]) for field, values in WRITTEN.items()})


@given(TEXT.map(". Also ".join), RECORD, st.lists(RECORD, max_size=3))
def test_what_is_marked_depends_on_no_other_patients_record(text, own, others):
    """Scrubbing may be combined with DP per patient only then (docs/methods/defences.md)."""
    rows = [*others, own]
    people = pd.DataFrame([{"patient_id": f"P{n}", "split": "member", **row} for n, row in enumerate(rows)])
    places = rules().find(text)
    who = people["patient_id"].iloc[-1]
    assert Marker(people).spans(who, text, places) == Marker(people.tail(1)).spans(who, text, places)


@pytest.mark.parametrize(
    ("found", "full"),
    [("Maria Keller", True), ("Dr. Maria Keller", True), ("Mr. Keller", False), ("Robert H.", False), ("Ann", False)],
)
def test_a_title_or_an_initial_makes_no_full_name(found, full):
    assert whole_name(found) is full


def test_a_record_that_notes_tell_depends_on_other_patients_notes():
    """Why it may not without a table: what a second patient's note says takes the first one's value away."""

    def marked(*texts: str) -> list[tuple[int, int, str]]:
        evidence, places = Evidence(), [shapes().find(text) for text in texts]
        evidence.add(range(len(texts)), texts, places)
        records = evidence.records([f"P{n}" for n in range(len(texts))]).assign(split="member")
        return Marker(records).spans("P0", texts[0], places[0])

    first = "Patient: Ann Lee. Later lee, ann went home."
    assert marked(first, "Nothing else.") != marked(first, "Patient: Ann Lee.")


@pytest.mark.parametrize("size", [7, 50])
def test_the_size_of_a_batch_decides_nothing(tmp_path, monkeypatch, size):
    notes = build(CORPUS_PRESETS["smoke"]).notes
    notes[notes["split"] != "canary"][["patient_id", "text"]].to_csv(tmp_path / "ward.csv", index=False)

    def imported(name: str) -> str:
        (tmp_path / name).mkdir()
        return import_notes(tmp_path / "ward.csv", Path(tmp_path / name), deduplicate="near").spec.imported

    whole = imported("whole")
    for module in (files, spool):
        monkeypatch.setattr(module, "CHUNK", size)
        monkeypatch.setattr(module, "CHUNK_CHARACTERS", 100 * size)
    assert imported("parts") == whole
