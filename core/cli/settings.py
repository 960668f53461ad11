"""Turns options into specs, and checks everything before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import ValidationError

from core.cli.output import BadInput
from core.common.refusals import first_refusal, reason
from core.spec import (
    CORPUS_PRESETS,
    AuditSpec,
    CorpusSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RiskLimit,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
    audit_of,
    recipe,
)
from core.spec.recipes import USUAL_MASKS

if TYPE_CHECKING:
    from core.corpus.tables import Corpus
    from core.runs.store import Workspace

SIGMAS = "2,1,.1,1e-2,1e-3,1e-4,1e-20"  # Jagannatha 2021, §5.2, table 2
GRID = {"delta": 1e-6, "epochs": 3, "max_grad_norm": 1.0}  # its other settings, §A.1
USUAL_DELTA = 1e-5


def stored_corpus(given: str, workspace: Workspace) -> CorpusSpec:
    """`corpus_spec`; notes in a folder that `corpus --from` wrote are first added to the workspace's cohorts."""
    from core.corpus.tables import Corpus

    spec = corpus_spec(given)
    if spec.imported is not None and workspace.corpus_folder(spec) is None:
        folder = Path(given)
        if not folder.is_dir():
            raise BadInput(f"--corpus: “{given}” describes notes that are not here; give the folder with the notes.")
        corpus = Corpus.read(folder)
        if corpus.content_id() != spec.imported:
            raise BadInput(
                f"--corpus: the notes in {folder} are not those that its spec.json names ({spec.imported}). "
                "Import them again with `python -m core corpus --from`."
            )
        workspace.add(corpus)
    return spec


ALSO_CALLED = {"tiny": "smoke"}  # the app's name of a preset → the preset


def corpus_spec(given: str, option: str = "--corpus") -> CorpusSpec:
    """A preset's name, a folder that `python -m core corpus` wrote, or a JSON file of a CorpusSpec.

    Raises:
        BadInput: `given` is none of these; the message names the `option`.
    """
    name = given.strip().lower().replace(" ", "-")
    name = ALSO_CALLED.get(name, name)
    if name in CORPUS_PRESETS:
        return CORPUS_PRESETS[name]
    path = Path(given)
    file = path / "spec.json" if path.is_dir() else path
    if not file.is_file():
        raise BadInput(
            f"{option}: “{given}” is neither a preset ({', '.join([*CORPUS_PRESETS, *ALSO_CALLED])}) nor a folder or "
            "file with a cohort's spec."
        )
    try:
        return CorpusSpec.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise BadInput(f"{option}: {file} does not contain a cohort's spec ({_reason(error)}).") from None


def _reason(error: ValidationError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return first_refusal(error)


def epsilon_value(given: str | None, option: str = "--epsilon") -> float | None:
    """`8` → 8.0; `inf`, `none` or None → None, no privacy. Raises BadInput, naming the `option`, for anything else."""
    if given is None or given.strip().lower() in ("inf", "infinity", "∞", "none"):
        return None
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise BadInput(f"{option}: “{given}” is not a number above 0. Give for example 8, or inf for no privacy.")
    return value


def refuse_beside_grid(decided: Iterable[object], delta: float, max_grad_norm: float) -> None:
    """Raise BadInput if an option was given that `--sigma-grid` decides."""
    if any(one is not None for one in decided) or delta != USUAL_DELTA or max_grad_norm != GRID["max_grad_norm"]:
        raise BadInput(
            "--sigma-grid decides the noise, δ = 1e-6, the clipping norm 1 and 3 epochs: leave the options for these "
            "out. With other settings use `sweep --sigma`."
        )


def noise_targets(epsilon: str | None, sigma: str | None) -> list[dict[str, float | None]]:
    """What decides the noise of each run of a sweep: a target ε or a σ; neither for no privacy.

    Raises:
        BadInput: There is no value, or one is not a number.
    """
    if epsilon is None and sigma is None:
        raise BadInput("Give --epsilon or --sigma: which noise should the runs have?")
    found: list[dict[str, float | None]] = []
    if epsilon is not None:
        found += [{"target_epsilon": epsilon_value(part)} for part in epsilon.split(",")]
    for part in sigma.split(",") if sigma is not None else ():
        try:
            found.append({"noise_multiplier": float(part)})
        except ValueError:
            raise BadInput(f"--sigma: “{part.strip()}” is not a number. Give for example {SIGMAS}.") from None
    return found


def risk_limit(
    attacker_catches: float | None, falsely_accused: float | None, right_guesses: float | None
) -> RiskLimit | None:
    """The limit that `--attacker-catches` (with `--falsely-accused`) or `--right-guesses` gives, in percent.

    Raises:
        BadInput: Both were given, the second without the first, or a value is out of range.
    """
    if attacker_catches is None and right_guesses is None:
        if falsely_accused is not None:
            raise BadInput("--falsely-accused needs --attacker-catches: the percentage caught at most.")
        return None
    if attacker_catches is not None and right_guesses is not None:
        raise BadInput("Give either --attacker-catches or --right-guesses, not both: one limit determines the noise.")
    if right_guesses is not None and falsely_accused is not None:
        raise BadInput("--falsely-accused belongs to --attacker-catches; --right-guesses has no such percentage.")
    if right_guesses is not None and not 50 < right_guesses < 100:
        raise BadInput(f"--right-guesses must lie between 50 (tossing a coin) and 100, not {right_guesses:g}.")
    accused = 1.0 if falsely_accused is None else falsely_accused
    if not 0.1 <= accused < 100:
        raise BadInput(f"--falsely-accused must be a percentage from 0.1 to below 100, not {accused:g}.")
    if attacker_catches is not None and not accused < attacker_catches < 100:
        raise BadInput(
            f"--attacker-catches must lie between {accused:g} (blind guessing: as many as are accused by mistake) and "
            f"100, not {attacker_catches:g}."
        )
    if attacker_catches is None:
        assert right_guesses is not None  # one of the two is given
        return RiskLimit(right=right_guesses / 100)
    return RiskLimit(caught=attacker_catches / 100, accused=accused / 100)


def held_limit(
    limit: RiskLimit,
    given: Mapping[str, Any],
    settings: Callable[[PrivacySpec], TrainingSpec],
    corpus: Corpus,
    batch_size: int | None,
) -> tuple[PrivacySpec, TrainingSpec]:
    """Privacy with the least noise that holds the limit on this cohort, and the training settings it belongs to.

    `given` are the other settings of the privacy, `settings` gives those of training for a privacy, and a `batch_size`
    of None is the recipe's, which becomes smaller in a small cohort as `fitting` does it.
    """
    from core.training.accounting.risk import privacy_for_risk

    privacy = PrivacySpec(noise_multiplier=1.0, **given)
    notes = len(corpus.training_notes(RunSpec(privacy=privacy).note_cap))

    def fitted(chosen: PrivacySpec) -> TrainingSpec:
        return fitting_batch(settings(chosen), notes, batch_size is not None)

    if batch_size is not None and batch_size > notes:
        raise BadInput(f"--batch-size: {batch_size} is more than the {notes} training notes. Choose a smaller batch.")
    return privacy_for_risk(limit, privacy, fitted, notes)


def model_spec(kind: str, size: str, base: str) -> ModelSpec:
    """The public model to start from. Raises BadInput for an unknown kind."""
    if kind not in get_args(ModelKind):
        raise BadInput(f"--model: there is no model “{kind}”. Choose {', '.join(get_args(ModelKind))}.")
    return ModelSpec(kind=kind, size=size, base=base)


def training_spec(
    public: ModelSpec, privacy: PrivacySpec, corpus: CorpusSpec, epochs: int | None, seed: int, **changes: object
) -> TrainingSpec:
    """The measured recipe for this public model, privacy and number of notes, with the caller's changes.

    Usual masks (15 %, one of a note) are left out, however they were asked for: the same training has one id.
    """
    clipped = changes.get("clip_norm") is not None
    chosen = recipe(public.kind, privacy, notes=corpus.training_notes, seed=seed, clipped=clipped, size=public.size)
    given = {name: value for name, value in {"epochs": epochs, **changes}.items() if value is not None}
    asked = {**chosen.model_dump(), **given}
    return TrainingSpec(**{name: value for name, value in asked.items() if USUAL_MASKS.get(name) != value})


def weight_of(weighting: str | None) -> Literal["token"] | None:
    """What counts alike in training; None: every note. Raises BadInput for anything but `note` and `token`."""
    if weighting not in (None, "note", "token"):
        raise BadInput(f"--weighting: “{weighting}” is not known. Choose note or token.")
    return "token" if weighting == "token" else None


def vocabulary_spec(epsilon: str | None, **options: object) -> VocabularySpec | None:
    """A vocabulary from the notes: an ε, or `inf` for one without noise; None: the public vocabulary only.

    Raises:
        BadInput: Further options were given without the first, or a value is wrong.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if epsilon is None:
        if given:
            raise BadInput(
                f"--vocabulary-{next(iter(given))} needs --vocabulary-epsilon: a number, or inf for no noise."
            )
        return None
    try:
        return VocabularySpec(epsilon=epsilon_value(epsilon, "--vocabulary-epsilon"), **given)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"--vocabulary-{first['loc'][-1]}: " if first["loc"] else ""
        raise BadInput(where + reason(first)) from None


def noise_source(secret: bool, corpus: CorpusSpec, *, private: bool) -> Literal["secret"] | None:
    """The effect of `--secret-noise` on one run: none for training without privacy, or on imported notes."""
    return "secret" if secret and private and corpus.imported is None else None


def fitting(spec: RunSpec, training_notes: int, batch_given: bool) -> RunSpec:
    """The spec with a smaller batch if the cohort is smaller than the recipe's batch, unless the caller chose it."""
    return spec.model_copy(update={"training": fitting_batch(spec.training, training_notes, batch_given)})


def fitting_batch(training: TrainingSpec, training_notes: int, batch_given: bool) -> TrainingSpec:
    """The training with a batch of a quarter of the notes, if the recipe's batch is larger than the cohort."""
    if batch_given or training.batch_size <= training_notes:
        return training
    return training.model_copy(update={"batch_size": max(1, training_notes // 4)})


def audit_spec(corpus: CorpusSpec, samples_per_prompt: int | None) -> AuditSpec:
    """The quick audit that is usual for the cohort, with the requested number of samples."""
    given = {} if samples_per_prompt is None else {"samples_per_prompt": samples_per_prompt}
    return AuditSpec(**{**audit_of(corpus).model_dump(), **given})


@dataclass(frozen=True)
class CommonSettings:
    """What all runs of one command have in common.

    `epochs` and `changes` override the recipe. None keeps the recipe's value.
    """

    corpus: CorpusSpec
    model: ModelSpec
    epochs: int | None
    changes: Mapping[str, object]
    samples_per_prompt: int | None
    vocabulary: VocabularySpec | None = None

    def training(self, privacy: PrivacySpec, seed: int) -> TrainingSpec:
        """The training with this privacy and seed."""
        return training_spec(self.model, privacy, self.corpus, self.epochs, seed, **self.changes)

    def run(self, privacy: PrivacySpec, training: TrainingSpec) -> RunSpec:
        """The run with this privacy and training."""
        return RunSpec(
            corpus=self.corpus,
            model=self.model,
            privacy=privacy,
            training=training,
            audit=audit_spec(self.corpus, self.samples_per_prompt),
            vocabulary=self.vocabulary,
        )
