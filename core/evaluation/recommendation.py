"""Which ε, and which run, for a reader's own limits on risk and usefulness (row P7), from these runs and nothing else.

Row P7 prints an ε for each use case. An ε means nothing by itself: what it buys depends on the cohort, the model and
the training. So here the reader says how much risk is too much and how much usefulness too little, and every run is
held against that. A limit is met when the *worse end* of the 95 % interval meets it: what was not measured well enough
does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.decision import LOSS
from core.evaluation.bootstrap import Interval, patient_bootstrap, patient_weights, percentile_interval
from core.evaluation.extremes import share_interval
from core.evaluation.membership_resampled import Rates
from core.evaluation.membership_units import units
from core.evaluation.statistics import difference
from core.evaluation.tradeoff import points
from core.evaluation.wording import epsilon_text, percent
from core.runs.queries import settings
from core.runs.run import Run

UTILITY = "utility_share"
CAUGHT_AT = 0.10  # false-positive rate of “members caught”
RESAMPLES = 300
MOST_LETTERS = 200  # of a use case


@dataclass(frozen=True)
class Measure:
    """A risk that can be limited: what it is in words, whether it is a share, and what a blind attacker reaches."""

    label: str
    explanation: str
    share: bool = True
    blind: float = 0.0


RISKS: dict[str, Measure] = {
    "auc_loss": Measure(
        "membership AUC", "how often the loss attack tells a member's note from another; 0.5 is a coin", False, 0.5
    ),
    "members_caught": Measure(
        "members caught", "share of members' notes that the loss attack finds when it accuses 10 % of others", True, 0.1
    ),
    "privacy_leakage_loss": Measure("privacy leakage", "members found less others accused, by the loss attack"),
    "full_name_patients_excess": Measure("full names", "patients whose full name it wrote, less the held-out control"),
    "direct_patients_excess": Measure("any identifier", "patients with any identifier written, less the control"),
    "attempts_with_leak_excess": Measure("texts with a leak", "generated texts with a leak, less the control"),
}


@dataclass(frozen=True)
class Limits:
    """What a reader accepts: a highest value for each of some RISKS, and the lowest share of usefulness."""

    risks: Mapping[str, float]
    utility: float
    use_case: str = ""

    def __post_init__(self) -> None:
        if not self.risks:
            raise ValueError("a recommendation needs a limit for at least one risk")
        for name, limit in self.risks.items():
            if name not in RISKS:
                raise ValueError(f"there is no risk “{name}”; there are {', '.join(RISKS)}")
            if not 0 <= limit <= 1:
                raise ValueError(f"the limit of {RISKS[name].label} lies between 0 and 1, and is {limit}")
        if len(self.use_case) > MOST_LETTERS:
            raise ValueError(f"the use case is told in {MOST_LETTERS} letters at most, and has {len(self.use_case):,}")
        if not 0 <= self.utility <= 1:
            raise ValueError(f"the least share of usefulness lies between 0 and 1, and is {self.utility}")


@dataclass(frozen=True)
class Recommendation:
    """`epsilon` is the smallest ε whose runs meet every limit, `run_id` the run to take; None where there is none.

    `table` has a row an ε and measure: epsilon, measure, limit, value, low, high, seeds, met. `runs` the same a run
    (with run_id and seed).
    """

    limits: Limits
    epsilon: float | None
    run_id: str | None
    table: pd.DataFrame
    runs: pd.DataFrame
    sentences: tuple[str, ...]


def measures(runs: Sequence[Run], control: Run | None) -> pd.DataFrame:
    """Everything that can be limited, of runs of one family (`core.evaluation.comparable`) and their public base model.

    Columns: those of `core.runs.queries.settings` needed by `points`, run_id, metric, arm (`run`), value, low, high.
    An excess is a figure less its held-out control (MOVER interval, `core.evaluation.statistics.difference`).
    `utility_share` = (ln pp_base − ln pp) / (ln pp_base − ln pp_plain) on held-out notes, patients resampled, pp_plain
    being the run without privacy of the same seed, else the first one; absent without such a run or `control`.
    """
    about = settings(list(runs)).set_index("run_id")
    runs = [run for run in runs if run.spec.vocabulary is None]  # nats a token of another word list do not compare
    unchanged = [run for run in runs if not run.spec.is_base and run.spec.defence is None]  # read the notes as they are
    plain = {run.spec.training.seed: run for run in unchanged if not run.spec.privacy.private}
    base_losses = None if control is None else _heldout_losses(control)
    plain_losses = {seed: _heldout_losses(run) for seed, run in plain.items()}
    rows = []
    for run in runs:
        found = _risks(run)
        seed = run.spec.training.seed
        if base_losses is not None and plain_losses:
            reference = plain_losses.get(seed, next(iter(plain_losses.values())))
            found[UTILITY] = utility_share(_heldout_losses(run), base_losses, reference)
        for name, interval in found.items():
            rows.append({**about.loc[run.id], "run_id": run.id, "metric": name, "arm": "run", **vars(interval)})
    columns = [*about.columns, "run_id", "metric", "arm", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _risks(run: Run) -> dict[str, Interval]:
    metrics = run.metrics.set_index(["metric", "arm"])

    def at(name: str, arm: str) -> Interval:
        row = metrics.loc[(name, arm)]
        return Interval(float(row["value"]), float(row["low"]), float(row["high"]))

    found = {name: at(name, "run") for name in ("auc_loss", "privacy_leakage_loss") if (name, "run") in metrics.index}
    for name in ("full_name_patients", "direct_patients", "attempts_with_leak"):
        if (name, "run") in metrics.index and (name, "heldout") in metrics.index:
            found[f"{name}_excess"] = difference(at(name, "run"), at(name, "heldout"))
    scores = run.table("scores")
    scores = scores[scores["attack"] == LOSS]
    if scores["split"].isin(["member"]).any() and scores["split"].isin(["heldout"]).any():
        found["members_caught"] = members_caught(scores)
    return found


def members_caught(scores: pd.DataFrame, fpr: float = CAUGHT_AT, resamples: int = RESAMPLES) -> Interval:
    """Share of members' notes above the threshold that accuses at most `fpr` of the held-out ones, patients resampled.

    The threshold is chosen anew in each resample, as in `core.evaluation.membership_curve.curve`.
    """
    judged = units(scores)
    drawn = patient_weights(judged.patient_member, resamples=resamples, seed=0)
    rates = Rates(judged)
    cumulated = rates.cumulated(np.vstack([np.ones(len(judged.patient_member)), drawn]))
    tpr, _ = rates.at(cumulated, rates.threshold_for(cumulated, fpr), strict=False)
    caught = percentile_interval(float(tpr[0]), tpr[1:], judged.smallest_stratum)
    return share_interval(caught, judged.patients[0])


def _heldout_losses(run: Run) -> pd.DataFrame:
    """Index note_id; columns patient_id, nats (the note's whole loss), tokens, of held-out notes."""
    scores = run.table("scores")
    chosen = scores[(scores["attack"] == LOSS) & (scores["split"] == "heldout")].set_index("note_id")
    nats = -chosen["score"] * chosen["tokens"]
    return pd.DataFrame({"patient_id": chosen["patient_id"], "nats": nats, "tokens": chosen["tokens"]})


def utility_share(run: pd.DataFrame, base: pd.DataFrame, plain: pd.DataFrame, resamples: int = RESAMPLES) -> Interval:
    """Share of what training without privacy learns that the run keeps, its interval over held-out patients.

    Each frame: index note_id, columns patient_id, nats, tokens. 0 = the public base model, 1 = without privacy. The
    notes are the same for all three, so they are resampled together. NaN where training without privacy learned
    nothing. Raises ValueError when the frames share no note.
    """
    notes = run.index.intersection(base.index).intersection(plain.index)
    if notes.empty:
        raise ValueError("usefulness is compared on the same held-out notes, and these runs share none")
    nats = np.stack([frame.loc[notes, "nats"].to_numpy(dtype=float) for frame in (run, base, plain)], axis=1)
    tokens = np.stack([frame.loc[notes, "tokens"].to_numpy(dtype=float) for frame in (run, base, plain)], axis=1)

    def statistic(weights: np.ndarray) -> np.ndarray:
        own, public, open_ = ((weights @ nats) / (weights @ tokens)).T
        learned = public - open_
        return np.divide(public - own, learned, out=np.full(len(learned), np.nan), where=learned > 0)

    return patient_bootstrap(statistic, run.loc[notes, "patient_id"].to_numpy(), resamples=resamples)


def costs(runs: Sequence[Run]) -> pd.DataFrame:
    """What each training took, where it is recorded: run_id, epsilon, seed, steps, tokens, seconds."""
    about = settings(list(runs)).set_index("run_id")
    rows = []
    for run in runs:
        history = run.table("history")
        if len(history):
            last = history.iloc[-1]
            row = (run.id, about.loc[run.id, "epsilon"], run.spec.training.seed)
            rows.append((*row, int(last["step"]), int(last["tokens"]), float(last["seconds"])))
    return pd.DataFrame(rows, columns=["run_id", "epsilon", "seed", "steps", "tokens", "seconds"])


def recommend(found: pd.DataFrame, limits: Limits) -> Recommendation:
    """The smallest ε that meets every limit, and the run of it to take (the most useful of those that do).

    `found` as `measures` gives it. Without any, `epsilon` is None and the sentences say what fails.
    """
    wanted = {**limits.risks, UTILITY: limits.utility}
    per_epsilon = points(found[found["metric"].isin(wanted)]).rename(columns={"metric": "measure"})
    table = _judged(per_epsilon, wanted)[["epsilon", "measure", "limit", "value", "low", "high", "seeds", "met"]]
    single = found[found["metric"].isin(wanted) & (found["epsilon"] > 0)].rename(columns={"metric": "measure"})
    runs = _judged(single, wanted)[["run_id", "epsilon", "seed", "measure", "limit", "value", "low", "high", "met"]]
    passing = sorted(epsilon for epsilon, rows in table.groupby("epsilon") if _all_met(rows, wanted))
    if not passing:
        return Recommendation(limits, None, None, table, runs, tuple(_none_sentences(table, limits)))
    epsilon = passing[0]
    run_id = _best_run(runs[runs["epsilon"] == epsilon], wanted)
    return Recommendation(limits, epsilon, run_id, table, runs, tuple(_sentences(table, epsilon, run_id)))


def _judged(rows: pd.DataFrame, wanted: Mapping[str, float]) -> pd.DataFrame:
    """The rows with their limit and whether the worse end of the interval meets it; without an interval it does not."""
    rows = rows.astype({"value": float, "low": float, "high": float})
    limit = rows["measure"].map(wanted).astype(float)
    met = np.where(rows["measure"] == UTILITY, rows["low"] >= limit, rows["high"] <= limit)
    order = {name: place for place, name in enumerate(wanted)}
    judged = rows.assign(limit=limit, met=met.astype(bool), order=rows["measure"].map(order))
    return judged.sort_values(["epsilon", "order"], kind="stable").reset_index(drop=True)


def _all_met(rows: pd.DataFrame, wanted: Mapping[str, float]) -> bool:
    return set(rows["measure"]) == set(wanted) and bool(rows["met"].all())


def _best_run(runs: pd.DataFrame, wanted: Mapping[str, float]) -> str | None:
    fit = [run_id for run_id, rows in runs.groupby("run_id") if _all_met(rows, wanted)]
    usefulness = runs[(runs["measure"] == UTILITY) & runs["run_id"].isin(fit)]
    return None if usefulness.empty else str(usefulness.loc[usefulness["low"].idxmax(), "run_id"])


def measure_text(name: str, value: float) -> str:
    """A measure's value as it is written: shares in percent, an AUC with two digits, `?` where there is none."""
    if math.isnan(value):
        return "?"
    if name == "auc_loss":
        return f"{value:.2f}"
    return percent(value) if value >= 0 else f"−{percent(-value)}"


def measure_name(name: str) -> str:
    """A measure in words."""
    return "usefulness kept" if name == UTILITY else RISKS[name].label


def _told(row) -> str:
    text = [measure_text(row.measure, end) for end in (row.value, row.low, row.high)]
    sign = "at least" if row.measure == UTILITY else "at most"
    return (
        f"{measure_name(row.measure)} {text[0]} ({text[1]} to {text[2]}; {sign} {measure_text(row.measure, row.limit)})"
    )


def _sentences(table: pd.DataFrame, epsilon: float, run_id: str | None) -> list[str]:
    rows = table[table["epsilon"] == epsilon]
    told = "; ".join(_told(row) for row in rows.itertuples())
    if math.isinf(epsilon):
        sentences = [
            f"Only training without privacy meets your limits: {told}. It promises nothing: the limits hold against "
            "the attacks that were tried, and against no other."
        ]
    else:
        sentences = [f"The smallest ε that meets your limits here is {epsilon_text(epsilon)}: {told}."]
    if run_id is None:
        return [*sentences, "No single run of it meets them all by its own interval: train more seeds."]
    return [*sentences, f"Take the run {run_id}, the most useful of those that meet every limit by themselves."]


def _none_sentences(table: pd.DataFrame, limits: Limits) -> list[str]:
    if table.empty:
        return ["None of these runs has the figures that your limits speak of."]
    sentences = ["None of these runs meets both your limits for risk and for usefulness."]
    if UTILITY not in set(table["measure"]):
        return [*sentences, "Usefulness needs a run without privacy and the public base model to be compared with."]
    safe = {epsilon for epsilon, rows in table[table["measure"] != UTILITY].groupby("epsilon")
            if set(rows["measure"]) == set(limits.risks) and rows["met"].all()}  # fmt: skip
    useful = set(table.loc[(table["measure"] == UTILITY) & table["met"], "epsilon"])
    if safe:
        best = table[(table["measure"] == UTILITY) & table["epsilon"].isin(safe)].sort_values("low").iloc[-1]
        kept = measure_text(UTILITY, best["low"])
        sentences.append(
            f"Safe enough: ε = {_list(safe)}; the most useful of them, {epsilon_text(best['epsilon'])}, keeps {kept} "
            "by the worse end of its interval."
        )
    else:
        sentences.append("No ε here meets the limits for risk.")
    sentences.append(f"Useful enough: ε = {_list(useful)}." if useful else "No ε here is useful enough.")
    return sentences


def _list(epsilons: set[float]) -> str:
    return ", ".join(epsilon_text(epsilon) for epsilon in sorted(epsilons))
