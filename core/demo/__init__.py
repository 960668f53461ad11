"""The shipped demonstration: the runs in `assets/demo`, and the larger sweep that will take their place.

Shipped now are the runs of `demo_specs`, on the classroom and the older base model. The larger sweep is in
`core.demo.plan`; `python -m core demo` trains it (`core.demo.training`) and exports each run (`core.demo.export`). Once
it is complete, `demo_specs` becomes its runs, and the older ones go.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from core.demo.export import UNDER_WAY, copy_run, pack
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.store import DEMO, Workspace
from core.spec import ABSTRACTS, CORPUS_PRESETS, DefenceSpec, ModelKind, ModelSpec, PrivacySpec, RunSpec, recipe

KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")
EPSILONS: tuple[float | None, ...] = (None, 8.0, 1.0, 2.0, 5.0, 10.0, 0.5)  # None = no privacy; the first two open Home
SEEDS = (0, 1, 2)
WEIGHTS: tuple[tuple[ModelKind, float | None], ...] = (("gpt2", None), ("gpt2", 8.0), ("distilbert", None))


def demo_spec(kind: ModelKind, epsilon: float | None, seed: int) -> RunSpec:
    """One run of the sweep: the classroom cohort with the measured recipe."""
    privacy = PrivacySpec(target_epsilon=epsilon)
    return RunSpec(
        corpus=CORPUS_PRESETS["classroom"],
        model=ModelSpec(kind=kind, base=ABSTRACTS),
        privacy=privacy,
        training=recipe(kind, privacy, seed=seed),
    )


def demo_specs() -> list[RunSpec]:
    """The whole sweep, seed by seed."""
    return [demo_spec(kind, epsilon, seed) for seed in SEEDS for kind in KINDS for epsilon in EPSILONS]


def weighted_specs() -> list[RunSpec]:
    """The runs of the sweep that are shipped with their weights and a full audit."""
    return [demo_spec(kind, epsilon, SEEDS[0]) for kind, epsilon in WEIGHTS]


def defended_specs() -> list[RunSpec]:
    """Runs that Defences compares besides the sweep: GPT-2 at the first seed, on changed notes and per patient."""
    plain, private = (demo_spec("gpt2", epsilon, SEEDS[0]) for epsilon in (None, 8.0))
    by_patient = private.privacy.model_copy(update={"unit": "patient"})
    return [
        plain.model_copy(update={"defence": DefenceSpec(deduplicate=True)}),
        plain.model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)}),
        private.model_copy(update={"privacy": by_patient}),
    ]


def export(workspace: Workspace, out: Path = DEMO) -> list[str]:
    """Replace `out` by the sweep's finished runs, their controls and their cohort. Returns the run ids."""
    specs = [*demo_specs(), *defended_specs()]
    wanted = {spec.run_id: spec for spec in [*specs, *(spec.base_spec() for spec in specs)]}
    runs = [run for spec in wanted.values() if (run := workspace.find(spec)) is not None]
    with_weights = {spec.run_id for spec in weighted_specs()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".demo-") as temporary:
        made = Path(temporary) / "demo"
        for run in runs:
            copy_run(run, made / "runs" / run.id, weights=run.id in with_weights)
            cohort = run.spec.corpus.digest()
            shutil.copytree(
                workspace.root / "corpora" / cohort,
                made / "corpora" / cohort,
                ignore=shutil.ignore_patterns(CHECKSUMS),
                dirs_exist_ok=True,
            )
            audited = workspace.audit(run.id).folder
            if run.id in with_weights and audited.exists():
                shutil.copytree(audited, made / "audits" / run.id, ignore=shutil.ignore_patterns(*UNDER_WAY))
        for table in made.rglob("*.parquet"):
            pack(table)
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    return [run.id for run in runs]
