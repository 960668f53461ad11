"""Codes are real, care fits them, and their frequencies have a long tail."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from core.corpus.synthetic import conditions
from core.corpus.synthetic.conditions import Condition, Lab, catalogue
from core.corpus.synthetic.wording import care_words


def _by_code() -> dict[str, Condition]:
    return {condition.code: condition for condition in catalogue().conditions}


def test_every_code_is_a_real_billable_one_and_held_once():
    import simple_icd_10_cm as icd  # reads all codes when it is imported: two seconds

    codes = [condition.code for condition in catalogue().conditions]
    assert len(codes) == len(set(codes)) > 1_500
    assert [code for code in codes if not (icd.is_valid_item(code) and icd.is_leaf(code))] == []
    wordings = Counter(condition.wording.lower() for condition in catalogue().conditions)
    assert wordings.most_common(1)[0][1] == 1


def test_the_stored_tail_is_what_the_code_set_gives(tmp_path):
    again = tmp_path / "rare_codes.csv"
    conditions.write_rare_codes(again)
    stored = conditions.FOLDER / "rare_codes.csv"
    assert stored.read_bytes() == again.read_bytes(), "make it again: `conditions.write_rare_codes`"


def test_every_code_has_enough_words_to_write_about_it():
    least = {"medications": 1, "tests": 1, "labs": 2, "symptoms": 2, "findings": 2, "plans": 2}
    short = [
        (condition.code, name)
        for condition in catalogue().conditions
        for name, number in least.items()
        if len(getattr(condition.care, name)) < number
    ]
    assert short == []
    assert [c.code for c in catalogue().conditions if not care_words(c).signs] == []


def test_no_line_fits_nothing():
    """A mistyped code prefix would silently drop its line."""
    unused = []
    by_group: dict[str, list[str]] = {}
    for condition in catalogue().conditions:
        by_group.setdefault(condition.group.name, []).append(condition.code)
    for name, codes in by_group.items():
        group = _by_code()[codes[0]].group
        for lines in group.lines.values():
            for prefixes, line in lines:
                unused += [(name, p, line) for p in prefixes if not any(code.startswith(p) for code in codes)]
    assert unused == []


@pytest.mark.parametrize(
    ("code", "fits", "does_not_fit"),
    [
        ("D57.1", "hydroxyurea 500 mg", "ferrous sulfate 325 mg"),
        ("E11.9", "metformin 500 mg", "levothyroxine 50 mcg"),
        ("E10.9", "insulin glargine 10 units", "metformin 500 mg"),
        ("I95.1", "midodrine 5 mg", "lisinopril 10 mg"),
        ("E05.00", "methimazole 10 mg", "levothyroxine 50 mcg"),
        ("J45.909", "montelukast 10 mg", "tiotropium 18 mcg"),
    ],
)
def test_drugs_fit_the_diagnosis(code, fits, does_not_fit):
    drugs = {drug for doses, _ in _by_code()[code].care.medications for drug in doses}
    assert fits in drugs
    assert does_not_fit not in drugs


def test_medication_and_laboratory_lines_are_read():
    assert conditions._medication("metformin 500|850 mg; twice daily") == (
        ("metformin 500 mg", "metformin 850 mg"),
        " twice daily",
    )
    assert conditions._lab("hemoglobin A1c 6.8-11.6 %") == Lab("hemoglobin A1c", 6.8, 11.6, 1, " %")
    with pytest.raises(ValueError, match="'potassium high'"):
        conditions._lab("potassium high")


def test_draw_respects_sex_and_age():
    rng = random.Random(5)
    for sex, age in (("M", 25), ("F", 80)):
        for _ in range(200):
            drawn = catalogue().draw(rng, 4, sex, age)
            assert len({condition.code for condition in drawn}) == 4
            for condition in drawn:
                assert condition.group.sex in (None, sex)
                assert condition.group.min_age <= age <= condition.group.max_age


def test_codes_have_a_long_tail():
    rng = random.Random(1)
    patients = 600
    held = Counter(c.code for _ in range(patients) for c in catalogue().draw(rng, 4, rng.choice("FM"), 60))
    common = [count for _, count in held.most_common(5)]
    assert min(common) > 0.05 * patients  # a few codes are common
    rare = sum(1 for count in held.values() if count < 5)
    assert rare > 0.7 * len(held)  # most are held by fewer than five patients
