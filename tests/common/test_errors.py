"""Errors with a sentence for people are distinguished from faults."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from core.common.errors import is_sentence
from core.runs.run import RunBroken, check_run_id
from core.runs.uploads.records import hours_kept


def raised(call: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as caught:  # each has another type
        call()
    return caught.value


def test_exceptions_of_the_program_carry_sentences():
    assert is_sentence(raised(lambda: check_run_id("x")))
    assert is_sentence(RunBroken("Run x has no file spec.json."))
    assert not is_sentence(RunBroken()), "without a text it says nothing"


def test_a_plain_error_is_a_sentence_if_the_program_raised_it(monkeypatch):
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "soon")
    error = raised(hours_kept)
    assert type(error) is ValueError and is_sentence(error)
    assert not is_sentence(ValueError(str(error))), "raised nowhere"
    for fault in (
        lambda: pd.DataFrame({"a": [1], "b": [1, 2]}),
        lambda: pd.DataFrame()["split"],
        lambda: [][0],
        lambda: None + 1,
    ):
        assert not is_sentence(raised(fault))
