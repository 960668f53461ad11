"""What pydantic refuses is said in words, and nothing of its own wording reaches people."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic_core import ErrorDetails

from core.common.refusals import first_refusal, out_of_range, reason


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    epochs: int = Field(ge=1, le=1_000)
    rate: float = Field(gt=0, lt=0.5, allow_inf_nan=False)
    kind: Literal["gpt2", "bert"] = "gpt2"
    name: str = Field("", max_length=2)
    words: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), max_length=1)
    private: bool = False

    @field_validator("name")
    @classmethod
    def _no_digit(cls, name: str) -> str:
        if name.isdigit():
            raise ValueError("the name must not be a number")
        return name


class Outer(BaseModel):
    training: Inner


def _refused(**given: object) -> ErrorDetails:
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"epochs": 1, "rate": 0.1, **given})
    (only,) = caught.value.errors()
    return only


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("epochs", 0, "1 at least"),
        ("epochs", 5_000, "1,000 at most"),
        ("epochs", 1.5, "must be a whole number"),
        ("epochs", "many", "must be a whole number"),
        ("epochs", None, "must be a whole number"),
        ("rate", 0, "must be above 0"),
        ("rate", 2, "must be below 0.5"),
        ("rate", "fast", "must be a number"),
        ("rate", None, "must be a number"),
        ("kind", "t5", "must be 'gpt2' or 'bert'"),
        ("name", "abc", "2 characters at most"),
        ("name", 7, "must be text"),
        ("name", "7", "the name must not be a number"),
        ("words", 3, "must be a list"),
        ("words", ["a", "b"], "too many entries: 1 at most"),
        ("words", [""], "too short"),
        ("private", "perhaps", "must be true or false"),
        ("private", [], "must be true or false"),
        ("colour", "red", "is unknown"),
    ],
)
def test_each_refusal_is_in_words(name: str, given: object, said: str) -> None:
    refused = _refused(**{name: given})
    assert reason(refused) == said
    assert refused["loc"][0] == name


@pytest.mark.parametrize("given", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused_in_words(given: float) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[float, Field(allow_inf_nan=False)]).validate_python(given)
    assert first_refusal(caught.value) == "must be a finite number"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"training": {"epochs": 0, "rate": 0.1}}', "training.epochs: 1 at least"),
        ('{"training": {"rate": 0.1}}', "training.epochs: is missing"),
        ('{"training": 3}', "training: must be an object with names and values"),
        ("3", "must be an object with names and values"),
        ("{", "is not valid JSON (EOF while parsing an object at line 1 column 1)"),
    ],
)
def test_the_first_refusal_has_its_place(text: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(text)
    assert first_refusal(caught.value) == said


@pytest.mark.parametrize(
    ("value", "least", "most", "told"),
    [
        (0, 1, 200_000, "“Steps” takes a number from 1 to 200,000, not 0"),
        (1e-13, 1e-12, 0.5, "“Steps” takes a number from 1e-12 to 0.5, not 1e-13"),
        (1_000_001.5, 0.01, 1e6, "“Steps” takes a number from 0.01 to 1,000,000, not 1,000,001.5"),
        (float("nan"), 0.0, 1.0, "“Steps” takes a number from 0 to 1, not nan"),
        (1, 1, 200_000, ""),
        (200_000, 1, 200_000, ""),
    ],
)
def test_a_number_outside_its_range_is_said_with_the_range(value, least, most, told) -> None:
    assert out_of_range("Steps", value, least, most) == told
