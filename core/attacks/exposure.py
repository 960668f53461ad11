"""Exposure of planted secrets: how far up a model ranks a canary among all that it might have been (row H5).

Carlini et al. 2019, definition 6: exposure = log2 |R| − log2 rank, in bits, where R is the space the secret was drawn
from and rank 1 is the likeliest member of R. A model that never saw the canary gives it a uniformly drawn rank, hence
about 1/ln 2 ≈ 1.44 bits on average; the most is log2 |R|, for a canary that beats everything else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from core.attacks.memorisation.secret_loss import secret_losses
from core.corpus.synthetic.canaries import reference_texts
from core.models.build import LanguageModel

CANARY_COLUMNS = {
    "canary_id": "str",
    "form": "str",
    "insertions": "int32",
    "inserted": "bool",
    "loss": "float64",
    "rank": "Int64",
    "reference_size": "Int64",
    "exposure": "float64",
}


def exposure(canary_losses: np.ndarray, reference_losses: np.ndarray) -> np.ndarray:
    """Exposure in bits of each canary: log2 |R| − log2 rank (Carlini et al. 2019), shape (canaries,).

    `canary_losses` (canaries,) in nats. `reference_losses` (canaries, references), or (references,) when all canaries
    share them, are the losses of the *other* members of R: the canary itself is not among them, or it would be counted
    twice. So |R| = references + 1 and rank = 1 + the number of references with a loss at most the canary's: a tie ranks
    the reference first, which never makes a model look leakier than it is.
    Raises ValueError when there are no references, shapes do not fit or a loss is not a number.
    """
    canaries = np.atleast_1d(np.asarray(canary_losses, dtype=float))
    found, size = ranks(canaries, np.asarray(reference_losses, dtype=float))
    return np.log2(size) - np.log2(found)


def ranks(canaries: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, int]:
    """Rank of each canary, (canaries,), and |R|; arguments and errors as for `exposure`."""
    if references.ndim == 1:
        references = np.broadcast_to(references, (len(canaries), len(references)))
    if references.ndim != 2 or len(references) != len(canaries) or references.shape[1] == 0:
        raise ValueError(
            f"exposure ranks each canary among other secrets: {len(canaries)} canaries came with reference losses of "
            f"shape {references.shape}; it must be (canaries, references) or (references,), with at least one reference"
        )
    if np.isnan(canaries).any() or np.isnan(references).any():
        raise ValueError("a loss is not a number, so the canary cannot be ranked")
    return 1 + (references <= canaries[:, None]).sum(axis=1), references.shape[1] + 1


def canary_exposures(
    lm: LanguageModel, canaries: pd.DataFrame, *, on_progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """The canaries table of docs/reference/tables.md: every canary ranked among all members of its space.

    `loss` is in nats: of the whole text, end mark included, for a causal model; of the secret's pseudo-likelihood for a
    masked one (`core.attacks.memorisation.secret_loss`). Whole canary patients (form `patient`) have an attack of
    their own (`core.attacks.memorisation.canary_patients`): loss, rank and exposure are null. `on_progress(done,
    total)` counts canaries.
    """
    rows = []
    for number, row in enumerate(canaries.to_dict("records"), start=1):
        found = (np.nan, None, None, np.nan) if row["form"] == "patient" else _expose(lm, row)
        rows.append((row["canary_id"], row["form"], row["insertions"], row["inserted"], *found))
        if on_progress is not None:
            on_progress(number, len(canaries))
    return pd.DataFrame(rows, columns=list(CANARY_COLUMNS)).astype(CANARY_COLUMNS)


def _expose(lm: LanguageModel, row: dict) -> tuple[float, int, int, float]:
    """Loss, rank, |R| and exposure of one canary."""
    texts = reference_texts(row)
    own = texts.index(row["text"])
    losses = secret_losses(lm, texts)
    others = np.delete(losses, own)
    found, size = ranks(losses[[own]], others)
    return float(losses[own]), int(found[0]), size, float(np.log2(size) - np.log2(found[0]))
