"""The sentences of the page Inside a step."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from core.evaluation.wording import percent_up
from core.runs.run import Run
from core.spec import Unit

if TYPE_CHECKING:
    from core.training.step_gradients import ClippedSum, StepGradients

_HOW = """
**The gradients** are those of the run's first step, at the public model's weights, of the {units} that its seed
samples. {each} Only their inner products *K* are kept.
Everything here follows exactly from them: lengths √*Kᵢᵢ*, and the clipped sum's length √(*cᵀKc*) with factors
*cᵢ* = min(1, *C*/length).

**The plane** shows the two principal directions of the gradients (principal components, without centring). Noise falls
on both with standard deviation σ*C*, as on every other direction.

**The two bells** are exact: along the chosen gradient's own direction, the noisy sum with it and without it are two
normal distributions, at most *C* apart and σ*C* wide. Someone who knows everything else and guesses from where the
sum lies is right with probability Φ(distance / 2σ*C*), if in and out were equally likely before. A run has many such
steps, and each samples only a part of the {units}: ε counts both together. The ε trade-off page shows the result.

A step divides the noisy sum by the expected number of {units}, and Adam scales it: neither changes what is hidden.
"""


def how(unit: Unit) -> str:
    """How the page's figures are computed for a run that protects this unit."""
    each = "Each is of the note's mean loss over its tokens."
    if unit == "patient":
        each = "Each is the sum over the patient's notes, of each note's mean loss over its tokens."
    return _HOW.format(units=f"{unit}s", each=each)


def summed(step: StepGradients, total: ClippedSum, norm: float, sigma: float, units: int, unit: str) -> str:
    """How many gradients were clipped, how long their sum is, and how long the noise."""
    clipped = f"**{total.clipped:,} of {units:,}** gradients are cut to the length C = {norm:.3g}."
    length = f"Their sum is **{total.length:.3g}** long."
    if not sigma:
        return f"{clipped} {length} Without noise, every {unit} leaves its mark."
    along = total.length / (sigma * norm)
    everywhere = sigma * norm * math.sqrt(step.parameters)
    return (
        f"{clipped} {length} Noise adds σC = **{sigma * norm:.3g}** in every direction. In its own direction, the sum "
        f"is {along:.3g} times as long as σC; over all {step.parameters:,} directions together, the noise has a length "
        f"of about {everywhere:,.{0 if everywhere > 99 else 1}f}."
    )


def hidden(moved: float, norm: float, sigma: float, unit: str) -> str:
    """What one unit changes, and how well it can be guessed from this step's sum."""
    change = f"This {unit} moves the sum by **{moved:.3g}**, and no {unit} by more than C = {norm:.3g}."
    if not sigma:
        return f"{change} Without noise, the sum shows whether the {unit} was in it: **100 of 100** guesses are right."
    right = min(NormalDist().cdf(moved / (2 * sigma * norm)), math.nextafter(1, 0))  # never certain, with any noise
    return (
        f"{change} From the noisy sum of this step alone, and knowing every other {unit}, a guess whether it was in is "
        f"right with a chance of at most **{percent_up(right)}** (tossing a coin: 50\u00a0%)."
    )


def whose(step: StepGradients, run: Run) -> str:
    """Which units these are, what the run lacks, and that Home shows another where it keeps no weights."""
    unit = run.spec.privacy.unit
    part = (
        f"{len(step):,} of the {step.sampled:,} {unit}s"
        if len(step) < step.sampled
        else f"The {step.sampled:,} {unit}s"
        if step.sampled > 1
        else f"{'One' if run.spec.secret_noise else 'The only'} {unit}"
    )
    drawn = "of a sample drawn as in a step of this run (its own samples are secret)"
    own = drawn if run.spec.secret_noise else "of step 1"
    other = " “Figures only”: this run's texts and scores were left out." if run.figures_only else ""
    if not run.has_model:
        other += " Its weights are not kept, so a model with a similar name on Home is from another run."
    order = f", in the order of the {unit}s" if len(step) > 1 else ""
    return f"{part} {own}{order}. Each step draws a new sample.{other}"
