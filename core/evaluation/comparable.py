"""Which runs may stand on one trade-off curve: those that differ in ε and the training seed and in nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from core.runs.run import Run
from core.spec import AuditSpec, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, recipe


@dataclass(frozen=True)
class Family:
    """Runs of one cohort, model, audit, privacy unit, δ, accountant and recipe, at several ε and seeds.

    `privacy` has no ε; `training` has seed 0 and is None when the family has no private run. `plain_training` is the
    recipe of its runs without privacy, None when there are none.
    """

    corpus: CorpusSpec
    model: ModelSpec
    audit: AuditSpec
    privacy: PrivacySpec
    training: TrainingSpec | None
    plain_training: TrainingSpec | None
    run_ids: tuple[str, ...]

    def spec(self, epsilon: float | None, seed: int = 0) -> RunSpec:
        """The family's run at a target ε (None = without privacy); a recipe that no run shows is the measured one."""
        given = self.plain_training if epsilon is None else self.training
        training = given or recipe(self.model.kind, private=epsilon is not None)
        privacy = PrivacySpec() if epsilon is None else self.privacy.model_copy(update={"target_epsilon": epsilon})
        return RunSpec(
            corpus=self.corpus,
            model=self.model,
            privacy=PrivacySpec.model_validate(privacy.model_dump()),
            training=training.model_copy(update={"seed": seed}),
            audit=self.audit,
        )


def families(runs: Sequence[Run]) -> list[Family]:
    """Every family among the runs, the one with most runs first. Base models and runs given a raw σ belong to none.

    Runs without privacy join each family of their cohort, model and audit. When they were trained by several recipes,
    the one with most runs counts (then the latest): a curve has one end.
    """
    private: dict[tuple, list[Run]] = defaultdict(list)
    plain: dict[tuple, dict[TrainingSpec, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        spec = run.spec
        setting = (spec.corpus, spec.model, spec.audit)
        training = spec.training.model_copy(update={"seed": 0})
        if spec.is_base:
            continue
        if not spec.privacy.private:
            plain[setting][training].append(run)
        elif spec.privacy.target_epsilon is not None:
            asked = spec.privacy.model_copy(update={"target_epsilon": None})
            private[(*setting, asked, training)].append(run)
    settled = {setting: max(recipes.items(), key=lambda item: _weight(item[1])) for setting, recipes in plain.items()}
    found = []
    for (*setting, privacy, training), members in private.items():
        plain_training, plain_runs = settled.get(tuple(setting), (None, []))
        found.append(_family(setting, privacy, training, plain_training, [*members, *plain_runs]))
    with_private = {(family.corpus, family.model, family.audit) for family in found}
    for setting, (plain_training, plain_runs) in settled.items():
        if setting not in with_private:
            found.append(_family(setting, PrivacySpec(), None, plain_training, plain_runs))
    return sorted(found, key=lambda family: -len(family.run_ids))


def _weight(runs: list[Run]) -> tuple[int, float]:
    return len(runs), max(run.status.finished or 0.0 for run in runs)


def _family(
    setting: Sequence,
    privacy: PrivacySpec,
    training: TrainingSpec | None,
    plain_training: TrainingSpec | None,
    runs: list[Run],
) -> Family:
    corpus, model, audit = setting
    ids = tuple(sorted(run.id for run in runs))
    return Family(corpus, model, audit, privacy, training, plain_training, ids)
