"""What it costs to release the best of several runs instead of one that was fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from core.common.formatting import promised_text
from core.common.refusals import out_of_range
from core.runs.listing import OfRuns
from core.runs.run import Run, RunBroken
from pages.parts.common.query_params import KEEP
from pages.parts.pickers import run_picker
from pages.parts.session import resources

SHAPES = {"logarithmic": 0.0, "geometric": 1.0}  # η of the number of trainings
CONDITIONS = (
    "This holds if the number of runs is drawn from this distribution beforehand and kept secret, each run draws its "
    "settings at random and none has a weaker guarantee than this one, only the best is released, and the score by "
    "which it is chosen reads no protected notes (Papernot & Steinke 2022). Like every ε, it needs secret noise. To "
    "count a choice, enter it with the release, in the form above. For a fixed number or list of runs, enter each of "
    "them in the ledger: they compose."
)


@resources.cached_data(max_entries=100, show_spinner=False)
def costs(mechanism: str, trainings: float, shape: float) -> tuple[float, float, float]:
    """ε of one training (a mechanism as JSON), of the best of several, and of releasing as many; at its own δ."""
    from core.training.accounting.choosing import chosen_epsilon
    from core.training.accounting.mechanism import Mechanism

    one = Mechanism.from_json(mechanism)
    several = one.model_copy(update={"steps": one.steps * math.ceil(trainings)})
    return one.epsilon(), chosen_epsilon(one, trainings, shape=shape), several.epsilon()


def show(runs: Sequence[Run]) -> None:
    """The fold with its controls; nothing without a private run."""
    private = _promising(runs)
    if not private:
        return
    with st.expander("What does it cost to choose the best of several runs?"):
        left, middle, right = st.columns(3)
        with left:
            run = run_picker.pick("One run", private, None, key="chosen_run")
        # No range here: the browser would keep a number outside it back, and compute with the one before.
        trainings = middle.number_input("Expected runs", value=10.0, step=1.0, key="trainings", **KEEP)
        shape = right.segmented_control(
            "Number drawn as", list(SHAPES), default="logarithmic", required=True, key="shape", **KEEP
        )
        assert run.privacy is not None  # a private run
        pressed = st.button("Compute the cost of choosing", icon=":material/calculate:")
        if wrong := out_of_range("Expected runs", float(trainings), 1.0, 1e4):
            st.error(f"{wrong}.", icon=":material/error:")
        elif pressed:
            one, best, together = costs(run.privacy.to_json(), float(trainings), SHAPES[shape])
            released = math.ceil(trainings)
            st.markdown(
                f"One run: {_text(one)}. **The best of {trainings:g} runs on average: {_text(best)}.** "
                f"All {released:,} released together: {_text(together)}."
            )
        st.caption(CONDITIONS)


def _promises(run: Run) -> bool:
    """Whether the run has a mechanism that can be read, of the training alone, for adding or removing one unit."""
    try:
        mechanism = run.privacy
    except RunBroken:
        return False
    return mechanism is not None and mechanism.vocabulary is None and not mechanism.replaces


_promising = OfRuns(lambda runs: [run for run in runs if _promises(run)])  # a file for each run is read


def _text(epsilon: float) -> str:
    return "no guarantee" if math.isinf(epsilon) else f"ε = {promised_text(epsilon)}"
