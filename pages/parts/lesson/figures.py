"""What the lesson's answers are computed from: the sweep with most runs, and its figures over ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from core.evaluation import wording
from core.evaluation.sweep import beside
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.phi.fields import DIRECT
from core.runs.run import Run
from pages.parts.common.public_noise import public_noise
from pages.parts.pickers import run_picker
from pages.parts.session import owner, resources
from pages.parts.tradeoff.models import curve_points

if TYPE_CHECKING:
    from core.evaluation.membership.strongest_attack import Strongest

NAMES, PERPLEXITY, AUC, ATTEMPTS = "full_name_patients", "perplexity_heldout", "auc_loss", "attempts_with_leak"


@dataclass(frozen=True)
class Value:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Figures:
    """A sweep's figures, means over seeds (`core.evaluation.sweep.tradeoff.points`), and the two runs that links open.

    `run_ids` has, for every measured ε, the run whose report a link opens.
    """

    sweep: Sweep
    curves: pd.DataFrame
    plain: Run
    private: Run
    run_ids: dict[float, str]
    members: tuple[Run, ...]  # all runs of the sweep, none of its controls

    @cached_property
    def _values(self) -> dict[tuple[str, str, float], Value]:
        rows = self.curves
        keys = zip(rows["metric"], rows["arm"], rows["epsilon"], strict=True)
        return dict(zip(keys, map(Value, rows["value"], rows["low"], rows["high"]), strict=True))

    @cached_property
    def epsilons(self) -> list[float]:
        """Every measured finite ε, the smallest first."""
        return sorted(epsilon for epsilon in set(self.curves["epsilon"]) if math.isfinite(epsilon))

    @property
    def unit(self) -> str:
        """What ε protects: `note` or `patient`."""
        return self.sweep.privacy.unit

    @property
    def shown_epsilon(self) -> float:
        """ε of the private run that the links open."""
        epsilon = self.private.spec.privacy.target_epsilon
        assert epsilon is not None  # the private runs of a family have one
        return epsilon

    def at(self, metric: str, arm: str = "run", epsilon: float = math.inf) -> Value | None:
        """A measured figure; None if no run has it."""
        return self._values.get((metric, arm, epsilon))

    def measured(self, metric: str, arm: str = "run", epsilon: float = math.inf) -> Value:
        """A figure that every run has."""
        found = self.at(metric, arm, epsilon)
        assert found is not None  # `figures` takes a family that has it
        return found

    def seeds(self, epsilon: float = math.inf) -> int:
        """The number of runs behind a figure."""
        return int(self.curves.loc[self.curves["epsilon"] == epsilon, "seeds"].max())

    def noiseless(self, metric: str, epsilon: float) -> tuple[Value, int] | None:
        """A figure of the same training without noise as the private runs of this ε, and its seeds; None if not run."""
        controls = beside.noiseless(self.runs_at(epsilon), owner.workspace().runs())
        found = _noiseless(str(owner.workspace().root), tuple(run.id for run in controls))
        rows = found[(found["metric"] == metric) & (found["arm"] == "run")]
        return None if rows.empty else (Value(*rows.iloc[0][["value", "low", "high"]]), len(controls))

    def strongest(self, epsilon: float = math.inf) -> Strongest | None:
        """The strongest attack per patient on a run of this ε, on one with a full audit if there is one."""
        workspace, runs = owner.workspace(), self.runs_at(epsilon)
        if not runs:
            return None
        audits = {run.id: workspace.audit(run.id).outcomes() for run in runs}
        chosen = max(runs, key=lambda run: bool(audits[run.id]))  # the first one with a full audit
        ended = tuple(one.finished for one in audits[chosen.id].values())
        return _strongest(str(workspace.root), chosen.id, ended)

    def public_noise(self, epsilon: float) -> bool:
        """Whether a run of this ε has noise from a public seed, so that its ε is shown and not promised."""
        return public_noise(self.runs_at(epsilon))

    def runs_at(self, epsilon: float) -> list[Run]:
        """The sweep's runs of this ε (∞: without privacy), from the one that links open on."""
        target = None if math.isinf(epsilon) else epsilon
        return [run for run in self.members if run.spec.privacy.target_epsilon == target]

    def counted(self, metric: str, arm: str = "run") -> int:
        """The denominator (patients or texts) of a figure of the run without privacy."""
        rows = run_picker.metrics(self.plain)
        return int(rows.loc[(rows["metric"] == metric) & (rows["arm"] == arm), "n"].iloc[0])

    def exceeds(self, metric: str, epsilon: float = math.inf) -> bool | None:
        """Whether the figure exceeds that of held-out patients; None if an interval is missing."""
        now, control = self.at(metric, "run", epsilon), self.at(metric, "heldout", epsilon)
        if now is None or control is None:
            return None
        try:
            found = wording.verdict(now.low, now.high, control.low, control.high)
        except ValueError:
            return None
        return found == "exceeds its control"

    @cached_property
    def harmless(self) -> list[float]:
        """Every measured ε, smallest first, as long as full names do not exceed their control (`exceeds`)."""
        found: list[float] = []
        for epsilon in self.epsilons:
            if self.exceeds(NAMES, epsilon) is not False:
                break
            found.append(epsilon)
        return found

    @cached_property
    def coincidental_field(self) -> str:
        """The direct field, other than the name, that the model wrote for most held-out patients."""

        def control(name: str) -> float:
            found = self.at(f"field_patients:{name}", "heldout")
            return found.value if found else -1.0

        return max((name for name in DIRECT if name != "full_name"), key=control)


def figures() -> Figures | None:
    """The figures of this server's runs; None if there is no comparable pair of runs with and without privacy.

    Runs on uploaded notes are left out: only their owner may see them, and a whole class gets the same question.
    """
    runs = {run.id: run for run in owner.workspace().runs() if not run.spec.corpus.imported}
    for sweep in sweeps_of(list(runs.values())):
        members = [run for run_id in sweep.run_ids if not beside.is_noiseless(run := runs[run_id])]
        members.sort(key=lambda run: (not run.has_model, run.figures_only, run.spec.training.seed, run.id))
        if sweep.training is None or sweep.plain_training is None:
            continue
        plain, private = run_picker.default_pair(members)
        curves = curve_points([run.id for run in members])
        if plain is not None and private is not None and {NAMES, PERPLEXITY, AUC} <= set(curves["metric"]):
            return Figures(sweep, curves, plain, private, _to_open([plain, private, *members]), tuple(members))
    return None


@resources.cached_data(max_entries=50, show_spinner=False)
def _strongest(root: str, run_id: str, ended: tuple[float, ...]) -> Strongest | None:
    """The strongest attack; `ended` makes the cache read it again when another audit of the run has ended."""
    from core.evaluation.membership.of_run import strongest_on

    workspace = owner.workspace()
    return strongest_on(workspace.run(run_id), workspace.audit(run_id))


def _to_open(runs: Sequence[Run]) -> dict[float, str]:
    """The first run of each ε."""
    found: dict[float, str] = {}
    for run in runs:
        epsilon = run.spec.privacy.target_epsilon if run.spec.privacy.private else math.inf
        if epsilon is not None:
            found.setdefault(epsilon, run.id)
    return found


@resources.cached_data(max_entries=20, show_spinner=False)
def _noiseless(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    """The figures of these controls, means over their seeds."""
    from core.runs import queries

    return beside.beside(
        queries.metrics(owner.workspace(), frozenset(run_ids)), {beside.NOISELESS: run_ids} if run_ids else {}
    )
