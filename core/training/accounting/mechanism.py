"""What was done to the data, as a frozen value from which ε can be computed again at any time."""

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
    """What was done to the data, from which ε can be derived again at any time. Stored as `privacy.json`.

    With a `vocabulary` the promise is that of training and the word list together: `delta` and `epsilon` are the total.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    noise_multiplier: float = Field(gt=0, description="σ: standard deviation of the noise on the sum, over C")
    sample_rate: float = Field(gt=0, le=1, description="q: each unit's chance to be in a step")
    steps: int = Field(ge=0, description="steps that were taken")
    delta: float = Field(gt=0, lt=1, description="of all that is promised")
    max_grad_norm: float = Field(gt=0, description="C: the clipping norm")
    accountant: Accountant = "prv"
    neighbouring: Literal["add/remove one unit", "replace one unit"] = Field(
        ADD_REMOVE, description="how what was trained on differs between data sets that differ in one unit"
    )
    vocabulary: WordNoise | None = Field(None, description="noise of the model's own words; none: the public word list")
    noise_source: NoiseSource = Field("public seed", description="as drawn; files without it are of public seeds")

    @model_validator(mode="after")
    def _leaves_training_some(self) -> Self:
        if self.vocabulary is not None and self.vocabulary.delta >= self.delta:
            raise ValueError(
                f"the vocabulary's δ ({self.vocabulary.delta:g}) must be below that of the whole run ({self.delta:g})"
            )
        return self

    def with_vocabulary(self, noise: WordNoise) -> Self:
        """The same training on words of the same notes: its δ grows by the vocabulary's."""
        return self.model_copy(update={"vocabulary": noise, "delta": self.delta + noise.delta})

    @property
    def replaces(self) -> bool:
        """True where taking one unit away lets another in."""
        return self.neighbouring == REPLACE

    def replacing(self) -> Self:
        """The same training where one unit that is taken away lets another in: both changes are counted."""
        return self.model_copy(update={"neighbouring": REPLACE})

    def training_alone(self) -> Self:
        """The mechanism without its vocabulary, at the δ that training was planned with."""
        if self.vocabulary is None:
            return self
        return self.model_copy(update={"vocabulary": None, "delta": self.delta - self.vocabulary.delta})

    @property
    def counted_by(self) -> Accountant:
        """The accountant that the promise is told by: the one that chose σ, but PRV for GDP, which under-reports."""
        return "prv" if self.accountant == "gdp" else self.accountant

    def epsilon(self) -> float:
        """ε of the whole run."""
        return self.epsilon_with_method()[0]

    def epsilon_with_method(self) -> tuple[float, Accountant]:
        """ε that is promised and the accountant that gave it (RDP where `counted_by` has no finite answer).

        With a vocabulary both are composed by PRV (`core.training.accounting.composition`), whatever the accountant.
        So is what replaces a unit: to take one away and to put one in are two changes of one unit.
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
        """ε for a patient with `notes` notes at `delta` (this mechanism's own where none is given).

        The exact composition for a promise per note (`core.training.accounting.group_privacy`), ∞ where nothing is
        promised; a promise per patient holds whatever the number of notes. One note has `epsilon()`.
        """
        whole = patient_epsilon([self], 1 if self.unit == "patient" else notes, self.delta if delta is None else delta)
        return max(whole, self.epsilon()) if delta is None else whole

    def to_json(self) -> str:
        """The text of `privacy.json`; without a vocabulary it says nothing of one."""
        return self.model_dump_json(indent=2, exclude_none=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read `to_json`. Raises pydantic.ValidationError, a ValueError, for anything else."""
        return cls.model_validate_json(text)
