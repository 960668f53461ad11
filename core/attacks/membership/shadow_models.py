"""LiRA: how likely a note's loss is under models that read it, and under models that did not (Carlini et al. 2022).

The shadow models are trained as the target was, each on the notes of other members drawn from the same patients. For
every note there are models that read it and models that did not, so the attack knows how each note behaves, and does
not mistake an easy note for a memorised one. `core.pipeline.shadows` trains them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.attacks.membership.shadow_scores import ShadowScores
from core.attacks.registry import NotPossible
from core.spec import MEMBER_SHARE

BLOCK = 10  # models among which every patient is left out equally often
LEAST = BLOCK  # fewer models do not say how a note behaves
USUAL = 64  # models
ACCUSED = 0.01  # share of patients accused by mistake where `caught_patients` counts
CAUGHT_COLUMNS = {"patient_id": "str", "read": "int32", "caught": "int32", "unread": "int32", "accused": "int32"}
_OUT = round((1 - MEMBER_SHARE) * BLOCK)
_STREAM = 15  # shared with `core.attacks.forgetting`, which says why that does no harm
_NEARLY_ONE = -1e-12  # of a log-likelihood: a text of probability 1 has no logit


def left_out(patients: Sequence[str], seed: int, number: int) -> frozenset[str]:
    """Ids of the patients whose notes shadow model `number` does not read: as large a share as the target holds out.

    Of every `BLOCK` models in turn, each patient is left out of the same number. A model's patients do not depend on
    how many models there are.
    """
    block, place = divmod(number, BLOCK)
    order = np.random.default_rng([seed, _STREAM, block]).permutation(np.array(sorted(patients), dtype=object))
    groups = np.array_split(order, BLOCK)
    return frozenset(np.concatenate([groups[(place + step) % BLOCK] for step in range(_OUT)]).tolist())


def logit(likelihoods: np.ndarray) -> np.ndarray:
    """φ = ln(p / (1 − p)) for p = e^ℓ, the geometric mean probability of a note's tokens (Carlini et al. 2022).

    It spreads low losses, which makes the values of one note over many models nearly normal.
    """
    found = np.minimum(np.asarray(likelihoods, dtype=float), _NEARLY_ONE)
    return found - np.log(-np.expm1(found))


def likelihood_ratios(own: np.ndarray, shadows: ShadowScores) -> np.ndarray:
    """The logarithm of the density of φ(own) among the models that read the note over that among the others, (notes,).

    Online LiRA (Carlini et al. 2022, algorithm 1). The means are each note's own. The two variances are those of all
    notes together, around the notes' own means: with a few dozen models, a note's own variance is too uncertain.

    Args:
        own: mean log-likelihood in nats per token of each note under the target, (notes,).
        shadows: of the same notes.

    Raises:
        NotPossible: there are fewer than `LEAST` shadow models, or a note that all or none of them read.
    """
    _check(shadows)
    value, inside = logit(shadows.likelihoods), shadows.inside
    return _ratios(logit(own), _moments(value, inside), _moments(value, ~inside))


def ratios_where_possible(own: np.ndarray, shadows: ShadowScores) -> np.ndarray:
    """As `likelihood_ratios` with any number of models, (notes,); NaN for notes that none of them read, or all.

    So few models are for asking how much depends on their number. Where no note was read (or left unread) by two of
    them, that side has no variance of its own and takes the other side's; with neither, both are 1.
    """
    found = np.full(len(own), math.nan)
    counts = shadows.inside.sum(axis=0)
    judged = (counts > 0) & (counts < len(shadows))
    if not judged.any():
        return found
    chosen = shadows.of(judged)
    value, inside = logit(chosen.likelihoods), chosen.inside
    sides = [_moments(value, inside), _moments(value, ~inside)]
    known = [
        variance for (_, variance), side in zip(sides, (inside, ~inside), strict=True) if side.sum() > side.shape[1]
    ]
    if len(known) < 2:
        sides = [(mean, known[0] if known else 1.0) for mean, _ in sides]
    found[judged] = _ratios(logit(np.asarray(own)[judged]), *sides)
    return found


def ratios_of_each(shadows: ShadowScores) -> np.ndarray:
    """LiRA against every shadow model in turn, by all the others, (models, notes); as `likelihood_ratios`."""
    _check(shadows, spare=1)
    value, rows = logit(shadows.likelihoods), np.arange(len(shadows))
    found = np.empty_like(value)
    for model in rows:
        others = rows != model
        inside = shadows.inside[others]
        found[model] = _ratios(value[model], _moments(value[others], inside), _moments(value[others], ~inside))
    return found


def caught_patients(patients: Sequence[str], shadows: ShadowScores) -> pd.DataFrame:
    """How often LiRA catches each patient, over all the shadow models: rows with `CAUGHT_COLUMNS`.

    A model accuses the patients whose mean ratio is above a threshold that all models share. It is the one at which
    `ACCUSED` of all pairs of a model and a patient whom it did not read are accused. One audit shows a patient once;
    here the same patient is seen by many models that read them, and by many that did not.

    Args:
        patients: the patient of each note, (notes,).
        shadows: of the same notes.

    Raises:
        NotPossible: as `likelihood_ratios`.
    """
    ids, of_note = np.unique(np.asarray(patients, dtype=object), return_inverse=True)
    notes = np.bincount(of_note)
    ratios = np.stack([np.bincount(of_note, weights=row) / notes for row in ratios_of_each(shadows)])
    inside = np.stack([np.bincount(of_note, weights=row) > 0 for row in shadows.inside])
    said = ratios > np.quantile(ratios[~inside], 1 - ACCUSED, method="higher")
    counts = {
        "read": inside.sum(axis=0),
        "caught": (inside & said).sum(axis=0),
        "unread": (~inside).sum(axis=0),
        "accused": (~inside & said).sum(axis=0),
    }
    return pd.DataFrame({"patient_id": ids, **counts}).astype(CAUGHT_COLUMNS)


def _check(shadows: ShadowScores, spare: int = 0) -> None:
    if len(shadows) < LEAST:
        raise NotPossible(
            f"LiRA compares with at least {LEAST} shadow models, and there are {len(shadows)}. "
            "`python -m core shadows RUN` trains them."
        )
    read = shadows.inside.sum(axis=0)
    if (read <= spare).any() or (len(shadows) - read <= spare).any():
        raise NotPossible("LiRA needs, for every note, shadow models that read it and shadow models that did not.")


def _moments(value: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean of each note's chosen values, (notes,), and the pooled variance around these means."""
    count = chosen.sum(axis=0)
    mean = np.where(chosen, value, 0.0).sum(axis=0) / count
    squares = np.where(chosen, value - mean, 0.0) ** 2
    free = count.sum() - value.shape[1]
    return mean, float(squares.sum() / max(1, free))


def _ratios(own: np.ndarray, read: tuple[np.ndarray, float], unread: tuple[np.ndarray, float]) -> np.ndarray:
    def log_density(mean: np.ndarray, variance: float) -> np.ndarray:
        variance = max(variance, 1e-12)  # models that do not differ at all
        return -((own - mean) ** 2) / (2 * variance) - math.log(variance) / 2

    return log_density(*read) - log_density(*unread)
