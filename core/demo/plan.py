"""The demonstration sweep by plan: named parts in order of importance, each a list of runs.

Three hospitals that differ only in the number of patients, two kinds of model, and the controls: the run without
privacy, the public base model, and the same training without noise (clipping alone). The ε that are compared most have
three seeds. Everything else has one, and further ε, 0.5 to 10,000, are measured on the smaller hospitals, three of them
with GPT-2 on the largest, because of the time. `core.demo.training` trains what is missing; `python -m core demo
--plan` lists it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.evaluation.defences.side_by_side import lineup
from core.evaluation.sweep.sweeps import Sweep
from core.jobs.times.costs import of_training, on_one_core, whole
from core.runs.store import Workspace
from core.spec import (
    ABSTRACTS,
    CORPUS_PRESETS,
    OPENING,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    audit_of,
    rate_for,
    recipe_of,
)

SIZES = {"3k": "classroom", "12k": "classroom-12k", "48k": "classroom-48k"}  # name in a part → preset
KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")
SEEDS = (0, 1, 2)
MAIN: dict[ModelKind, tuple[float | None, ...]] = {"gpt2": (None, 8.0, 1.0), "distilbert": (None, 3.0, 1.0, 8.0)}
LEAKS = (30.0, 100.0, 1_000.0, 10_000.0)  # between the usual range and no privacy: where do leaks begin?
BETWEEN = (3.0, 0.5)
FURTHER: dict[ModelKind, tuple[str, ...]] = {"gpt2": ("3k", "12k"), "distilbert": ("3k",)}  # where LEAKS, BETWEEN are
LARGEST: dict[ModelKind, tuple[float, ...]] = {"gpt2": (0.5, 3.0, 30.0, 1_000.0)}  # of these on the largest
GRID_KIND: ModelKind = "distilbert"  # of the grid over noise, epochs and batch: its figure is the F1 of entities
GRID = (  # σ, epochs, batch: one of them varies around the first, or the batch and σ in proportion to its root
    (1.0, 8, 256),
    *((sigma, 8, 256) for sigma in (0.5, 0.7, 1.4, 2.0)),
    *((1.0, epochs, 256) for epochs in (2, 4, 16)),
    *((1.0, 8, batch) for batch in (64, 1_024)),
    *((math.sqrt(batch / 256), 8, batch) for batch in (64, 128, 512, 1_024)),
)
DEFENCES = "12k-gpt2-defences"
ORDER = (  # parts by importance; those not named here come last, controls after everything else
    *("12k-gpt2", "3k-gpt2", "48k-gpt2", "48k-distilbert", "12k-distilbert", DEFENCES),
    *("3k-gpt2-leaks", "3k-distilbert", "3k-distilbert-grid", "12k-gpt2-leaks"),
    *("3k-gpt2-between", "12k-gpt2-between", "3k-distilbert-leaks", "48k-gpt2-leaks", "48k-gpt2-between"),
)


State = Literal["there", "figures only", "missing"]  # the second: shipped without its large tables


@dataclass(frozen=True)
class Part:
    """Runs that belong together, for example `48k-gpt2`: those of one hospital and one kind of model."""

    name: str
    specs: tuple[RunSpec, ...]


@dataclass(frozen=True)
class Planned:
    """One run of the plan, its part and its state. `seconds` is an estimate for one that is to be trained, else 0."""

    part: str
    spec: RunSpec
    state: State
    seconds: float


def spec_of(size: str, kind: ModelKind, epsilon: float | None, seed: int) -> RunSpec:
    """One run of the sweep: a hospital of SIZES, the shipped base model, and the recipe for ε and number of notes."""
    corpus, privacy = CORPUS_PRESETS[SIZES[size]], PrivacySpec(target_epsilon=epsilon)
    return RunSpec(
        corpus=corpus,
        model=ModelSpec(kind=kind),
        privacy=privacy,
        training=recipe_of(kind, privacy, corpus, seed=seed),
        audit=audit_of(corpus),
    )


def grid_spec(sigma: float, epochs: int, batch: int, seed: int) -> RunSpec:
    """One run of the grid over noise, epochs and batch size, on the smallest hospital."""
    corpus, privacy = CORPUS_PRESETS[SIZES["3k"]], PrivacySpec(noise_multiplier=sigma)
    usual = recipe_of(GRID_KIND, privacy, corpus, seed=seed)
    rate = float(f"{rate_for(GRID_KIND, sigma / batch):.2g}")
    varied = {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "masks": None}
    return RunSpec(
        corpus=corpus,
        model=ModelSpec(kind=GRID_KIND),
        privacy=privacy,
        training=usual.model_copy(update=varied),
        audit=audit_of(corpus),
    )


def defended_specs(seed: int) -> list[RunSpec]:
    """The runs that page Defences compares: GPT-2 on the hospital that the pages open with."""
    corpus = CORPUS_PRESETS[OPENING]
    sweep = Sweep(corpus, ModelSpec(kind="gpt2"), audit_of(corpus), PrivacySpec(), None, None, ())
    seeded = {"seed": seed}
    specs = [defence.spec for defence in lineup(sweep)]
    return [spec.model_copy(update={"training": spec.training.model_copy(update=seeded)}) for spec in specs]


def reference_spec(size: str, kind: ModelKind) -> RunSpec:
    """The base model shipped before `clinical`, on a hospital of SIZES: the bench counts every gain from it."""
    corpus, model = CORPUS_PRESETS[SIZES[size]], ModelSpec(kind=kind, base=ABSTRACTS)
    return RunSpec(corpus=corpus, model=model, training=TrainingSpec(epochs=0), audit=audit_of(corpus))


def parts(seeds: Sequence[int] = SEEDS) -> list[Part]:
    """The plan for these seeds, most important part first; within a part seed by seed. No run is in two parts.

    The first part of a hospital and model has its base models, its runs that are compared most, and for each of the
    private ones among them the same training without noise. Runs with the same recipe share that control. Controls
    without noise, further ε, defences and the grid have the first of `SEEDS` alone, whichever seeds are asked for.
    """
    found: dict[str, list[RunSpec]] = {}
    for size in SIZES:
        for kind in KINDS:
            for seed in seeds:
                _add(found, size, kind, seed, first=seed == SEEDS[0])
    if SEEDS[0] in seeds:
        found[DEFENCES] = defended_specs(SEEDS[0])
        found[f"{DEFENCES}-controls"] = _controls(found[DEFENCES])
        grid = [grid_spec(*setting, SEEDS[0]) for setting in GRID]
        found[f"3k-{GRID_KIND}-grid"], found[f"3k-{GRID_KIND}-grid-controls"] = grid, _controls(grid)
    names = sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), "controls" in name))
    seen: set[str] = set()
    made = []
    for name in names:
        new = {spec.run_id: spec for spec in found[name] if spec.run_id not in seen}
        seen |= new.keys()
        if new:
            made.append(Part(name, tuple(new.values())))
    return made


def _add(found: dict[str, list[RunSpec]], size: str, kind: ModelKind, seed: int, *, first: bool) -> None:
    """Put the runs of one hospital, model and seed into their parts."""
    main, name = MAIN[kind], f"{size}-{kind}"
    trained = [spec_of(size, kind, epsilon, seed) for epsilon in main]
    made = found.setdefault(name, [])
    made += [trained[0].base_spec(), reference_spec(size, kind), *trained]
    if not first:
        return
    made += _controls(trained)
    for ending, epsilons in _further(size, kind).items():
        more = [spec_of(size, kind, epsilon, seed) for epsilon in epsilons]
        found.setdefault(name + ending, []).extend(more)
        found.setdefault(f"{name}-controls", []).extend(_controls(more))


def _further(size: str, kind: ModelKind) -> dict[str, tuple[float, ...]]:
    """What a hospital and a model have beyond MAIN, by the ending of the part's name."""
    measured = LARGEST.get(kind, ()) if size == "48k" else (*LEAKS, *BETWEEN) if size in FURTHER[kind] else ()
    further = [epsilon for epsilon in measured if epsilon not in MAIN[kind]]
    return {
        "-leaks": tuple(epsilon for epsilon in further if epsilon in LEAKS),
        "-between": tuple(epsilon for epsilon in further if epsilon in BETWEEN),
    }


def _controls(specs: Sequence[RunSpec]) -> list[RunSpec]:
    return [spec.clipped_spec() for spec in specs if spec.privacy.private]


def planned(workspace: Workspace, chosen: Sequence[Part], *, again: bool = False) -> list[Planned]:
    """Every run of these parts with its state, in the order of training: first of all parts by seed, then by part.

    So the first seed is a whole sweep before the second one begins. With `again`, runs that are shipped with figures
    only are to be trained, too: that gives them the tables that were left out.
    """
    runs = [(part.name, spec) for part in chosen for spec in part.specs]
    runs.sort(key=lambda one: one[1].training.seed)  # stable: parts stay in order
    found = []
    for name, spec in runs:
        state = state_of(workspace, spec)
        needed = state == "missing" or (again and state == "figures only")
        found.append(Planned(name, spec, state, estimated_seconds(spec) if needed else 0.0))
    return found


def state_of(workspace: Workspace, spec: RunSpec) -> State:
    """Whether a run of this spec is in the workspace or among the runs that it shares."""
    run = workspace.find(spec)
    if run is None:
        return "missing"
    return "figures only" if run.made_again else "there"


def estimated_seconds(spec: RunSpec) -> float:
    """About how long training and quick audit take on one core."""
    return whole(on_one_core(spec))


def training_seconds(spec: RunSpec) -> float:
    """About how long training alone takes on one core."""
    return of_training(on_one_core(spec))
