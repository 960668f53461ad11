"""Codes of cohorts that were brought have words: their own, the hospital's, or the official lists'."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from core.corpus.icd_codes import condition_words, plain_words, words_of
from core.corpus.synthetic.conditions import catalogue
from core.corpus.synthetic.hospital import build
from core.corpus.tables import DIAGNOSES
from core.spec import CORPUS_PRESETS


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ("Unspecified essential hypertension", "essential hypertension"),
        ("Pneumonia, organism unspecified", "pneumonia"),
        ("Congestive heart failure, unspecified", "congestive heart failure"),
        (
            "Diabetes mellitus without mention of complication, type II or unspecified type, not stated as "
            "uncontrolled",
            "diabetes mellitus",
        ),
        ("Long-term (current) use of anticoagulants", "long-term use of anticoagulants"),
        ("Cushing's syndrome", "Cushing's syndrome"),
        ("Unspecified", "unspecified"),
    ],
)
def test_official_descriptions_lose_what_says_nothing(description, words):
    assert plain_words(description) == words


def test_codes_of_both_revisions_have_words_and_unknown_ones_have_none():
    assert words_of(["401.9", "V58.61", "335.20", "999.999"]) == {
        "335.20": "amyotrophic lateral sclerosis",
        "401.9": "essential hypertension",
        "V58.61": "long-term use of anticoagulants",
    }
    hospital = next(one for one in catalogue().conditions if one.code == "I10")
    found = words_of(["I10", "J18.9", "X99", "Q00.Q"])
    assert found["I10"] == hospital.wording and found["X99"] == "assault by sharp object" and "Q00.Q" not in found


def test_words_that_came_with_the_codes_come_first_and_two_codes_never_share_them():
    described = {"401.9": "High blood pressure", "250.00": "Diabetes, unspecified", "250.01": "Diabetes, type I"}
    assert words_of(["401.9", "250.00", "486"], described) == {
        "250.00": "diabetes",
        "401.9": "high blood pressure",
        "486": "pneumonia",
    }
    described["250.01"] = "Diabetes"
    assert words_of(["250.00", "250.01"], described) == {"250.00": "Diabetes, unspecified", "250.01": "Diabetes"}


def test_a_synthetic_cohort_has_its_catalogue_and_a_brought_one_what_its_patients_hold():
    hospital = build(CORPUS_PRESETS["smoke"])
    assert condition_words(hospital) == {one.code: one.wording for one in catalogue().conditions}
    patients = hospital.patients.assign(icd_codes=[["401.9"], *[["486", "x"]] * (len(hospital.patients) - 1)])
    diagnoses = pd.DataFrame([("P", "A", "486", "Lung fever"), ("P", "A", "401.9", None)], columns=DIAGNOSES.names)
    brought = replace(
        hospital, patients=patients, diagnoses=diagnoses, spec=hospital.spec.model_copy(update={"imported": "0" * 16})
    )
    assert condition_words(brought) == {"401.9": "essential hypertension", "486": "lung fever"}
