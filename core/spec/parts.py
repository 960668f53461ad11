"""The parts of a run's settings, each a frozen and validated object: cohort, model, privacy, training, audit.

Import them from `core.spec`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

ModelKind = Literal["gpt2", "distilbert", "bert"]
ModelSize = Literal["micro", "tiny", "small"]
Accountant = Literal["prv", "rdp", "gdp"]
Unit = Literal["note", "patient"]
Variant = Literal["regular", "name-insertion", "template-only"]

# The shipped base models, and what they have read: `clinical` public reports too, `assets` abstracts and leaflets
# alone. The second name is from the time when these were the only ones (schemas 1 and 2): run ids depend on it.
SHIPPED_BASES = {"clinical": "clinical", "assets": "abstracts"}
CLINICAL, ABSTRACTS = SHIPPED_BASES

USUAL_COPIES = 8  # the most copies of a canary, unless a hospital has its own setting
CANARY_PATIENT_NOTES = 4  # of a canary patient, on average
LEAST_NORM = 1e-6  # C: float32 noise of σ·C is 0 below about 1e-23
MEMBER_SHARE = 0.7  # of a cohort's patients; 70/30 by patient (Jagannatha 2021, A.1)

# The content id of an imported cohort of public text. Anyone may see runs on it, and their figures may be shipped.
PUBLIC_REPORTS = "e7317173939f77d3"  # `core.findings.experiments.PUBLIC_NOTES`

# Increasing this gives every stored run a new id: do it when a code change alters what a spec computes.
FORMAT = 1


def digest_of(settings: Mapping[str, Any]) -> str:
    """First 12 hex digits of the SHA-256 of the canonical JSON of these settings."""
    canonical = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


class Spec(BaseModel):
    """A frozen settings object; `digest` is stable across processes and machines."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    SILENT: ClassVar[tuple[str, ...]] = ()  # settings left out of JSON if None, because they were added later

    @model_serializer(mode="wrap")
    def _as_ever(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out settings among `SILENT` that are None, so that digests and run ids stay as they were."""
        return {name: value for name, value in handler(self).items() if value is not None or name not in self.SILENT}

    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of the canonical JSON of this spec."""
        return digest_of(self.model_dump(mode="json"))


def _positive(value: float | None, rule: str) -> float | None:
    """The value if it is None or a number above 0. Raises ValueError with the rule otherwise."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"{rule}, not {value}")
    return value


def _clipping_norm(value: float) -> float:
    if value < LEAST_NORM:
        raise ValueError(
            f"the clipping norm C must be at least {LEAST_NORM:g}, not {value:g}: smaller gradients are lost beside "
            "the 1e-08 that Adam divides by, and noise in proportion to them can be rounded to 0"
        )
    return value


Norm = Annotated[float, AfterValidator(_clipping_norm)]


class CorpusSpec(Spec):
    """A synthetic hospital, or imported notes. The same spec gives the same bytes.

    With `imported`, the notes are looked up by their content id and never generated. The other settings then describe
    the cohort (patients, population, canaries) and how it was split (seed).
    """

    patients: int = Field(430, ge=4, le=200_000, description="patients with notes; 70 % members, 30 % held out")
    population: int = Field(
        150, ge=0, le=200_000, description="further, disjoint patients for thresholds and reference models"
    )
    notes_per_patient: float = Field(5.0, ge=1, le=200, description="mean number of notes per patient")
    naming_rate: float = Field(
        0.7, ge=0, le=1, description="share of notes that name the patient (about 0.10 in MIMIC-III)"
    )
    generic_rate: float = Field(0.05, ge=0, le=1, description="share of notes without any patient detail")
    copy_forward: float = Field(
        0.1, ge=0, le=1, description="probability that a note repeats a paragraph of the one before it"
    )
    note_length: Literal["full", "brief"] = Field("full", description="brief = two clinical sentences per note")
    variant: Variant = "regular"
    canaries: int = Field(48, ge=0, le=5_000, description="canary secrets, each inserted by a fair coin")
    canary_patients: int = Field(8, ge=0, le=1_000, description="whole canary patients, each inserted by a fair coin")
    seed: int = Field(0, ge=0)
    imported: str | None = Field(
        None, pattern=r"^[0-9a-f]{16}$", description="content id of imported notes; none: a synthetic hospital"
    )
    deduplicated: Literal["exact", "near"] | None = Field(
        None, description="which copies were left out of imported notes; ε does not cover those"
    )
    identifiers: Literal["table"] | None = Field(
        None, description="source of the identifiers of imported notes: a table; none: found by rules"
    )

    detector: str | None = Field(
        None, description="which detector searched imported notes for identifiers; none: the shapes, version 1"
    )
    split: Literal["given"] | None = Field(
        None, description="given: the file of imported notes said who is a member; none: chance decided"
    )
    random_canaries: int | None = Field(
        None, ge=1, le=5_000, description="further canaries of random words, each inserted once by a fair coin; or none"
    )
    canary_copies: Literal[16, 64] | None = Field(
        None, description="canaries are inserted 1, 2, 4, … times, up to this many; none: up to 8"
    )

    SILENT: ClassVar[tuple[str, ...]] = (
        "imported",
        "deduplicated",
        "identifiers",
        "detector",
        "split",
        "random_canaries",
        "canary_copies",
    )

    @property
    def insertions(self) -> tuple[int, ...]:
        """How often canaries are inserted, in ascending order: the powers of two up to the most copies."""
        most = USUAL_COPIES if self.canary_copies is None else self.canary_copies
        return tuple(2**power for power in range(most.bit_length()))

    @property
    def training_notes(self) -> int:
        """About how many notes a model is trained on: those of the members, 70 % of the patients."""
        return round(MEMBER_SHARE * self.patients * self.notes_per_patient)

    def canary_notes(self, most_of_one: int | None = None) -> float:
        """Expected number of notes of canaries, at most `most_of_one` of each; a fair coin inserts each canary."""
        most, counts = most_of_one or math.inf, self.insertions
        rounds, rest = divmod(self.canaries, len(counts))
        copies = [min(count, most) for count in counts]
        patients = min(CANARY_PATIENT_NOTES, most) * self.canary_patients
        return (rounds * sum(copies) + sum(copies[:rest]) + patients + (self.random_canaries or 0)) / 2

    @property
    def is_public_text(self) -> bool:
        """True for imported notes that are public text, with no secret in them."""
        return self.imported == PUBLIC_REPORTS

    @property
    def identifiers_are_given(self) -> bool:
        """True if no other patient's notes affect what identifies a patient: synthetic records, or a table."""
        return self.imported is None or self.identifiers == "table"


class ModelSpec(Spec):
    """The public model that training starts from."""

    kind: ModelKind = "gpt2"
    size: ModelSize = "tiny"
    base: str = Field(CLINICAL, description="'clinical' or 'assets' (shipped), a folder, or a hub name such as gpt2")

    @property
    def shipped(self) -> bool:
        """True for a base model of this project, False for one in a folder or from a hub."""
        return self.base in SHIPPED_BASES


class RiskLimit(Spec):
    """The most that an attacker who sees every noisy step may achieve; a run's σ is chosen to hold it.

    The attacker decides whether one unit was in the data. The limit is either on the share `caught` of the members when
    a share `accused` of the others is accused by mistake, or on the share `right` of guesses at even odds.
    """

    caught: float | None = Field(None, lt=1, description="true-positive rate at most; or `right`")
    accused: float | None = Field(None, ge=1e-3, lt=1, description="false-positive rate; with `caught`")
    right: float | None = Field(None, gt=0.5, lt=1, description="share of right guesses at most, at even odds")

    SILENT: ClassVar[tuple[str, ...]] = ("caught", "accused", "right")

    @model_validator(mode="after")
    def _is_one_limit(self) -> Self:
        if (self.caught is None) == (self.right is None):
            raise ValueError("limit either the share caught or the share of right guesses, not both or neither")
        if (self.caught is None) != (self.accused is None):
            raise ValueError("a limit on the share caught needs the share accused by mistake, and only this limit")
        if self.caught is not None and self.accused is not None and self.caught <= self.accused:
            raise ValueError(
                f"random guessing already catches as many as it accuses by mistake ({100 * self.accused:.10g} %): the "
                f"share caught must be above that, not {100 * self.caught:.10g} %"
            )
        return self

    @property
    def label(self) -> str:
        """`at most 5 % caught at 1 % accused by mistake`, or `at most 60 of 100 guesses right`."""
        if self.right is not None:
            return f"at most {100 * self.right:.10g} of 100 guesses right"
        assert self.caught is not None and self.accused is not None  # `_is_one_limit`
        return f"at most {100 * self.caught:.10g} % caught at {100 * self.accused:.10g} % accused by mistake"

    def sentence(self, unit: Unit) -> str:
        """The limit in plain words, for a protected unit."""
        if self.right is not None:
            return (
                f"Of 100 guesses whether one {unit} was in the data, at even odds, on average at most "
                f"{100 * self.right:.10g} are right (50 by tossing a coin)."
            )
        assert self.caught is not None and self.accused is not None  # `_is_one_limit`
        accused = f"{100 * self.accused:.10g}"
        return (
            f"An attacker who accuses {accused} of 100 {unit}s that were not in the data catches on average at most "
            f"{100 * self.caught:.10g} of 100 {unit}s that were (random guessing: {accused})."
        )


class PrivacySpec(Spec):
    """No privacy, or DP-SGD with either a target ε or a noise multiplier σ.

    With a `risk_limit`, σ is one that holds it; `core.training.plan` refuses a σ that does not.
    """

    target_epsilon: float | None = Field(None, description="ε to reach exactly at the last step, never exceeded")
    noise_multiplier: float | None = Field(None, description="σ, the noise's standard deviation over the clipping norm")
    delta: float = Field(1e-5, gt=0, lt=1)
    max_grad_norm: Norm = Field(1.0, description="C: the clipping norm")
    unit: Unit = Field("note", description="what is protected: one note, or all notes of one patient")
    accountant: Accountant = "prv"
    noise_source: Literal["secret"] | None = Field(
        None, description="secret: noise and samples from a key that is destroyed; none: from the training seed"
    )

    risk_limit: RiskLimit | None = Field(
        None, description="what σ was chosen for; none: σ was given, or follows from ε"
    )

    SILENT: ClassVar[tuple[str, ...]] = ("noise_source", "risk_limit")

    @field_validator("target_epsilon")
    @classmethod
    def _positive_epsilon(cls, value: float | None) -> float | None:
        return _positive(value, "ε must be a number above 0 (leave it out for training without privacy)")

    @field_validator("noise_multiplier")
    @classmethod
    def _positive_noise(cls, value: float | None) -> float | None:
        return _positive(value, "the noise multiplier σ must be a number above 0")

    @model_validator(mode="after")
    def _either_or(self) -> Self:
        if self.target_epsilon is not None and self.noise_multiplier is not None:
            raise ValueError("give a target ε or a noise multiplier σ, not both: each determines the other")
        if self.noise_source is not None and not self.private:
            raise ValueError("training without privacy has no noise to keep secret: give it an ε, or leave secret out")
        if self.risk_limit is not None and self.noise_multiplier is None:
            raise ValueError("a limit on the attacker is held by a noise multiplier: give σ, or leave out the limit")
        if self.risk_limit is not None and self.accountant != "prv":
            raise ValueError("a limit on the attacker is computed from privacy losses: choose the accountant prv")
        return self

    @property
    def private(self) -> bool:
        """True if training clips and adds noise."""
        return self.target_epsilon is not None or self.noise_multiplier is not None


class TrainingSpec(Spec):
    """Optimisation settings. Defaults come from `recipe`; docs/methods/recipe.md explains how they were chosen."""

    epochs: int = Field(8, ge=0, le=1_000, description="0 = the public base model itself, audited like any run")
    batch_size: int = Field(32, ge=1, description="expected examples a logical batch")
    learning_rate: float = Field(1e-3, gt=0)
    warmup: float = Field(0.05, ge=0, le=1, description="share of the steps with a rising rate; then linear decay")
    weight_decay: float = Field(0.0, ge=0)
    trainable: Literal["all", "no-embeddings"] = "all"
    weight_averaging: float = Field(0.0, ge=0, lt=1, description="decay of the moving average of weights; 0 = off")
    max_notes_per_patient: int = Field(
        50, ge=1, description="most notes used of one patient (Jagannatha 2021, §5.2); see RunSpec.note_cap"
    )
    max_tokens: int = Field(192, ge=8, le=1_024, description="longer notes are split into samples of this many tokens")
    physical_batch: int = Field(64, ge=1, description="examples held in memory at once; changes memory, not results")
    seed: int = Field(0, ge=0)
    clip_norm: Norm | None = Field(
        None, description="training without privacy that samples and clips as DP-SGD does, with this norm C"
    )
    mask_share: float | None = Field(
        None, gt=0, lt=1, description="share of a masked model's tokens that are hidden in training; none: 15 %"
    )
    masks: int | None = Field(
        None, ge=1, le=16, description="masks of one note whose losses are averaged before clipping; none: 1"
    )
    weighting: Literal["token"] | None = Field(
        None, description="token: without clipping, a note counts in proportion to its length; none: all count alike"
    )

    SILENT: ClassVar[tuple[str, ...]] = ("clip_norm", "mask_share", "masks", "weighting")


class DefenceSpec(Spec):
    """Changes to the training notes before a model is trained on them; evaluation uses the original cohort."""

    deduplicate: bool = Field(False, description="remove copies, near copies and repeated paragraphs")
    scrub_recall: float | None = Field(
        None, gt=0, le=1, description="share of identifiers that scrubbing finds and replaces; none: no scrubbing"
    )
    seed: int = Field(0, ge=0, description="which identifiers scrubbing misses")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.deduplicate and self.scrub_recall is None:
            raise ValueError("a defence that neither deduplicates nor scrubs has no effect: leave it out")
        if self.seed and self.scrub_recall is None:
            raise ValueError("a defence's seed determines what scrubbing misses: without scrubbing leave it at 0")
        return self

    @property
    def label(self) -> str:
        """`deduplicated`, `scrubbed (recall 95 %)`, or both."""
        scrubbed = [] if self.scrub_recall is None else [f"scrubbed (recall {100 * self.scrub_recall:g} %)"]
        return ", ".join([*(["deduplicated"] if self.deduplicate else []), *scrubbed])


class VocabularySpec(Spec):
    """Vocabulary from the training notes (Hoory 2021, §3.2), for a run with or without privacy.

    With an ε, every note (or every patient, if that is the unit) adds `words` different words to a histogram. The
    histogram gets noise, rare words are dropped, and WordPiece is trained on the rest. Without an ε the histogram is
    exact and complete.
    """

    epsilon: float | None = Field(None, description="ε of the vocabulary alone; none: no noise, and no privacy")
    delta: float = Field(1e-6, gt=0, lt=1, description="δ of the vocabulary alone, added to that of training")
    words: int = Field(10, ge=1, le=10_000, description="k: different words that one unit adds to the histogram")
    pieces: int = Field(512, ge=1, le=50_000, description="most entries added to the public vocabulary")
    noise: Literal["gaussian", "laplace"] = Field("gaussian", description="laplace: as in Hoory 2021, less efficient")

    @field_validator("epsilon")
    @classmethod
    def _positive_epsilon(cls, value: float | None) -> float | None:
        return _positive(value, "the vocabulary's ε must be a number above 0")

    @model_validator(mode="after")
    def _says_nothing_unused(self) -> Self:
        usual = {name: type(self).model_fields[name].default for name in ("delta", "words", "noise")}
        if self.epsilon is None and any(getattr(self, name) != value for name, value in usual.items()):
            raise ValueError("a vocabulary without noise has no δ, no cap of words, no kind of noise: leave them out")
        return self

    @property
    def label(self) -> str:
        """`words from the notes (ε = 1)`, or that they are without noise."""
        return "words from the notes" + (" without noise" if self.epsilon is None else f" (ε = {self.epsilon:g})")


class AuditSpec(Spec):
    """The size of the quick audit."""

    samples_per_prompt: int = Field(
        100, ge=1, le=10_000, description="samples of each of 14 prompts (PrivAI-Leak report: 100, 1,400 attempts)"
    )
    new_tokens: int = Field(60, ge=1, le=512)
    temperature: float = Field(0.8, gt=0)
    top_k: int = Field(50, ge=1)
    top_p: float = Field(0.95, gt=0, le=1)
    mask_draws: int = Field(
        4, ge=1, description="random 15 % masks averaged for a masked model's loss (Mireshghallah 2022 uses 10)"
    )
    bootstrap: int = Field(1_000, ge=10, description="resamples of patients for every interval")
    seed: int = Field(0, ge=0)
    patients: int | None = Field(
        None, ge=2, description="most members, and most held-out patients, whose notes are judged; none: all of them"
    )

    SILENT: ClassVar[tuple[str, ...]] = ("patients",)
