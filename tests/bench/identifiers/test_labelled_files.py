"""Labelled files of three kinds, read; and sentences about what is wrong with a file."""

from __future__ import annotations

import json

import pytest

from bench.identifiers._labelled_files import NEUTRAL, BadLabels, read_labelled
from core.evaluation.detection.phi_detection import judged


def test_json_lines(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"text": "Ada Wren", "spans": [[0, 8, "NAME"]]}\n\n{"text": "none", "spans": []}\n')
    assert read_labelled(path) == {"mine": [("Ada Wren", [(0, 8, "NAME")]), ("none", [])]}


def test_json_lines_with_a_mark_of_their_order_and_with_line_separators_inside_a_text(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"text": "Ada\u2028Wren", "spans": [[0, 3, "NAME"]]}\r\n', encoding="utf-8-sig", newline="")
    assert read_labelled(path) == {"mine": [("Ada\u2028Wren", [(0, 3, "NAME")])]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "x.jsonl is empty"),
        ("{}", "line 1: expected a JSON object with “text” and “spans”"),
        ('{"text": "a", "spans": []}\nnonsense', "line 2: expected"),
        ('{"text": 1, "spans": []}', "“text” must be a text"),
        ('{"text": "abc", "spans": [[0, 4, "NAME"]]}', "0 ≤ start < end ≤ 3"),
        ('{"text": "abc", "spans": [[2, 2, "NAME"]]}', "a span must be"),
        ('{"text": "abc", "spans": [[true, 2, "NAME"]]}', "a span must be"),
        ("[{}]", "sample 1: expected full_text"),
        ("[", "is not JSON"),
        ("===QUERY===\nx\n===PHI_TAGS===\n{}", "query 1: a tag must have"),
        ("===QUERY===\nx\n===PHI_TAGS===\n" + "[" * 100_000, "query 1: a tag must have"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_a_sentence(tmp_path, content, complaint):
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises(BadLabels, match=complaint.replace("[", r"\[")):
        read_labelled(path)


def test_queries_are_labelled_at_whole_words_and_split_by_their_hash(tmp_path):
    queries = [f"Case {n}: Ann saw Annabel and Ann" for n in range(40)]
    tags = '{"identifier_type": "NAME", "value": "Ann"}\n' * 2 + '{"identifier_type": "NAME", "value": "Zoe"}'
    path = tmp_path / "asq.txt"
    path.write_text("".join(f"===QUERY===\n{query}\n===PHI_TAGS===\n{tags}\n\n" for query in queries))
    parts = read_labelled(path)
    assert set(parts) == {"asq, development", "asq, unseen"}
    every = [one for part in parts.values() for one in part]
    assert sorted(text for text, _ in every) == sorted(queries), "no query is in both parts, and none is lost"
    text, labels = every[0]
    assert [text[start:end] for start, end, _ in labels] == ["Ann", "Ann"]
    assert text[labels[1][0] :] == "Ann", "not the beginning of Annabel; and Zoe is not in the query"


def test_labels_that_identify_nobody_are_neutral(tmp_path):
    text = "Mr. Wren, 44, of Spain, in 2010 and on 3 May 2010"
    spans = [
        ("TITLE", 0, 3),
        ("PERSON", 4, 8),
        ("AGE", 10, 12),
        ("GPE", 17, 22),
        ("DATE_TIME", 27, 31),
        ("DATE_TIME", 39, 49),
    ]
    sample = {
        "full_text": text,
        "template_id": 3,
        "spans": [{"entity_type": kind, "start_position": start, "end_position": end} for kind, start, end in spans],
    }
    path = tmp_path / "general.json"
    path.write_text(json.dumps([sample]))
    parts = read_labelled(path)
    (every,) = [part for name, part in parts.items() if "all labels" in name]
    (strict,) = [part for name, part in parts.items() if "identifiers" in name]
    assert [kind for *_, kind in every[0][1]] == [kind for kind, *_ in spans]
    assert [kind for *_, kind in strict[0][1]] == [NEUTRAL, "PERSON", NEUTRAL, NEUTRAL, NEUTRAL, "DATE_TIME"]


@pytest.mark.parametrize(
    ("age", "identifies"),
    [("89", False), ("90", True), ("104-year-old", True), ("92 years", True), ("95 days", False), ("ninety-one", True)]
    + [("forty", False), ("one hundred", True)],
)
def test_only_an_age_over_89_is_an_identifier(tmp_path, age, identifies):
    """45 CFR 164.514(b)(2)(i)(C) lists all ages over 89, and no others."""
    span = {"entity_type": "AGE", "start_position": 0, "end_position": len(age)}
    path = tmp_path / "general.json"
    path.write_text(json.dumps([{"full_text": age, "template_id": 1, "spans": [span]}]))
    (strict,) = [part for name, part in read_labelled(path).items() if "identifiers" in name]
    assert strict[0][1] == [(0, len(age), "AGE" if identifies else NEUTRAL)]


def test_a_neutral_label_is_neither_missed_nor_a_false_find():
    text = "Mr. Wren of Spain"
    labels = [(0, 3, NEUTRAL), (4, 8, "NAME"), (12, 17, NEUTRAL)]
    table = judged([(text, labels, [(0, 8, "full_name"), (12, 17, "place"), (9, 11, "place")])]).set_index("field")
    assert table.loc["all", ["labelled", "recalled", "found", "right"]].tolist() == [1, 1, 2, 1]
