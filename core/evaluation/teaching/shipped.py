"""What the exercises give, read from three shipped runs on the same hospital."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from core.attacks.membership.scores import LOSS
from core.corpus.tables import JUDGED_SPLITS, notes_by_patient
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import patient_bootstrap, weighted_auc_difference
from core.evaluation.stats.roc import roc
from core.evaluation.teaching.exercises import (
    Accusation,
    BaseRate,
    Clipping,
    Exercises,
    Exposure,
    Figure,
    Model,
    NearHalf,
    Notebook,
    Odds,
    Ranked,
    Together,
)
from core.runs.run import Run
from core.runs.store import Workspace

PLAIN, EIGHT, ONE = "gpt2-1ea4fd58ffd0", "gpt2-0a31e8681aba", "gpt2-9c478ef93063"  # shipped runs on 11,815 notes
CANARIES = ("C0000", "C0001", "C0009", "C0026")  # one planted, three not


def of_shipped(workspace: Workspace) -> Exercises:
    """The exercises about the shipped runs.

    Raises:
        RunNotFound: a shipped run is not there.
    """
    plain, eight, one = (workspace.run(run_id) for run_id in (PLAIN, EIGHT, ONE))
    assert eight.privacy is not None and one.privacy is not None  # they are private
    notes = workspace.corpus(plain.spec.corpus).training_notes(plain.spec.note_cap)
    counted = notes_by_patient(notes)
    strict, loose = _accusation(plain, 0.01), _accusation(plain, 0.1)
    public = workspace.run(eight.spec.base_spec().run_id)
    models = tuple(
        Model(
            epsilon,
            run.privacy,
            *(_figure(run, name) for name in ("full_name_patients", "auc_loss", "perplexity_heldout")),
        )
        for run, epsilon in ((one, 1.0), (eight, 8.0), (plain, math.inf))
    )
    return Exercises(
        exposure=_exposure(plain.table("canaries")),
        clipping=Clipping(sigma=round(eight.privacy.noise_multiplier, 2)),
        base_rate=BaseRate(strict, loose, _accusation(eight, 0.01)),
        near_half=NearHalf(
            notes=_figure(eight, "auc_loss"),
            patients=_figure(eight, "auc_loss_patients"),
            base=_figure(eight, "auc_loss_patients", "base"),
            difference_by_note=_auc_difference(eight, public),
            difference_by_patient=_auc_difference(eight, public, by_patient=True),
            members=strict.members,
            others=strict.others,
        ),
        together=Together(one.privacy, eight.privacy, int(counted.median()), int(counted.max())),
        odds=Odds(models, _figure(plain, "full_name_patients", "heldout")),
        notebook=Notebook(
            dates=_figure(plain, "field_patients:date_of_birth"),
            dates_heldout=_figure(plain, "field_patients:date_of_birth", "heldout"),
            notes=_figure(plain, "auc_loss"),
            patients=_figure(plain, "auc_loss_patients"),
            private=eight.privacy,
        ),
        training_notes=len(notes),
        patients=len(counted),
    )


def _figure(run: Run, metric: str, arm: str = "run") -> Figure:
    rows = run.metrics
    found = rows[(rows["metric"] == metric) & (rows["arm"] == arm)].iloc[0]
    return Figure(float(found["value"]), float(found["low"]), float(found["high"]))


def _auc_difference(run: Run, public: Run, *, by_patient: bool = False) -> Figure:
    """The loss attack's AUC on a run less that on the public model: the same notes, so patients are drawn for both."""
    both = _losses(run).merge(_losses(public), on=["note_id", "patient_id", "member"], validate="1:1")
    if by_patient:
        both = both.groupby(["patient_id", "member"], as_index=False)[["score_x", "score_y"]].mean()
    apart = weighted_auc_difference(*(both[name].to_numpy() for name in ("score_x", "score_y", "member")))
    found = patient_bootstrap(apart, both["patient_id"], both["member"], resamples=run.spec.audit.bootstrap)
    return Figure(found.value, found.low, found.high)


def _losses(run: Run) -> pd.DataFrame:
    scores = run.table("scores")
    judged = (scores["attack"] == LOSS) & scores["split"].isin(JUDGED_SPLITS)
    return scores.loc[judged, ["note_id", "patient_id", "member", "score"]]


def _accusation(run: Run, fpr: float) -> Accusation:
    """The loss attack by patient, at the threshold that accuses at most the share `fpr` of the others."""
    scores = run.table("scores")
    judged = units(scores[scores["attack"] == LOSS], "patient")
    point = roc(judged.score[judged.member], judged.score[~judged.member]).tpr_at(fpr)
    says = judged.score >= point.threshold
    return Accusation(
        members=judged.members,
        others=judged.nonmembers,
        caught=int((says & judged.member).sum()),
        accused=int((says & ~judged.member).sum()),
    )


def _exposure(canaries: pd.DataFrame) -> Exposure:
    ranked = canaries[canaries["rank"].notna()]
    every = tuple(_ranked(ranked))
    return Exposure(tuple(one for one in every if one.name in CANARIES), every)


def _ranked(canaries: pd.DataFrame) -> Iterator[Ranked]:
    columns = (canaries[name] for name in ("canary_id", "inserted", "rank", "reference_size"))
    return (
        Ranked(name, bool(planted), int(rank), int(size)) for name, planted, rank, size in zip(*columns, strict=True)
    )
