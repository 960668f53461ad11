"""The span-tracking writer: what it says stands somewhere stands there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.corpus.synthetic.feistel import Permutation
from core.corpus.synthetic.writer import Paragraph, SpanWriter, Value, compile_phrase, join, marked_value

WORDS = st.text(alphabet="abc é|.,:-", min_size=1, max_size=12)
VALUES = st.builds(
    Value,
    WORDS,
    tail=WORDS,
    phi=st.sampled_from([None, "full_name"]),
    entity=st.sampled_from([None, "test"]),
    marks=st.just(()),
)


@settings(max_examples=50)
@given(st.lists(st.one_of(WORDS, VALUES), max_size=12))
def test_every_span_covers_the_value_it_was_written_for(parts):
    writer = SpanWriter()
    writer.write(tuple(parts), {})
    paragraph = writer.paragraph()
    values = [part for part in parts if isinstance(part, Value)]
    assert paragraph.text == "".join(p.text + p.tail if isinstance(p, Value) else p for p in parts)
    assert [paragraph.text[s:e] for s, e, _ in paragraph.phi] == [v.text for v in values if v.phi]
    assert [paragraph.text[s:e] for s, e, _ in paragraph.entities] == [v.text for v in values if v.entity]


def test_slots_marks_and_capitals():
    phrase = compile_phrase("{Dx} seen. Repeat {plan}, [test:chest film] too.")
    plan = marked_value("check [test:potassium] and stop the [treatment:diuretic]")
    writer = SpanWriter()
    writer.write(phrase, {"dx": Value("gout", phi="diagnosis", entity="problem"), "plan": plan})
    text, phi, entities = writer.paragraph().text, writer.phi, writer.entities
    assert text == "Gout seen. Repeat check potassium and stop the diuretic, chest film too."
    assert [(text[s:e], name) for s, e, name in phi] == [("Gout", "diagnosis")]
    assert [(text[s:e], name) for s, e, name in entities] == [
        ("Gout", "problem"),
        ("potassium", "test"),
        ("diuretic", "treatment"),
        ("chest film", "test"),
    ]


def test_a_slot_without_a_value_is_an_error():
    with pytest.raises(KeyError, match="phone"):
        SpanWriter().write(compile_phrase("Call {phone}."), {})


def test_join_moves_spans():
    joined = join([Paragraph("one", [(0, 3, "a")], []), Paragraph("two", [(0, 3, "b")], [(1, 2, "test")])])
    assert joined.text == "one\ntwo"
    assert [(joined.text[s:e], n) for s, e, n in joined.phi] == [("one", "a"), ("two", "b")]
    assert joined.text[joined.entities[0][0] : joined.entities[0][1]] == "w"


@given(st.integers(1, 700), st.text(max_size=4))
def test_permutation_is_a_bijection(size, key):
    permutation = Permutation(size, key)
    assert sorted(permutation(index) for index in range(size)) == list(range(size))


def test_permutation_mixes_and_refuses_what_it_cannot_tell_apart():
    permutation = Permutation(100_000, "k")
    values = [permutation(index) for index in range(1_000)]
    assert len({b - a for a, b in zip(values, values[1:], strict=False)}) > 990  # no constant step
    assert values != [Permutation(100_000, "other")(index) for index in range(1_000)]
    with pytest.raises(ValueError, match="100000 is outside the 100,000 values"):
        permutation(100_000)
