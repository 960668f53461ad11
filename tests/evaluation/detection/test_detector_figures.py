"""The stored figures of the detectors: of today's detectors, and complete."""

from __future__ import annotations

import json

from core.evaluation.detection.detector_figures import CLINICAL, GENERAL, STORED, figures
from core.phi.detector.engine import RULES, SHAPES, WITH_TAGGER

MEASURED = list(json.loads(STORED.read_text(encoding="utf-8")))


def test_the_detectors_of_today_were_measured():
    assert MEASURED == [WITH_TAGGER, RULES, SHAPES], "measure again: python -m core bench detector --write"


def test_every_share_has_its_interval_and_the_whole_is_the_sum_of_its_parts():
    for detector in MEASURED:
        for corpus in (CLINICAL, GENERAL):
            for share in ("recall", "precision"):
                table = figures(detector, corpus, share)
                assert table["type"].iloc[0] == "all" and table["n"].iloc[0] == table["n"].iloc[1:].sum()
                hits = (table["n"] * table["value"]).round()
                assert hits.iloc[0] == hits.iloc[1:].sum()
                assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()


def test_what_was_not_measured_has_no_figures():
    assert figures("rules 0", CLINICAL, "recall").empty
