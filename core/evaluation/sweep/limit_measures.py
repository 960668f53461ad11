"""The figures that a reader can limit, for comparable runs: membership, generated text and usefulness; and costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from core.corpus.tables import JUDGED_SPLITS
from core.evaluation import registry
from core.evaluation.figures.limited import UTILITY
from core.evaluation.membership.of_run import stored
from core.evaluation.membership.strongest_attack import MEASURES, interval_of, judged_by, scores_of, strongest_of
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap
from core.evaluation.stats.intervals import difference
from core.runs.audits import StoredAudit
from core.runs.queries import settings
from core.runs.run import Run

RESAMPLES = 300  # behind figures that were not chosen from several
NO_CHOICE = {"attack": "", "attacks": 0, "patients": 0, "few": ""}  # of figures that no attack was chosen for


def measures(runs: Sequence[Run], control: Run | None, audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """All figures that can be limited, for runs of one cohort, model and audit.

    An excess is a figure minus its held-out control (MOVER interval, `core.evaluation.stats.intervals.difference`).
    `utility_share` = (ln pp_base − ln pp) / (ln pp_base − ln pp_plain) on held-out notes, patients resampled. pp_plain
    belongs to the run without privacy of the same seed, else to the first one; without such a run or `control` the
    figure is absent.

    Args:
        runs: the runs.
        control: their public base model.
        audits: the runs' stored full audits by run id; a run without one is judged by the loss attack alone.

    Returns:
        Columns: those of `core.runs.queries.settings`, run_id, metric, arm (`run`), value, low, high, and of the
        strongest attack its name (attack), how many it was chosen from (attacks), how many patients it judged
        (patients) and which attacks judged too few to be bounded (few). `high` is then the highest upper end of all
        others (`Strongest.up_to`).
    """
    about = settings(list(runs)).set_index("run_id")
    runs = [run for run in runs if run.spec.vocabulary is None]  # nats per token do not compare across word lists
    unchanged = [run for run in runs if not (run.spec.is_base or run.spec.on_other_notes)]
    plain = {run.spec.training.seed: run for run in unchanged if not run.spec.privacy.private}
    summed = any(run.figures_only for run in (*runs, *([] if control is None else [control])))
    base_losses = None if control is None else heldout_losses(control, summed)
    plain_losses = {seed: heldout_losses(run, summed) for seed, run in plain.items()}
    rows: list[dict[str, Any]] = []
    for run in runs:
        found = risks_of(run, audits.get(run.id))
        seed = run.spec.training.seed
        if base_losses is not None and plain_losses:
            reference = plain_losses.get(seed, next(iter(plain_losses.values())))
            found[UTILITY] = {**vars(utility_share(heldout_losses(run, summed), base_losses, reference)), **NO_CHOICE}
        for name, told in found.items():
            rows.append({**about.loc[run.id], "run_id": run.id, "metric": name, "arm": "run", **told})
    columns = [*about.columns, "run_id", "metric", "arm", "value", "low", "high", *NO_CHOICE]
    return pd.DataFrame(rows, columns=columns)


def risks_of(run: Run, audit: StoredAudit | None, wanted: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """The risks of one run that can be limited, by key, each with value, low, high and the columns of NO_CHOICE.

    Args:
        run: any run.
        audit: its stored full audit; without one it is judged by the loss attack alone.
        wanted: the keys that are needed, of `registry.limits`; by default all. What was not measured is left out.
    """
    names = registry.limits() if wanted is None else wanted
    found = {name: {**vars(interval), **NO_CHOICE} for name, interval in _risks(run, names)}
    return found | dict(_strongest(run, audit, names))


def _risks(run: Run, wanted: Collection[str]) -> Iterator[tuple[str, Interval]]:
    metrics = run.metrics.set_index(["metric", "arm"])

    def at(name: str, arm: str) -> Interval:
        row = metrics.loc[(name, arm)]
        return Interval.of(row)

    for name in registry.limits():
        if name not in wanted:
            continue
        own, of = (name, "run"), registry.figure(name).excess_of
        if own in metrics.index:
            yield name, at(*own)
        elif of and {(of, "run"), (of, "heldout")} <= set(metrics.index):
            yield name, difference(at(of, "run"), at(of, "heldout"))
    if "members_caught" not in wanted:
        return
    if run.figures_only:
        caught = stored(run, "members_caught", "note")
        if caught is not None:
            yield "members_caught", caught.interval
        return
    scores = scores_of(run, None)
    if set(JUDGED_SPLITS) <= set(scores["split"]):
        yield "members_caught", interval_of(units(scores), "members_caught", resamples=RESAMPLES, seed=0)


def _strongest(run: Run, audit: StoredAudit | None, wanted: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each measure by patient of the strongest attack of the full audit, else of the quick audit's loss attack."""
    needed = [measure for measure in MEASURES if f"{measure}_strongest" in wanted]
    judged = {} if run.figures_only or not needed else judged_by(scores_of(run, audit))  # once for all measures
    for measure in needed:
        found = stored(run, measure) if run.figures_only else strongest_of(judged, measure)
        if found is not None:
            few = ", ".join(f"{attack} ({patients:,} patients)" for attack, patients in found.few)
            chosen = {"attack": found.attack, "attacks": found.attacks, "patients": found.patients, "few": few}
            yield f"{measure}_strongest", {**vars(found.interval), "high": found.up_to, **chosen}


def heldout_losses(run: Run, summed: bool) -> pd.DataFrame:
    """Index note_id; columns patient_id, nats (the note's whole loss), tokens, of held-out notes.

    If `summed`, as of a run with figures only: a row has the sums of a patient's notes, and the index is patient_id.
    Patients are resampled as a whole, so the share of the gain and its interval are the same.
    """
    if run.figures_only:
        return run.table("heldout_losses").set_index("patient_id", drop=False)
    scores = scores_of(run, None)
    if summed:
        return losses_by_patient(scores).set_index("patient_id", drop=False)
    return _heldout(scores).set_index("note_id")[["patient_id", "nats", "tokens"]]


def losses_by_patient(scores: pd.DataFrame) -> pd.DataFrame:
    """patient_id, tokens, nats of held-out patients: the sums over their notes, from the loss attack's `scores`."""
    return _heldout(scores).groupby("patient_id", sort=True)[["tokens", "nats"]].sum().reset_index()


def _heldout(scores: pd.DataFrame) -> pd.DataFrame:
    chosen = scores[scores["split"] == "heldout"]
    return chosen.assign(nats=-chosen["score"] * chosen["tokens"])


def utility_share(run: pd.DataFrame, base: pd.DataFrame, plain: pd.DataFrame) -> Interval:
    """Share of the gain of training without privacy on held-out notes that the run has, too; over held-out patients.

    0 is the public base model, 1 the run without privacy, which is overfitted and not an ideal. The notes are the same
    for all three, so they are resampled together. NaN if training without privacy gained nothing.

    Args:
        run: the run's held-out losses: index note_id (or patient_id, for sums), columns patient_id, nats, tokens.
        base: the same of the public base model.
        plain: the same of the run without privacy.

    Raises:
        ValueError: the frames share no note.
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

    return patient_bootstrap(statistic, run.loc[notes, "patient_id"].to_numpy(), resamples=RESAMPLES)


def costs(runs: Sequence[Run]) -> pd.DataFrame:
    """Recorded costs of each training: run_id, unit (empty without privacy), epsilon, seed, steps, tokens, seconds."""
    about = settings(list(runs)).set_index("run_id")
    rows = []
    for run in runs:
        history = run.table("history")
        if len(history):
            last = history.iloc[-1]
            unit = run.spec.privacy.unit if run.spec.privacy.private else ""
            row = (run.id, unit, about.loc[run.id, "epsilon"], run.spec.training.seed)
            rows.append((*row, int(last["step"]), int(last["tokens"]), float(last["seconds"])))
    return pd.DataFrame(rows, columns=["run_id", "unit", "epsilon", "seed", "steps", "tokens", "seconds"])
