"""The privacy-relevant record of a run, as a frozen value from which ε can be recomputed at any time."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.common.randomness import NoiseSource
from core.models.word_noise import WordNoise
from core.spec import Accountant, Unit
from core.training.accounting.composition import composed_epsilon
from core.training.accounting.gaussian import epsilon_with_method
from core.training.accounting.group_privacy import patient_epsilon

ADD_REMOVE: Literal["add/remove one unit"] = "add/remove one unit"
REPLACE: Literal["replace one unit"] = "replace one unit"


class Mechanism(BaseModel):
    """What was done to the data, from which ε can be recomputed at any time. Stored as `privacy.json`.

    With a `vocabulary`, the guarantee covers training and vocabulary together: `delta` and `epsilon` are the total.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    noise_multiplier: float = Field(gt=0, description="σ: standard deviation of the noise on the sum, over C")
    sample_rate: float = Field(gt=0, le=1, description="q: probability that a unit is in a step")
    steps: int = Field(ge=0, description="completed steps")
    delta: float = Field(gt=0, lt=1, description="of the whole guarantee")
    max_grad_norm: float = Field(gt=0, description="C: the clipping norm")
    accountant: Accountant = "prv"
    neighbouring: Literal["add/remove one unit", "replace one unit"] = Field(
        ADD_REMOVE, description="how the training sets of neighbouring data sets differ"
    )
    vocabulary: WordNoise | None = Field(None, description="noise of the model's own vocabulary; none: the public one")
    noise_source: NoiseSource = Field("public seed", description="as drawn; files without it have public seeds")
    training: str | None = Field(
        None,
        description="tells trainings with secret noise apart, which have one run id; none: older, or a public seed",
    )

    @model_validator(mode="after")
    def _leaves_training_some(self) -> Self:
        if self.vocabulary is not None and self.vocabulary.delta >= self.delta:
            raise ValueError(
                f"the vocabulary's δ ({self.vocabulary.delta:g}) must be below that of the whole run ({self.delta:g})"
            )
        return self

    def with_vocabulary(self, noise: WordNoise) -> Self:
        """The same training with a vocabulary from the same notes: its δ grows by the vocabulary's.

        Raises:
            ValueError: the two δ are 1 or more together, or training's disappears in the sum.
        """
        total = self.delta + noise.delta
        if total >= 1:
            raise ValueError(f"δ of training and vocabulary must be below 1 together, and is {total:g}")
        return type(self).model_validate(dict(self) | {"vocabulary": noise, "delta": total})

    @property
    def replaces(self) -> bool:
        """True if removing one unit lets another in."""
        return self.neighbouring == REPLACE

    def replacing(self) -> Self:
        """The same training if removing one unit lets another in: both changes are counted."""
        return self.model_copy(update={"neighbouring": REPLACE})

    def training_alone(self) -> Self:
        """The mechanism without its vocabulary, at the δ that training was planned with."""
        if self.vocabulary is None:
            return self
        return self.model_copy(update={"vocabulary": None, "delta": self.delta - self.vocabulary.delta})

    @property
    def counted_by(self) -> Accountant:
        """The accountant that computes the guarantee: the one that chose σ, but PRV for GDP, which under-reports."""
        return "prv" if self.accountant == "gdp" else self.accountant

    def epsilon(self) -> float:
        """ε of the whole run."""
        return self.epsilon_with_method()[0]

    def epsilon_with_method(self) -> tuple[float, Accountant]:
        """The guaranteed ε and the accountant that computed it (RDP where `counted_by` has no finite answer).

        With a vocabulary, both are composed by PRV (`core.training.accounting.composition`), whatever the accountant.
        The same holds if a unit is replaced: removing one and adding one are two changes of one unit.
        """
        if self.vocabulary is not None or self.replaces:
            return composed_epsilon([self], self.delta)
        return epsilon_with_method(
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.sample_rate,
            steps=self.steps,
            delta=self.delta,
            accountant=self.counted_by,
        )

    def patient_epsilon(self, notes: int, delta: float | None = None) -> float:
        """ε for a patient with `notes` notes at `delta` (by default the mechanism's own).

        For a guarantee per note this is the exact composition (`core.training.accounting.group_privacy`), ∞ where there
        is no guarantee; for one note it is `epsilon()`. A guarantee per patient holds for any number of notes.
        """
        whole = patient_epsilon([self], 1 if self.unit == "patient" else notes, self.delta if delta is None else delta)
        return max(whole, self.epsilon()) if delta is None else whole

    def to_json(self) -> str:
        """The text of `privacy.json`; without a vocabulary it has no such entry."""
        return self.model_dump_json(indent=2, exclude_none=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text written by `to_json`. Raises pydantic.ValidationError, a ValueError, for anything else."""
        return cls.model_validate_json(text)
