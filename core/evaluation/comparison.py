"""What two models that are compared differ in, apart from privacy, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from core.common.formatting import setting_text
from core.runs.run import Run

LOOK = "The ε trade-off page compares both with the same training without noise, where that was run."


def differences(runs: Sequence[Run], *, with_epsilon: bool = False) -> str:
    """How the trainings of a private and an unconstrained run differ apart from noise: of the first two of one model.

    Their recipes differ, so what separates the two models is not privacy alone. A control without noise among the runs
    changes nothing: it has the private run's recipe. Empty if no two runs have the same notes and kind of model. The
    learning rate is named where the two differ in it.
    `with_epsilon` names the private run's ε, where pages speak of several and each has its own recipe.
    """
    bare = [run for run in runs if not run.spec.privacy.private and run.spec.training.clip_norm is None]
    pairs = (
        (private, plain)
        for private in runs
        for plain in bare
        if private.spec.privacy.private and not plain.spec.is_base and _alike(private, plain)
    )
    private, plain = next(pairs, (None, None))
    if private is None or plain is None:
        return ""
    rates = [run.spec.training.learning_rate for run in (private, plain)]
    recipes = [
        trained(run) + ("" if rates[0] == rates[1] else f", learning rate {rate:g}")
        for run, rate in zip((private, plain), rates, strict=True)
    ]
    epsilon = private.spec.privacy.target_epsilon
    if with_epsilon and epsilon is not None:
        return (
            f"The two runs differ in more than noise. With ε = {setting_text(epsilon)}: {recipes[0]}, every "
            f"gradient clipped. Without privacy: {recipes[1]}, nothing clipped."
        )
    return (
        f"The two runs differ in more than noise: with privacy {recipes[0]}, every gradient clipped; "
        f"without privacy {recipes[1]}, nothing clipped."
    )


def _alike(one: Run, other: Run) -> bool:
    return (one.spec.model, one.spec.corpus) == (other.spec.model, other.spec.corpus)


def trained(run: Run) -> str:
    """`4 epochs, batch 256`."""
    training = run.spec.training
    return f"{training.epochs:g} epoch{'' if training.epochs == 1 else 's'}, batch {training.batch_size:,}"
