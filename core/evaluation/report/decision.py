"""What a board fills in: who gets the model, against whom it must hold, who bears the risk, and who signs.

Everything here is a reader's. It decides nothing in this program: it is printed, and it belongs to the report. Limits
on figures are compared with what was measured (`core.evaluation.report.what_follows`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.common.refusals import first_refusal
from core.evaluation.sweep.limits import check_risks

Access = Literal["", "weights", "api", "filtered api"]
ACCESS: dict[Access, str] = {
    "": "Not decided",
    "weights": "The weights",
    "api": "An API without an output filter",
    "filtered api": "An API with an output filter",
}
MOST_LETTERS = 600  # of one answer: all answers fit a printed page
MOST_APPROVERS = 6
SHORT = 60  # letters of an answer, or of one approver, on the first page
EMPTY = "not filled in"


def _checked(risks: dict[str, float]) -> dict[str, float]:
    check_risks(risks)
    return risks


def one_line(text: str) -> str:
    """The text without control characters (and those that turn the direction of writing), spaces collapsed."""
    return " ".join("".join(" " if unicodedata.category(mark)[0] in ("C", "Z") else mark for mark in text).split())


Risks = Annotated[dict[str, float], AfterValidator(_checked)]
Text = Annotated[str, AfterValidator(one_line), Field(max_length=MOST_LETTERS)]


class Approver(BaseModel):
    """A person who signs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text = ""
    role: Text = ""


class Decision(BaseModel):
    """The answers of a board; every one may be empty, which the report calls open."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipient: Text = Field("", description="who gets the model, and what for")
    access: Access = Field("", description="how they get it")
    knowledge: Text = Field("", description="what an attacker knows beforehand, and what they see")
    cost: Text = Field("", description="what an attacker spends: queries, hours, money, risk of being caught")
    accepted: Text = Field("", description="the limits that the board accepts, in words")
    limits: Risks = Field({}, description="the highest accepted value of figures that can be limited, by key")
    owner: Text = Field("", description="who bears the risk")
    review: date | None = Field(None, description="when the decision is looked at again")
    expires: date | None = Field(None, description="when it ends unless it is renewed")
    approvers: tuple[Approver, ...] = Field((), max_length=MOST_APPROVERS)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.review is not None and self.expires is not None and self.review > self.expires:
            raise ValueError(f"the review ({self.review}) must not be after the decision expires ({self.expires})")
        return self

    def missing(self) -> list[str]:
        """What is not filled in, in words."""
        asked = {
            "who receives the model": self.recipient,
            "how they get access": self.access,
            "what an attacker knows": self.knowledge,
            "how much an attacker may spend": self.cost,
            "the accepted limits": self.accepted or self.limits,
            "the risk owner": self.owner,
            "the date of review": self.review,
            "the date of expiry": self.expires,
            "who approves, by name": any(one.name for one in self.approvers),
        }
        return [name for name, given in asked.items() if not given]


def in_short(given: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(key, name, text) of the answers that belong on the first page.

    It has every approver, and room for SHORT letters of each and of every other answer. The whole answers are in the
    annex.

    Args:
        given: a decision as JSON.
    """
    people = [_shortened(one["name"] or one["role"]) for one in given["approvers"] if one["name"] or one["role"]]
    dates = " / ".join(given[name] or EMPTY for name in ("review", "expires"))
    return [
        ("recipient", "Recipient", _shortened(given["recipient"])),
        ("access", "Access", ACCESS[given["access"]] if given["access"] else EMPTY),
        ("owner", "Risk owner", _shortened(given["owner"])),
        ("review", "Review / expires", EMPTY if dates == f"{EMPTY} / {EMPTY}" else dates),
        ("approvers", "Approvers (they sign in the annex)", ", ".join(people) or EMPTY),
    ]


def _shortened(text: str) -> str:
    return (text if len(text) <= SHORT else f"{text[: SHORT - 1].rstrip()}…") or EMPTY


def read(path: Path) -> Decision:
    """A decision from a JSON file.

    Raises:
        ValueError: With a sentence, for a file that is missing, no JSON, or has other or invalid answers.
    """
    try:
        return Decision.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"The decision {path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        raise ValueError(
            f"The decision {path} cannot be used: {problem(error)}. Its keys are {', '.join(Decision.model_fields)}."
        ) from None


def problem(error: ValidationError) -> str:
    """What is wrong with the first answer that cannot be used, without a full stop."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"“{where[:60]}” is not among its questions"
    return first_refusal(error)
