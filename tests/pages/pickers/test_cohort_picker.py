"""What the line under a cohort says that its settings will build, and the order of cohorts in a list."""

from __future__ import annotations

import pytest

from core.spec import CORPUS_PRESETS, OPENING
from pages.parts.pickers.cohort_picker import PRESETS, describe, presets_first


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "60 canary sentences; seed"),
        ({"canary_copies": 64}, "60 canary sentences of up to 64 copies; seed"),
        ({"canary_copies": 16, "random_canaries": 400}, "60 canary sentences of up to 16 copies and 400 canaries of"),
        ({"canaries": 0, "canary_copies": 64}, "0 canary sentences; seed"),
    ],
)
def test_the_most_copies_of_a_canary_sentence_are_named_where_they_are_not_the_usual_ones(changes, told):
    classroom = CORPUS_PRESETS["classroom"].model_copy(update={"canaries": 60})
    assert told in describe(classroom.model_copy(update=changes))


def test_the_line_tells_training_notes_from_all_notes():
    """The list calls a cohort “about 12,000 notes” by those of its members, 70 % of the patients beside others."""
    spec = CORPUS_PRESETS["classroom-12k"]
    assert round(spec.training_notes, -3) == 12_000
    assert f"notes (about {spec.training_notes:,} of them members', for training); " in describe(spec)


def test_cohorts_stand_in_one_order_however_they_come():
    others = [CORPUS_PRESETS["study"].model_copy(update={"patients": number}) for number in (900, 100)]
    presets = [CORPUS_PRESETS[name] for name in [OPENING, *PRESETS] if name in CORPUS_PRESETS]
    expected = [*dict.fromkeys(presets), *sorted(others, key=lambda spec: spec.patients)]
    assert list(dict.fromkeys(presets_first([*others, *presets[1:]]))) == expected
    assert list(dict.fromkeys(presets_first([*presets[:0:-1], *others[::-1]]))) == expected
