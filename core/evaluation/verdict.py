"""The verdict on a finished run: whose full names its audit found, beside the runs it is compared with.

Everything is read from metrics tables. `counterparts` chooses the runs: same cohort, model and audit, other privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from core.attacks.prompts import PROMPTS
from core.common.formatting import promised_text
from core.evaluation import wording
from core.evaluation.memorisation.left_out import counts_own_values
from core.evaluation.wording import NBSP, percent
from core.runs.run import Run
from core.spec import RunSpec

NAMED, IDENTIFIED = "full_name_patients", "direct_patients"
USUAL_EPSILON = 8.0  # of the private counterpart, if there are several
Role = Literal["private", "plain", "noiseless"]
# In the order of a comparison: from the least to the most that a model can learn.
ROLES: tuple[Role, ...] = ("private", "noiseless", "plain")


@dataclass(frozen=True)
class Count:
    """`named` of `patients` were named in full; `low` and `high` are the share's 95 % interval (Wilson 1927)."""

    named: int
    patients: int
    low: float
    high: float

    def text(self) -> str:
        """`5 of 17`, `none of 17`."""
        return f"{self.named:,} of {self.patients:,}" if self.named else f"none of {self.patients:,}"

    def interval(self) -> str:
        """`95 % interval 13 % to 53 %`."""
        return f"95{NBSP}% interval {percent(self.low)} to {percent(self.high)}"


@dataclass(frozen=True)
class Found:
    """What the quick audit of one run found: patients of the training data, and the control.

    Of imported notes only patients with a known name of their own count (`core.evaluation.summary.pools`).
    """

    run: Count
    control: Count | None  # held-out patients: the model never saw their notes
    texts: int
    imported: bool = False
    identified: Count | None = None  # patients of whom a direct identifier of any kind was written
    identified_control: Count | None = None
    own_values: bool = False  # whether values that several patients have do not count (`counts_own_values`)

    @property
    def whose(self) -> str:
        """Which patients are counted, as the end of a noun phrase; empty for all of them."""
        return " whose name is known" if self.imported else ""


def found(metrics: pd.DataFrame, spec: RunSpec) -> Found | None:
    """The verdict's figures of a run; None if its metrics lack them."""
    named, control = _counts(metrics, NAMED)
    if named is None:
        return None
    texts = len(PROMPTS) * spec.audit.samples_per_prompt
    imported = spec.corpus.imported is not None
    return Found(named, control, texts, imported, *_counts(metrics, IDENTIFIED), counts_own_values(metrics))


def _counts(metrics: pd.DataFrame, metric: str) -> tuple[Count | None, Count | None]:
    """Of training patients and of held-out ones; None for a side without the figure."""
    rows = metrics[(metrics["metric"] == metric) & metrics["value"].notna()].set_index("arm")
    own, control = (_count(rows.loc[arm]) if arm in rows.index else None for arm in ("run", "heldout"))
    return own, control


def _count(row: pd.Series) -> Count:
    return Count(round(row["value"] * row["n"]), int(row["n"]), float(row["low"]), float(row["high"]))


def role(spec: RunSpec) -> Role:
    """What a run is in a comparison."""
    if spec.privacy.private:
        return "private"
    return "plain" if spec.training.clip_norm is None else "noiseless"


def counterparts(run: Run, others: Iterable[Run]) -> dict[Role, Run]:
    """For each role that `run` does not have, the run that differs from it least: the same cohort, model and audit.

    Of several private runs the one with ε nearest to 8 is taken, of several others the one with the most similar
    number of epochs; the same training seed comes first. A run without noise is only put beside the private run whose
    control it is (`RunSpec.clipped_spec`): beside another recipe's, the difference would not be that of noise.
    """
    own, mine = run.spec, role(run.spec)
    near = [other for other in others if other.id != run.id and not other.spec.is_base]
    near = [other for other in near if role(other.spec) != mine and _alike(other.spec) == _alike(own)]
    near.sort(key=lambda other: _distance(own, other.spec))
    if mine == "noiseless":
        near = [other for other in near if role(other.spec) == "plain" or _controls(own, other.spec)]
    chosen: dict[Role, Run] = {}
    for wanted in ROLES:
        fitting = [other for other in near if role(other.spec) == wanted]
        private = own if mine == "private" else chosen["private"].spec if "private" in chosen else None
        if wanted == "noiseless" and private is not None:
            fitting = [other for other in fitting if _controls(other.spec, private)]
        if fitting:
            chosen[wanted] = fitting[0]
    return chosen


def _controls(noiseless: RunSpec, private: RunSpec) -> bool:
    """Whether `noiseless` is the training of `private` without its noise; the two are alike (`_alike`)."""
    return private.clipped_id == noiseless.run_id


def _alike(spec: RunSpec) -> tuple[object, ...]:
    return (spec.corpus, spec.model, spec.audit, spec.defence, spec.vocabulary, spec.without)


def _distance(own: RunSpec, spec: RunSpec) -> tuple[float, ...]:
    epsilon = spec.privacy.target_epsilon or math.inf
    away = abs(math.log(epsilon / USUAL_EPSILON)) if spec.privacy.private else 0.0
    return (spec.training.seed != own.training.seed, away, abs(spec.training.epochs - own.training.epochs))


def treatment(of: Run | RunSpec) -> str:
    """`with ε = 8 per note`, `without privacy`, `with clipping but without noise`.

    The ε of a run is the one that it guarantees. Before a run is trained, only its target may be known.
    """
    spec = of if isinstance(of, RunSpec) else of.spec
    if role(spec) == "noiseless":
        return "with clipping but without noise"
    if role(spec) == "plain":
        return "without privacy"
    if spec.privacy.target_epsilon is None:
        return f"with σ = {spec.privacy.noise_multiplier:.3g} per {spec.privacy.unit}"
    if not isinstance(of, RunSpec) and of.epsilon is not None:
        return f"with ε = {promised_text(of.epsilon)} per {spec.privacy.unit}"
    name = "ε" if spec.target_is_guaranteed else "target ε"
    return f"with {name} = {promised_text(spec.privacy.target_epsilon)} per {spec.privacy.unit}"


def verdict(own: Found, of: Run | RunSpec, others: Iterable[tuple[Run | RunSpec, Found]] = ()) -> str:
    """One or two sentences: how many patients leaked in this run, and in its counterparts with as many texts."""
    names = "was named in full" if own.run.named == 1 else "were named in full"
    counted = f"{own.run.text()} training patients{own.whose} {names}"
    if own.run.patients == 1:
        counted = f"the one training patient{own.whose} was {'' if own.run.named else 'not '}named in full"
    said = f"{_begin(treatment(of))}, {counted}."
    more = [f"{treatment(one)}: {what.run.text()} ({what.run.interval()})" for one, what in others]
    return said + (f" {_begin('; '.join(more))}." if more else "")


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]


def identifier_sentence(own: Found) -> str:
    """Of whom a direct identifier of any kind was written, where these are more than those named; else empty.

    A model can write a record number of a patient whom it never names. Names alone would then look like safety.
    """
    found, control = own.identified, own.identified_control
    if found is None or found.named <= own.run.named:
        return ""
    said = (
        "It wrote a direct identifier, such as a name or a record number, of "
        f"{found.text()} training patients ({found.interval()})"
    )
    if control is None:
        return f"{said}."
    judged = _JUDGED[wording.verdict(found.low, found.high, control.low, control.high)]
    return f"{said} and of {control.text()} held-out ones ({control.interval()}). {judged}"


def chance_sentence(own: Found) -> str:
    """The control in a sentence, and what the run's share is beside it."""
    control = own.control
    if control is None:
        return f"There is no control: this cohort has no held-out patients{own.whose}."
    # An earlier version counted names that patients of both groups have. Only imported notes have such names.
    namesakes = " or because a training patient has the same name" if own.imported and not own.own_values else ""
    how = f", by chance{namesakes}" if control.named else ""
    whom = f"{own.whose} and whom it never saw" if own.imported else " whom it never saw"
    counted = f"it named {control.text()} patients{whom}"
    if control.patients == 1:
        counted = f"it {'named' if control.named else 'did not name'} the one patient{whom}"
    told = f"Control: {counted}{how} ({control.interval()})."
    if own.run.named == 0:
        return told
    return f"{told} {_JUDGED[wording.verdict(own.run.low, own.run.high, control.low, control.high)]}"


_JUDGED: dict[wording.Verdict, str] = {
    "exceeds its control": "So it repeats what it was trained on.",
    "cannot be told from its control": "The two intervals overlap, so the difference may be chance.",
    "below its control": "It is a smaller share of training patients than by chance: no sign of memorising.",
}
