"""Which runs belong on one trade-off curve: those that differ only in ε and the training seed."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

from core.runs.listing import OfRuns
from core.runs.run import Run
from core.spec import (
    CLINICAL,
    CORPUS_PRESETS,
    OPENING,
    AuditSpec,
    CorpusSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    Spec,
    TrainingSpec,
    recipe,
    recipe_of,
)

Recipe = Callable[[ModelKind, PrivacySpec, CorpusSpec], TrainingSpec]


def _short_recipe(kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec) -> TrainingSpec:
    return recipe_of(kind, privacy, corpus, short=True)


def _first_recipe(kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec) -> TrainingSpec:
    """The recipe of version 0.1, by which the first demonstration sweep was trained: 4 epochs, a rate that falls."""
    rate = (5e-3 if kind == "gpt2" else 2e-3) * min(1.0, math.sqrt((privacy.target_epsilon or 8.0) / 8))
    return TrainingSpec(epochs=4, batch_size=256, learning_rate=float(f"{rate:.2g}"), warmup=0.0)


# How the training of a private run may depend on its ε within one curve, the recipe in use first.
_RECIPES: tuple[Recipe, ...] = (
    recipe_of,
    lambda kind, privacy, corpus: recipe(kind, privacy),
    _first_recipe,
    _short_recipe,
)


@dataclass(frozen=True)
class Sweep:
    """Runs of one cohort, model, audit, privacy unit, δ, accountant and recipe, at several ε and seeds.

    `privacy` has no ε; `training` has seed 0 and is None when the sweep has no private run. `plain_training` is the
    recipe of its runs without privacy, None when there are none. If every private run was trained as a recipe says for
    its ε, `usual` is the number of that recipe (among _RECIPES) and `training` is the recipe at ε = 8. With
    `usual_rate`, the learning rate alone is the recipe's. `controls` are the ids of the runs that are trained as its
    private runs, clipped and without noise (`RunSpec.clipped_spec`); they are not among `run_ids`.
    """

    corpus: CorpusSpec
    model: ModelSpec
    audit: AuditSpec
    privacy: PrivacySpec
    training: TrainingSpec | None
    plain_training: TrainingSpec | None
    run_ids: tuple[str, ...]
    usual_rate: bool = False
    usual: int | None = None
    controls: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """`<model kind>-<cohort, model and audit>-<promise and recipe>`: it does not depend on the number of runs."""
        setting = _short(self.corpus, self.model, self.audit)
        follows = self.usual_rate or self.usual is not None
        asked = "plain" if self.training is None else _short(self.privacy, self.training) + "u" * follows
        return f"{self.model.kind}-{setting}-{asked}"

    def spec(self, epsilon: float | None, seed: int = 0) -> RunSpec:
        """The sweep's spec at a target ε (None = without privacy); without a run that shows the recipe, `recipe`'s."""
        asked = PrivacySpec() if epsilon is None else self.privacy.model_copy(update={"target_epsilon": epsilon})
        privacy = PrivacySpec.model_validate(asked.model_dump())
        usual = _RECIPES[self.usual or 0](self.model.kind, privacy, self.corpus)
        training = (self.plain_training if epsilon is None else self.training) or usual
        if privacy.private and self.usual is not None:
            training = usual
        elif privacy.private and self.usual_rate:
            training = training.model_copy(update={"learning_rate": usual.learning_rate})
        return RunSpec(
            corpus=self.corpus,
            model=self.model,
            privacy=privacy,
            training=training.model_copy(update={"seed": seed}),
            audit=self.audit,
        )


def sweeps_of(runs: Sequence[Run]) -> list[Sweep]:
    """All sweeps among the runs: those of the opening hospital and the current base model first, then by most runs.

    Of two with equally many runs, GPT-2's is first.

    Private runs of one curve have one recipe, or each has the one that a recipe gives for its ε and cohort. Trainings
    without noise are the controls of the sweep whose private run they repeat, and of no other.

    These belong to no sweep: base models, runs given a raw σ, runs on defended notes
    (`core.evaluation.defences.side_by_side`) or without some patients, runs with their own vocabulary (another total ε,
    and other tokens) and runs that guarantee another ε than their target: those planned by GDP, and those with a cap
    on notes (`Run.keeps_target`).

    Runs without privacy belong to every sweep of their cohort, model and audit. If they were trained by several
    recipes, the recipe with most runs counts (then the latest), because a curve has one end.
    """
    return list(_of_runs(runs))


def _find(runs: Sequence[Run]) -> list[Sweep]:
    private: dict[tuple, list[Run]] = defaultdict(list)
    clipped: dict[str, str] = {}  # digest of the spec of a training without noise → id
    plain: dict[tuple, dict[TrainingSpec, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        spec = run.spec
        setting = (spec.corpus, spec.model, spec.audit)
        training = spec.training.model_copy(update={"seed": 0})
        if spec.is_base or spec.on_other_notes or spec.vocabulary is not None:
            continue
        if spec.training.clip_norm is not None:
            clipped[spec.digest()] = run.id
        elif not spec.privacy.private:
            plain[setting][training].append(run)
        elif run.keeps_target:
            asked = spec.privacy.model_copy(update={"target_epsilon": None})
            private[(*setting, asked, *_at_eight(spec, training))].append(run)
    settled = {setting: max(recipes.items(), key=lambda item: _weight(item[1])) for setting, recipes in plain.items()}
    found = []
    for (corpus, model, audit, privacy, training, usual_rate, usual), members in private.items():
        setting = corpus, model, audit
        plain_training, plain_runs = settled.get(setting, (None, []))
        repeated = [clipped.get(run.spec.clipped_spec().digest()) for run in members] if clipped else []
        made = _family(setting, privacy, training, plain_training, [*members, *plain_runs], usual_rate)
        found.append(replace(made, usual=usual, controls=tuple(sorted({one for one in repeated if one}))))
    with_private = {(sweep.corpus, sweep.model, sweep.audit) for sweep in found}
    for setting, (plain_training, plain_runs) in settled.items():
        if setting not in with_private:
            found.append(_family(setting, PrivacySpec(), None, plain_training, plain_runs))
    return sorted(found, key=_place)


_of_runs = OfRuns(_find, keep=8)  # every page that compares runs asks, some of them several times


def _place(sweep: Sweep) -> tuple[bool, int, int]:
    opening = sweep.corpus == CORPUS_PRESETS[OPENING] and sweep.model.base == CLINICAL
    return not opening, -len(sweep.run_ids), get_args(ModelKind).index(sweep.model.kind)


def _short(*specs: Spec) -> str:
    """Ten hex digits of the specs' digests together."""
    return hashlib.sha256("/".join(spec.digest() for spec in specs).encode()).hexdigest()[:10]


def _at_eight(spec: RunSpec, training: TrainingSpec) -> tuple[TrainingSpec, bool, int | None]:
    """A private run's training as at ε = 8; whether its rate alone is a recipe's; the number of its recipe, if any."""
    at_eight = spec.privacy.model_copy(update={"target_epsilon": 8.0})
    kind, corpus = spec.model.kind, spec.corpus
    for number, made in enumerate(_RECIPES):
        if training == made(kind, spec.privacy, corpus):
            return made(kind, at_eight, corpus), False, number
    made = _RECIPES[0]
    if training.learning_rate == made(kind, spec.privacy, corpus).learning_rate:
        rate = made(kind, at_eight, corpus).learning_rate
        return training.model_copy(update={"learning_rate": rate}), True, None
    return training, False, None


def _weight(runs: list[Run]) -> tuple[int, float]:
    return len(runs), max(run.status.finished or 0.0 for run in runs)


def _family(
    setting: Sequence,
    privacy: PrivacySpec,
    training: TrainingSpec | None,
    plain_training: TrainingSpec | None,
    runs: list[Run],
    usual_rate: bool = False,
) -> Sweep:
    corpus, model, audit = setting
    ids = tuple(sorted(run.id for run in runs))
    return Sweep(corpus, model, audit, privacy, training, plain_training, ids, usual_rate)
