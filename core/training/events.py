"""Events that a training run emits, and its result besides the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from core.training.accounting.mechanism import Mechanism


@dataclass(frozen=True)
class StepEvent:
    """One step is done. `loss` is None if the Poisson sample was empty; `epsilon` is None without privacy.

    `epsilon_end` is the ε that the whole training will have spent: its guarantee, also if that is above the target.
    `tokens` and `seconds` count from the start of the run, across interruptions.
    """

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float | None
    epsilon: float | None
    epsilon_end: float | None
    tokens: int
    seconds: float
    eta_seconds: float

    def history_row(self) -> dict[str, Any]:
        """One row of the table `history`; the last step of an epoch later gets its evaluation."""
        kept = asdict(self)
        row = {key: kept[key] for key in ("step", "epoch", "loss", "epsilon", "tokens", "seconds")}
        return row | {"eval_loss": None, "canary_exposure": {}}


@dataclass(frozen=True)
class InStepEvent:
    """Progress within a logical batch: `done` of its `total` examples were read, with mean loss `loss` in nats."""

    step: int
    steps: int
    epoch: int
    epochs: int
    done: int
    total: int
    loss: float


@dataclass(frozen=True)
class EpochEvaluation:
    """What `evaluate` found after an epoch: the loss on held-out notes in nats, and bits of exposure by canary."""

    eval_loss: float | None = None
    canary_exposure: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EpochEvent:
    """One epoch is done. `loss` is the mean over its steps; `eval_loss` and `canary_exposure` are its evaluation's."""

    epoch: int
    step: int
    loss: float | None
    eval_loss: float | None
    epsilon: float | None
    canary_exposure: dict[str, float]


@dataclass(frozen=True)
class TrainingResult:
    """What a run returns besides its weights.

    `history` has one row per step (the columns of the table `history`). `mechanism` records what was spent up to the
    last completed step; it is None without privacy. `stopped` is True if `should_stop` ended the run early. `versions`
    are those that made the steps, in turn (`core.common.versions`): several, if another one resumed the run.
    """

    history: list[dict[str, Any]]
    mechanism: Mechanism | None
    stopped: bool
    versions: list[Mapping[str, str]] = field(default_factory=list)
