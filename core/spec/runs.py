"""The settings of a run: frozen and validated, with a hash that is the run's id.

A spec contains everything that determines a run's numbers (cohort, model, privacy, training, audit) and nothing else,
so the same spec always means the same run and is never trained twice.
"""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from core.spec.parts import (
    AuditSpec,
    CorpusSpec,
    DefenceSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    Spec,
    TrainingSpec,
    VocabularySpec,
)
from core.spec.recipes import recipe


class RunSpec(Spec):
    """Everything that determines a run. Its digest is the run's id."""

    corpus: CorpusSpec = CorpusSpec()
    model: ModelSpec = ModelSpec()
    privacy: PrivacySpec = PrivacySpec()
    training: TrainingSpec = TrainingSpec()
    audit: AuditSpec = AuditSpec()
    defence: DefenceSpec | None = None
    vocabulary: VocabularySpec | None = None
    without: tuple[str, ...] | None = Field(
        None, description="members whose notes are left out of training: exact retraining; cohort and controls stay"
    )

    SILENT: ClassVar[tuple[str, ...]] = ("defence", "vocabulary", "without")

    @field_validator("without")
    @classmethod
    def _each_patient_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """In order and once each, so that the same patients are always the same run."""
        if value is not None and not (value and all(one.strip() for one in value)):
            raise ValueError("name the patients to leave out, or leave the setting out")
        return None if value is None else tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _privacy_needs_training(self) -> Self:
        if self.privacy.private and self.training.epochs == 0:
            raise ValueError("a private run needs at least one epoch: with none, there is nothing to protect")
        return self

    @model_validator(mode="after")
    def _defence_fits(self) -> Self:
        if self.defence is not None and self.training.epochs == 0:
            raise ValueError("a defence of the training notes needs training: the public base model reads no notes")
        if self.defence is None or not self.privacy.private:
            return self
        if self.defence.deduplicate:
            other = ", or scrubbing with DP" if self.corpus.identifiers_are_given else ""
            raise ValueError(
                "deduplication and DP cannot be combined: whether a note is kept depends on other people's notes, so "
                f"one patient's change has a larger effect than ε was computed for. Choose one of the two{other}"
            )
        if not self.corpus.identifiers_are_given:
            raise ValueError(
                "scrubbing and DP cannot be combined on these notes: their identifiers were found by rules over all "
                "patients' notes, so one note's change affects others and has a larger effect than ε was computed for. "
                "Choose one of the two, or import the notes again with a table of identifiers"
            )
        return self

    @model_validator(mode="after")
    def _somebody_is_left_out_of_something(self) -> Self:
        if self.without is not None and self.training.epochs == 0:
            raise ValueError("the public base model reads no notes, so no patient can be left out of it")
        return self

    @model_validator(mode="after")
    def _vocabulary_fits(self) -> Self:
        if self.vocabulary is None:
            return self
        if self.model.kind == "gpt2":
            raise ValueError(
                "words of the notes can be added to the vocabularies of DistilBERT and BERT (WordPiece), not to "
                "GPT-2's byte pairs: choose distilbert or bert, or leave the vocabulary out"
            )
        if self.training.epochs == 0:
            raise ValueError("a vocabulary from the notes needs training: the public base model reads no notes")
        if self.privacy.private and self.vocabulary.epsilon is None:
            raise ValueError(
                "a vocabulary taken from the notes without noise reveals words of them, whatever training guarantees: "
                "give the vocabulary an ε, or leave it out"
            )
        if not self.privacy.private and self.vocabulary.epsilon is not None:
            raise ValueError(
                "a private vocabulary guarantees nothing if training has no privacy: give training an ε, or leave out "
                "the vocabulary's"
            )
        if self.privacy.private and self.privacy.accountant != "prv":
            raise ValueError("the vocabulary's ε and training's are composed by PRV: choose the accountant prv")
        total = self.privacy.delta + self.vocabulary.delta
        if self.privacy.private and not self.vocabulary.delta < total < 1:
            raise ValueError(
                f"the guarantee holds at δ of training plus δ of the vocabulary, {self.privacy.delta:g} + "
                f"{self.vocabulary.delta:g}: "
                + ("choose δ that are below 1 together" if total >= 1 else "training's is too small to be added")
            )
        if self.privacy.risk_limit is not None:
            raise ValueError(
                "a limit on the attacker is held by the noise of training alone, and a vocabulary from the notes "
                "reveals more: choose ε, or leave out the vocabulary"
            )
        return self

    @model_validator(mode="after")
    def _training_fits(self) -> Self:
        if self.training.clip_norm is not None and self.privacy.private:
            raise ValueError("private training clips with privacy.max_grad_norm: leave training.clip_norm out")
        if self.training.weighting is not None and (self.privacy.private or self.training.clip_norm is not None):
            raise ValueError("clipping bounds each note, so every note counts alike: leave training.weighting out")
        if self.model.kind == "gpt2" and (self.training.mask_share is not None or self.training.masks is not None):
            raise ValueError("GPT-2 predicts every token and has no masks: leave mask_share and masks out")
        return self

    @model_validator(mode="after")
    def _secret_is_said_once(self) -> Self:
        if self.corpus.imported is not None and self.privacy.noise_source is not None:
            raise ValueError("private training on imported notes always has secret noise: leave noise_source out")
        return self

    @property
    def secret_noise(self) -> bool:
        """True if ε must hold: noise, samples and masks then come from a secret key, not from the training seed.

        Always for private training on imported notes; optional (`privacy.noise_source`) on synthetic ones.
        """
        return self.privacy.private and (self.corpus.imported is not None or self.privacy.noise_source is not None)

    @property
    def target_is_guaranteed(self) -> bool:
        """True if the run's target ε is what it guarantees; `Run.epsilon` knows the ε of a finished run.

        Not with GDP, which chooses too little noise for most ε, nor with a vocabulary from the notes, which costs more.
        """
        privacy = self.privacy
        return privacy.target_epsilon is not None and privacy.accountant != "gdp" and self.vocabulary is None

    @property
    def run_id(self) -> str:
        """Name of the run's folder, for example `gpt2-3f2a9c01d4e7`."""
        return f"{self.model.kind}-{self.digest()}"

    @property
    def note_cap(self) -> int | None:
        """Most notes of one patient used in training; None: all of them, if notes are clipped one by one.

        With a cap, whether a note is used depends on the patient's other notes: removing one lets another in, so two
        units of the training set change instead of one. With a guarantee per patient, all of that is within one unit.
        (Jagannatha 2021, §5.2, caps patients at 50 samples.)
        """
        clipped = self.privacy.private or self.training.clip_norm is not None
        if clipped and self.privacy.unit == "note":
            return None
        return self.training.max_notes_per_patient

    @property
    def is_base(self) -> bool:
        """True for the public base model, with which every run is compared."""
        return self.training.epochs == 0

    @property
    def on_other_notes(self) -> bool:
        """True if training did not read the members' notes as they are: a defence changed them, or patients are out.

        Such runs are never put among the runs of a curve.
        """
        return self.defence is not None or self.without is not None

    def retrained_spec(self, *patients: str) -> RunSpec:
        """The same training, with the same settings and seed, that never reads the notes of these members.

        A noise that was chosen for a limit on the attacker stays as it is. The limit goes: it was held on all notes,
        and with fewer of them each is in more steps.
        """
        privacy = self.privacy.model_copy(update={"risk_limit": None})
        left_out = (*(self.without or ()), *patients)
        return RunSpec.model_validate({**self.model_dump(), "privacy": privacy, "without": left_out})

    @property
    def clipped_id(self) -> str | None:
        """The id of the control without noise; None for a run without privacy, and for one with private words."""
        return self.clipped_spec().run_id if self.privacy.private and self.vocabulary is None else None

    def clipped_spec(self) -> RunSpec:
        """The control of a private run for its noise: the same notes, steps, batches and clipping, without noise.

        Raises:
            ValueError: for a run without one (`clipped_id`).
        """
        if not self.privacy.private:
            raise ValueError("a run without privacy has no noise, so it needs no control without noise")
        if self.vocabulary is not None:
            raise ValueError("a run with private words has noise in them, too, so it has no control without noise")
        training = self.training.model_copy(update={"clip_norm": self.privacy.max_grad_norm})
        privacy = PrivacySpec(unit=self.privacy.unit)
        return RunSpec.model_validate({**self.model_dump(), "privacy": privacy, "training": training})

    def base_spec(self) -> RunSpec:
        """The control of this run: the same cohort, model and audit, without any training."""
        return RunSpec(
            corpus=self.corpus,
            model=self.model,
            privacy=PrivacySpec(),
            training=TrainingSpec(epochs=0),
            audit=self.audit,
        )


CORPUS_PRESETS: dict[str, CorpusSpec] = {
    # Many short notes: for the same training time they give more privacy units, which DP-SGD needs.
    "classroom": CorpusSpec(notes_per_patient=10.0, naming_rate=0.5, note_length="brief"),
    # The same hospital with 4 and 16 times the patients: what does privacy cost with more units? (training notes)
    "classroom-12k": CorpusSpec(
        patients=1_720, population=400, notes_per_patient=10.0, naming_rate=0.5, note_length="brief"
    ),
    "classroom-48k": CorpusSpec(
        patients=6_880, population=1_000, notes_per_patient=10.0, naming_rate=0.5, note_length="brief"
    ),
    # The classroom's patients, with enough canaries of one copy each for an audit of ε to prove something.
    "classroom-audit": CorpusSpec(notes_per_patient=10.0, naming_rate=0.5, note_length="brief", random_canaries=400),
    "study": CorpusSpec(
        patients=1_600, population=400, notes_per_patient=5.0, naming_rate=0.1, canaries=200, canary_patients=20
    ),
    "mimic-scale": CorpusSpec(
        patients=46_520, population=2_000, notes_per_patient=24.73, naming_rate=0.1, canaries=1_000, canary_patients=100
    ),
    "smoke": CorpusSpec(
        patients=24, population=8, notes_per_patient=3.0, naming_rate=1.0, canaries=6, canary_patients=2
    ),
}

OPENING = "classroom-12k"  # the preset that the pages open with: it leaks without privacy and is useful with it

# Members, and held-out patients, whose notes are judged on a large hospital. Scoring all 68,000 notes of the largest
# one would take longer than training on them, and its intervals are narrow enough with these.
_JUDGED = {"classroom-12k": 600, "classroom-48k": 600}


def audit_of(corpus: CorpusSpec) -> AuditSpec:
    """The quick audit that runs on this cohort usually have: of a large classroom hospital, some patients are judged.

    The same for every seed and wording of a hospital, so that its runs are comparable.
    """
    like = corpus.model_copy(update={"seed": 0, "variant": "regular"})
    return AuditSpec(patients=next((most for name, most in _JUDGED.items() if CORPUS_PRESETS[name] == like), None))


def recipe_of(
    kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec, *, seed: int = 0, short: bool = False
) -> TrainingSpec:
    """The `recipe` for a model, its privacy, and as many training notes as this cohort has; `short` for a class."""
    return recipe(kind, privacy, notes=corpus.training_notes, seed=seed, short=short)
