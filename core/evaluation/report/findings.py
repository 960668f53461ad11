"""Findings of a report in sentences: about each run, about earlier releases, and about the reader's limits.

The types of these and of all other facts of a report are here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NotRequired, TypedDict

import pandas as pd

from core.common.formatting import delta_text, promised_text
from core.corpus.tables import Corpus
from core.evaluation.comparison import differences
from core.evaluation.figures.limited import UTILITY
from core.evaluation.guarantee.audit_guarantee import by_curve, headline_bound
from core.evaluation.guarantee.odds import group_sentence, mechanism_sentence
from core.evaluation.guarantee.step_audit import PLANTED_COLUMNS, chosen_proof
from core.evaluation.membership.strongest_attack import Strongest, strongest_sentence
from core.evaluation.registry import figure_text
from core.evaluation.report.glance import LEAK, ONE_TRAINING
from core.evaluation.report.identity import Cohort, Identity
from core.evaluation.report.label import Label
from core.evaluation.report.tables import ENDS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.recommendation import Recommendation
from core.evaluation.wording import (
    audit_sentence,
    curve_sentence,
    interval_text,
    leak_sentence,
    odds_sentence,
    planted_sentence,
)
from core.runs.facts import RunFacts
from core.runs.ledger.choice import Choice
from core.runs.ledger.entries import Release, entry_of
from core.runs.ledger.totals import mechanisms_of, promised, together
from core.runs.run import Run
from core.spec import Unit

ACCEPTED_ONLY = (
    "The limits of the decision are compared with the model of the first page. No ε is recommended: for that, limits "
    "for both risk and usefulness are needed."
)
EVERYTHING = "Everything released of this cohort so far promises"
LONGEST = 300  # letters of a sentence of the ledger on the first page


class Verdict(TypedDict):
    """The run that is decided about, and the verdict on it: its key, and the sentence."""

    run: str
    name: str
    verdict: str
    sentence: str


class Finding(TypedDict):
    """A run in a few sentences."""

    run: str
    training: str
    sentences: list[str]


class CurveBound(TypedDict):
    """What a private run's canaries prove about ε by its own trade-off curve: `correct` of `guesses` were right."""

    run: str
    epsilon: float
    ceiling: float
    promised: float
    unit: Unit
    guesses: int
    correct: int
    confidence: float
    alarm: bool
    sentence: str


class Total(TypedDict):
    """What the releases per one unit promise together; no ε without any."""

    releases: int
    epsilon: float | None
    accountant: str
    choices: int


class PromisedFacts(TypedDict):
    """What the ledger of the cohort promises at `delta`, by unit and for both units' releases together."""

    releases: int
    delta: float
    totals: dict[Unit, Total]
    together: list[dict[str, Any]]  # the fields of `core.runs.ledger.totals.Together`
    sentences: list[str]


class RecommendedFacts(TypedDict):
    """The recommendation for a reader's limits; without limits it has sentences alone."""

    use_case: NotRequired[str]
    limits: NotRequired[dict[str, float]]
    epsilon: NotRequired[float | None]
    unit: NotRequired[str | None]
    run: NotRequired[str | None]
    sentences: list[str]


class Facts(TypedDict, total=False):
    """What a report states, by the keys of its JSON (`core.evaluation.report.facts.build`).

    `outline` and `first_page` have a part of it.
    """

    schema: str
    names: dict[str, str]  # by run, as all that follow by run
    cohort: Cohort
    subject: Verdict
    glance: list[dict[str, str]]
    conditions: list[str]
    open: list[str]
    decision: dict[str, Any]  # `core.evaluation.report.decision.Decision`
    accepted_limits: list[str]
    promised: PromisedFacts
    recommendation: RecommendedFacts
    title: str
    made: str
    identity: Identity
    label: Label
    label_picture: dict[str, str]  # of the HTML alone
    deployment_record: dict[str, Any] | None
    verdict: list[Finding]
    bounds_by_curve: list[CurveBound]
    planted_gradients: list[dict[str, Any]]
    rarity: dict[str, list[str]]
    limits: list[str]
    not_attacked: list[str]
    commands: list[str]
    versions: dict[str, str]
    trained_by: dict[str, list[dict[str, str]] | None]
    specs: dict[str, dict[str, Any]]
    crosswalk: list[dict[str, Any]]  # `core.evaluation.report.crosswalk.cells.Framework`


def finding(
    run: Run,
    facts: RunFacts,
    tables: Mapping[str, pd.DataFrame],
    most_notes: int,
    choice: Choice | None = None,
    beside: Sequence[str] = (),
) -> Finding:
    """A run in a few sentences: promise, odds, leaks and their control, membership, what attacks prove about ε.

    `choice`: as the ledger has it; `facts` are then those of the release. `beside` are the sentences of `noise_alone`.
    """
    held = facts.guarantee
    shown = held is not None and held["noise_source"] != "secret"
    opening = "Guarantee if its noise were secret" if shown else "Guarantee"
    sentences = [f"{opening}: {facts.promise[0].lower()}{facts.promise[1:]}"]
    if shown:
        sentences.append("The bounds on guesses that follow hold under the same condition.")
    if held is not None:
        assert run.privacy is not None  # a run with a guarantee is private
        sentences += [
            odds_sentence(held["epsilon"], held["delta"], held["unit"]),
            mechanism_sentence([run.privacy], held["unit"]) if choice is None else ONE_TRAINING,
        ]
        if held["unit"] == "note" and most_notes > 1:
            sentences.append(group_sentence(choice.best_of(run.privacy) if choice else run.privacy, most_notes))
    rate = _leak(run)
    if rate:
        sentences.append(f"Patients for whom it wrote a direct identifier: {rate}")
    for row in tables["strongest"].query("run == @run.id").itertuples():
        found = Strongest(row.attack, Interval(row.value, row.low, row.high), row.attacks, row.patients)
        sentences.append(f"Membership: {strongest_sentence(found)}")
    own = tables["bounds"].query("run == @run.id")
    if len(own) and not run.spec.is_base:
        row = headline_bound(own)
        assert row is not None  # the table has rows
        sentences.append(audit_sentence(float(row["epsilon"]), float(row["promised"]), float(row["ceiling"])))
        sentences += [one["sentence"] for one in bounds_by_curve(own)]
    sentences += [one["sentence"] for one in planted_gradients(tables["planted"].query("run == @run.id"))]
    return {"run": run.id, "training": facts.training, "sentences": [*sentences, *beside]}


def _leak(run: Run) -> str:
    """For how many patients it wrote a direct identifier, with the control; empty if that was not measured."""
    at = run.metrics.set_index(["metric", "arm"])
    if (LEAK, "run") not in at.index or (LEAK, "heldout") not in at.index:
        return ""
    value, low, high = (float(at.loc[(LEAK, "run"), end]) for end in ENDS)
    control, control_low, control_high = (float(at.loc[(LEAK, "heldout"), end]) for end in ENDS)
    return leak_sentence(value, low, high, control, control_low, control_high)


def noise_alone(run: Run, runs: Sequence[Run], control: Run | None) -> list[str]:
    """What a private run and those beside it differ in apart from noise, and what its training leaks without it.

    Args:
        run: a run of the report; of others than private ones nothing is said.
        runs: all of them.
        control: the same training without noise, if it is stored.
    """
    if not run.spec.privacy.private:
        return []
    unlike = differences([run, *(other for other in runs if other.id != run.id)])
    found = [unlike] if unlike else []
    if control is None:
        return found
    parts = []
    at = control.metrics.set_index(["metric", "arm"])
    if ("auc_loss", "run") in at.index:
        value, low, high = (float(at.loc[("auc_loss", "run"), end]) for end in ENDS)
        shown = interval_text(low, high, lambda end: figure_text("auc_loss", end))
        parts.append(f"the loss attack has an AUC by note of {figure_text('auc_loss', value)} ({shown})")
    if rate := _leak(control):
        parts.append(f"patients for whom it wrote a direct identifier: {rate}")
    return [*found, f"The same training without noise: {'; '.join(parts)}"] if parts else found


def bounds_by_curve(bounds: pd.DataFrame) -> list[CurveBound]:
    """What each private run's canaries prove about ε by its own trade-off curve, with the sentence to show."""
    found: list[CurveBound] = []
    for run_id, own in bounds.groupby("run", sort=False):
        row = by_curve(own)
        if row is not None:
            epsilon, trials, promised = float(row["epsilon"]), int(row["trials"]), float(row["promised"])
            found.append(
                {
                    "run": run_id,
                    "epsilon": epsilon,
                    "ceiling": float(row["ceiling"]),
                    "promised": promised,
                    "unit": row["unit"],
                    "guesses": trials,
                    "correct": int(row["correct"]),
                    "confidence": float(row["confidence"]),
                    "alarm": bool(row["alarm"]),
                    "sentence": curve_sentence(epsilon, trials, promised, row["unit"], alarm=bool(row["alarm"])),
                }
            )
    return found


def planted_gradients(planted: pd.DataFrame) -> list[dict[str, Any]]:
    """What an attacker who sees every step proves about each run's ε, with the sentence to show."""
    found = []
    for run_id, own in planted.groupby("run", sort=False):
        row = chosen_proof(own)
        assert row is not None  # a group has rows
        told = {name: row[name] for name in PLANTED_COLUMNS}
        found.append({"run": run_id, **told, "sentence": planted_sentence(row)})
    return found


def promised_facts(releases: Sequence[Release], corpus: Corpus, delta: float) -> PromisedFacts:
    """Totals of the ledger per unit, and for both units' releases together (Jagannatha 2021, §2), with sentences."""
    units: tuple[Unit, ...] = ("note", "patient")
    totals = {unit: promised(releases, unit, delta) for unit in units}
    both = together(releases, totals["note"], totals["patient"], corpus)
    sentences = [one.sentence() for one in both]  # before the parts: a first page has room for few sentences
    for unit, total in totals.items():
        if total.releases or total.reasons:
            told = "∞" if math.isinf(total.epsilon) else promised_text(total.epsilon)
            partly = any(one.unit == unit for one in both)
            what = f"By themselves, without the others, the releases per {unit} promise" if partly else EVERYTHING
            how = total.accounting()
            composed = f" {how[0].upper()}{how[1:]}." if mechanisms_of(releases, unit) and not total.reasons else ""
            sentences.append(f"{what} ε = {told} at δ = {delta_text(delta)} for one {unit}.{composed}")
            sentences += total.reasons
    sentences += [
        f"{_chosen_as(one.name, one.choice)} ε = {promised_text(one.epsilon())} at δ = "
        f"{delta_text(one.mechanism.delta)} per {one.unit} on its own."
        for one in releases
        if one.choice is not None and one.mechanism is not None
    ]
    if not releases:
        sentences = ["No release of this cohort is recorded."]
    return {
        "releases": len(releases),
        "delta": delta,
        "totals": {
            unit: {
                "releases": total.releases,
                "epsilon": total.epsilon if total.releases or total.reasons else None,
                "accountant": total.accountant,
                "choices": total.choices,
            }
            for unit, total in totals.items()
        },
        "together": [asdict(one) for one in both],
        "sentences": list(dict.fromkeys(sentences)),
    }


def released_beside(run: Run, releases: Sequence[Release], sentences: Sequence[str]) -> str:
    """What else was released than a run, and what everything together promises, for the first page.

    `sentences` are those of `promised_facts` on all `releases`. The run itself is not counted.
    """
    entry = entry_of(run, releases)
    if entry is None:
        return " ".join(map(_shortened, sentences[:3]))
    others = len(releases) - 1
    own = f"This model is entry {entry.number} of the ledger"
    if not others:
        return f"Nothing else: {own[0].lower()}{own[1:]}, which has no other."
    counted = "1 other release" if others == 1 else f"{others:,} other releases"
    return " ".join([f"{counted}. {own}; the totals include it.", *map(_shortened, sentences[:2])])


def _shortened(sentence: str) -> str:
    """A sentence that fits the first page: the score of a choice can have a thousand letters."""
    return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1].rstrip()}…"


def _chosen_as(name: str, choice: Choice) -> str:
    """The beginning of the sentence about a run that was the best of several runs."""
    return f"{name} was released as the {choice.text()}: with the choice it has"


def recommended_facts(found: Recommendation | None, *, accepted: bool = False) -> RecommendedFacts:
    """The recommendation for a reader's limits: use case, limits, ε, unit and run, with sentences.

    `accepted`: the board's decision has limits, which are compared with the subject alone.
    """
    if found is None and accepted:
        return {"sentences": [ACCEPTED_ONLY]}
    if found is None:
        return {"sentences": ["No limits for risk and usefulness were given, so nothing is recommended."]}
    meant = [f"For: {found.limits.use_case}"] if found.limits.use_case else []
    return {
        "use_case": found.limits.use_case,
        "limits": {**found.limits.risks, UTILITY: found.limits.utility},
        "epsilon": found.epsilon,
        "unit": found.unit,
        "run": found.run_id,
        "sentences": [*meant, *found.sentences],
    }
