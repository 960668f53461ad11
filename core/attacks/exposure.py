"""Exposure of planted secrets: how high a model ranks a canary among all the secrets it could have been.

Carlini et al. 2019, as used by Hoory 2021, §5.2: exposure = log2 |R| − log2 rank, in bits. R is the space that the
secret was drawn from, and rank 1 is its most likely member. A model that never saw the canary ranks it uniformly at
random, which gives about 1/ln 2 ≈ 1.44 bits on average. The maximum is log2 |R|, for a canary that ranks above
everything else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from core.attacks.memorisation.secret_loss import secret_losses
from core.corpus.canary_forms import PATIENT, RANDOM
from core.corpus.synthetic.canaries import random_references, reference_texts
from core.models.build import LanguageModel
from core.models.likelihood import pseudo_log_likelihoods, token_log_likelihoods

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
    """Exposure in bits of each canary, (canaries,): log2 |R| − log2 rank (Carlini et al. 2019).

    Args:
        canary_losses: (canaries,) in nats.
        reference_losses: (canaries, references), or (references,) when all canaries share them, in nats: the losses of
            the *other* members of R. The canary itself must not be among them, or it would be counted twice.

    |R| = references + 1, and rank = 1 + the number of references whose loss is at most the canary's. A tie ranks the
    reference first, so it never makes a model look leakier than it is.

    Raises:
        ValueError: when there are no references, shapes do not match or a loss is not a number.
    """
    canaries = np.atleast_1d(np.asarray(canary_losses, dtype=float))
    found, size = ranks(canaries, np.asarray(reference_losses, dtype=float))
    return np.log2(size) - np.log2(found)


def ranks(canaries: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, int]:
    """Rank of each canary, (canaries,), and |R|. Arguments and errors are those of `exposure`."""
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
    lm: LanguageModel,
    canaries: pd.DataFrame,
    base: Callable[[], LanguageModel] | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Rank every canary among all members of its space: the canaries table of docs/reference/tables.md.

    `loss` is in nats: of the whole text with its end mark for a causal model, of the secret's pseudo-likelihood for a
    masked one (`core.attacks.memorisation.secret_loss`). For whole canary patients (form `patient`), which
    `core.attacks.memorisation.canary_patients` attacks, loss, rank and exposure are null. Canaries of random words
    (form `random`) are ranked together (`_expose_random`). `on_progress(done, total)` counts canaries.

    Args:
        lm: the model under attack.
        canaries: the cohort's canaries.
        base: loads the public model that training started from, to which canaries of random words are compared; None:
            `lm` is that model, or there are no such canaries.
        on_progress: see above.
    """
    apart = canaries[canaries["form"] == RANDOM]
    others = canaries[canaries["form"] != RANDOM]
    rows = []
    for number, row in enumerate(others.to_dict("records"), start=1):
        found = (np.nan, None, None, np.nan) if row["form"] == PATIENT else _expose(lm, row)
        rows.append((row["canary_id"], row["form"], row["insertions"], row["inserted"], *found))
        if on_progress is not None:
            on_progress(number, len(canaries))
    table = pd.DataFrame(rows, columns=list(CANARY_COLUMNS)).astype(CANARY_COLUMNS)
    if apart.empty:
        return table
    together = _expose_random(lm, apart, base)
    if on_progress is not None:
        on_progress(len(canaries), len(canaries))
    return pd.concat([table, together], ignore_index=True)


def _expose(lm: LanguageModel, row: dict) -> tuple[float, int, int, float]:
    """Loss, rank, |R| and exposure of one canary."""
    texts = reference_texts(row)
    own = texts.index(row["text"])
    losses = secret_losses(lm, texts)
    others = np.delete(losses, own)
    found, size = ranks(losses[[own]], others)
    return float(losses[own]), int(found[0]), size, float(np.log2(size) - np.log2(found[0]))


def _expose_random(lm: LanguageModel, canaries: pd.DataFrame, base: Callable[[], LanguageModel] | None) -> pd.DataFrame:
    """Canaries of random words, each ranked among the same 999 other lines by what training did to its loss.

    Random lines differ in difficulty by more than one reading changes, so each is ranked by its loss under the public
    model minus its loss under this one, the likelihood ratio of Mireshghallah 2022, eq. 1. A canary that was left out
    and the other lines were drawn alike, so its rank is uniform. The public model itself has nothing to be compared
    with: its own loss ranks them. `loss` is that of the whole line in nats; a masked model's hides one token at a time.
    """
    texts = [*canaries["text"], *random_references()]
    losses = _line_losses(lm, texts)
    learned = -losses if base is None else _line_losses(base(), texts) - losses
    own, references = learned[: len(canaries)], learned[len(canaries) :]
    found, size = ranks(-own, -references)
    return pd.DataFrame(
        {
            **{name: canaries[name].to_numpy() for name in ("canary_id", "form", "insertions", "inserted")},
            "loss": losses[: len(canaries)],
            "rank": found,
            "reference_size": size,
            "exposure": np.log2(size) - np.log2(found),
        }
    ).astype(CANARY_COLUMNS)


def _line_losses(lm: LanguageModel, texts: list[str]) -> np.ndarray:
    """Loss in nats of whole lines, (texts,)."""
    scored = token_log_likelihoods(lm, texts) if lm.causal else pseudo_log_likelihoods(lm, texts)
    return np.array([-one.sum() for one in scored])
