"""A released run that was the best of several runs: what its entry says, and for which runs that has a known cost.

The cost is that of Papernot & Steinke 2022 (`core.training.accounting.choosing`). What the theorem needs beyond the
run's own mechanism cannot be seen in a run. Whoever enters a choice vouches for it (`CHOICE_HOLDS`).
"""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.training.accounting.choosing import truncation
from core.training.accounting.chosen_composition import Chosen
from core.training.accounting.mechanism import Mechanism

MOST_LETTERS = 1_000  # of a reason or a score, which appear in every report of the cohort
CHOICE_HOLDS = (
    "The number of runs was drawn at random from this distribution beforehand and is kept secret. (The queue and the "
    "lists of runs show everyone how many runs there are on a synthetic cohort.)",
    "Each run drew its settings at random, with the same chances. None had another unit of privacy or a weaker "
    "guarantee than this run: no less noise, no larger sampling rate, no more steps.",
    "Apart from the trained model, the score used only public notes, or notes of people who consented.",
    "This run had the best score, and nothing else from these runs is released.",
)
FIXED_NUMBER = (
    "A fixed number of runs, or a fixed list of settings, is not covered: enter each run as a separate release, "
    "without a choice."
)


class Choice(BaseModel):
    """How a released run was chosen: as the best of a random number of trainings (Papernot & Steinke 2022)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trainings: float = Field(ge=1, description="E[K]: expected number of runs")
    shape: float = Field(0.0, gt=-1, description="η of the number of runs: 0 logarithmic, 1 geometric")
    score: str = Field(min_length=1, description="the score, and the data it was computed on")

    @model_validator(mode="after")
    def _has_cost(self) -> Self:
        truncation(self.trainings, self.shape)  # raises ValueError where it has no answer
        return self

    @classmethod
    def of(cls, trainings: float, shape: float, score: str) -> Self:
        """A choice from what a user typed. Raises ValueError with a sentence."""
        truncation(trainings, shape)
        score = in_one_line(score)
        if not score:
            raise ValueError("a choice needs the score and the data it was computed on, such as loss on public notes")
        if len(score) > MOST_LETTERS:
            raise ValueError(f"the score of a choice has at most {MOST_LETTERS:,} characters, not {len(score):,}")
        return cls(trainings=trainings, shape=shape, score=score)

    def best_of(self, mechanism: Mechanism) -> Chosen:
        """The promise of the chosen run, of which one training is `mechanism`."""
        return Chosen(mechanism, self.trainings, self.shape)

    def briefly(self) -> str:
        """`best of 10 expected runs`."""
        return f"best of {self.trainings:g} expected runs"

    def text(self) -> str:
        """`best of 10 expected runs (η = 0), chosen by loss on public notes`."""
        return f"{self.briefly()} (η = {self.shape:g}), chosen by {self.score}"


def refuse_choice(run_id: str, mechanism: Mechanism | None, most_notes: int | None) -> None:
    """Raise ValueError, with a sentence, for a run whose choice among several runs has no known cost."""
    if mechanism is None:
        raise ValueError(
            f"{run_id} was trained without privacy, so there is no ε that choosing could raise: enter it without a "
            "choice."
        )
    problem = why_not_chosen(mechanism, most_notes)
    if problem:
        raise ValueError(
            f"{run_id} cannot be entered as the best of several runs: {problem}. Enter every run of the sweep "
            "as a separate release instead: they compose."
        )


def why_not_chosen(mechanism: Mechanism, most_notes: int | None) -> str | None:
    """Why the cost of choosing such a run is not known, as a part of a sentence; None if it is.

    The theorem needs the Rényi divergences of one training, which are known for Poisson sampling where neighbours
    differ by one added or removed unit. A vocabulary from the notes is no part of them. `most_notes` of a run that
    protects notes is a cap of older versions, by which removing a note lets another in.
    """
    if mechanism.noise_source != "secret":
        return "its noise came from a public seed, so its ε is not a promise"
    if mechanism.vocabulary is not None:
        return "it has a vocabulary from the notes, and the cost of choosing is known for training alone"
    if mechanism.replaces or (mechanism.unit == "note" and most_notes is not None):
        return (
            "a cap on the notes of a patient lets another note in where one is removed, and the cost of choosing is "
            "known for adding or removing one unit"
        )
    return None


def in_one_line(text: str) -> str:
    """Text that can be read, without line breaks and control characters."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
