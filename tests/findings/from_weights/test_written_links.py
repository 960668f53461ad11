"""Names with conditions in many texts: how many texts of a patient hold a condition, and how many one of theirs.

The texts of the tests of the table are given, so that it is known which names and conditions are in them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.attacks.registry import NotPossible
from core.corpus.icd_codes import condition_words
from core.findings.from_weights import written_links as module
from core.findings.from_weights import written_names
from core.findings.from_weights.written_links import COLUMNS, links_table, written_links
from core.findings.from_weights.written_names import names_table
from tests.findings.from_weights.test_written_names import INVENTED, by_patient, generations, named, target


def test_texts_with_a_condition_are_counted_beside_what_chance_would_give() -> None:
    asked = target()
    words = dict(condition_words(asked.corpus))
    members, heldout = (named(asked, split) for split in ("member", "heldout"))
    one, other = members.iloc[5], heldout.iloc[5]
    own = next(code for code in one.icd_codes if code in words)
    foreign = next(code for code in words if code not in one.icd_codes)
    texts = generations(
        [
            f" {one.full_name}. Treated for {words[own]}.",
            f" {one.full_name}. Treated for {words[foreign]}.",
            f" {one.full_name}. Patient: {one.full_name}, {words[own]}.",
            f" {one.full_name}. Seen today.",
            f" {other.full_name}. Treated for {words[own]}.",
            f" {INVENTED}. Treated for {words[own]}.",
            f" seen today for {words[own]}.",
        ]
    )
    table = links_table(asked, texts)
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == COLUMNS
    pd.testing.assert_frame_equal(table[list(written_names.COLUMNS)], names_table(asked, texts))
    found = by_patient(table)
    row = found.loc[one.patient_id]
    assert (row.texts, row.paired, row.right) == (4, 3, 2)

    def chance(split: pd.DataFrame, patient: str, code: str) -> float:
        others = split[split["patient_id"] != patient]
        return float(np.mean([code in codes for codes in others["icd_codes"]]))

    expected = 2 * chance(members, one.patient_id, own) + chance(members, one.patient_id, foreign)
    assert row.chance == pytest.approx(expected)
    control = found.loc[other.patient_id]
    assert (control.paired, control.right) == (1, int(own in other.icd_codes))
    assert control.chance == pytest.approx(chance(heldout, other.patient_id, own))
    others = table[~table["patient_id"].isin([one.patient_id, other.patient_id])]
    assert not others[["paired", "right", "chance"]].to_numpy().any()
    assert table[table["patient_id"].isna()]["texts"].tolist() == [1]


def test_texts_without_a_pair_give_every_name_nothing() -> None:
    asked = target()
    person = named(asked, "member").iloc[5]
    table = links_table(asked, generations([f" {person.full_name}. Seen today.", " seen today."]))
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == COLUMNS
    assert by_patient(table)["texts"].sum() == 1 and not table[["paired", "right", "chance"]].to_numpy().any()


def test_texts_are_as_long_as_an_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, seen = target(), []
    monkeypatch.setattr(written_names, "TEXTS", 16)
    monkeypatch.setattr(module, "links_table", lambda target, texts: seen.append(texts))
    written_links(asked)
    (texts,) = seen
    longest = max(len(asked.lm.tokenizer.encode(text)) for text in texts["text"])
    assert len(texts) == 16 and longest > written_names.NEW_TOKENS


def test_a_causal_model_is_refused() -> None:
    with pytest.raises(NotPossible):
        written_links(target("gpt2"))
