"""The first sweep of the shipped demonstration, and that every run of it is shipped."""

from __future__ import annotations

import types

import core.demo.export as export_module
from core import demo
from core.demo.plan import defended_specs
from core.evaluation.defences.side_by_side import lineup
from core.evaluation.sweep.sweeps import Sweep
from core.runs.store import DEMO
from core.spec import DefenceSpec, ModelKind, RunSpec

KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")
EPSILONS = (None, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0)


def first_specs() -> list[RunSpec]:
    """The whole sweep of version 0.1."""
    return [demo.demo_spec(kind, epsilon, seed) for seed in demo.SEEDS for kind in KINDS for epsilon in EPSILONS]


def first_defended_specs() -> list[RunSpec]:
    """Its runs that Defences compares: GPT-2 at the first seed, on changed notes and per patient."""
    plain, private = (demo.demo_spec("gpt2", epsilon, demo.SEEDS[0]) for epsilon in (None, 8.0))
    by_patient = private.privacy.model_copy(update={"unit": "patient"})
    return [
        plain.model_copy(update={"defence": DefenceSpec(deduplicate=True)}),
        plain.model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)}),
        private.model_copy(update={"privacy": by_patient}),
    ]


def test_nothing_of_the_package_hides_the_module_that_exports() -> None:
    """A function `core.demo.export` replaced the shipped folder by the first sweep alone."""
    assert isinstance(export_module, types.ModuleType) and export_module is demo.export
    shipped = {folder.name for folder in (DEMO / "runs").iterdir()}
    first = {spec.run_id for spec in [*first_specs(), *first_defended_specs()]}
    assert first < shipped


def test_the_demonstration_is_the_sweep_that_the_trade_off_is_judged_on() -> None:
    specs = first_specs()
    assert len({spec.run_id for spec in specs}) == len(specs) == 2 * 7 * 3
    assert {spec.privacy.target_epsilon for spec in specs} == {None, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0}


def test_the_defences_open_with_every_row_measured() -> None:
    """The line-up of the page is made of runs that are shipped."""
    plain, private = demo.demo_spec("gpt2", None, 0), demo.demo_spec("gpt2", 8.0, 0)
    family = Sweep(
        plain.corpus,
        plain.model,
        plain.audit,
        private.privacy.model_copy(update={"target_epsilon": None}),
        private.training,
        plain.training,
        (),
        usual=1,  # the recipe of version 0.1, which does not ask for the number of notes
    )
    shipped = {spec.run_id for spec in [*first_specs(), *first_defended_specs()]}
    assert {defence.spec.run_id for defence in lineup(family)} <= shipped


def test_every_defence_is_shipped_for_the_hospital_that_the_pages_open_with() -> None:
    shipped = {folder.name for folder in (DEMO / "runs").iterdir()}
    assert {spec.run_id for spec in defended_specs(0)} <= shipped
