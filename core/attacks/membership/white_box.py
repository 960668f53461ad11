"""White-box features of a note: attention concentration and gradient norms (Jagannatha 2021, §4.1.2).

Each gives one row of features per note. A logistic regression is fitted on 20 % of the patients and evaluated on the
other 80 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from core.attacks.registry import NotPossible, Report, no_report
from core.models.build import LanguageModel
from core.models.encoding import encode_samples
from core.models.likelihood import MAX_TOKENS, buckets, by_text
from core.training.gradients.clipping import Clipper
from core.training.losses import causal_batch, example_losses, masked_batch

FOLDS = 5  # each fifth of the patients is used for fitting once: 20 % and 80 %
QUANTILES = (0.5, 0.05, 0.95)  # in addition to the mean
SMALLEST = 1e-12  # smaller squared norms are raised to this, so that their logarithm exists
_GRADIENT_TOKENS = 1_024  # tokens, padding included, whose gradients are held in memory at once


# Attention (Jagannatha 2021, §4.1.2) ---------------------------------------------------------------------------------


def concentration(attention: torch.Tensor) -> torch.Tensor:
    """C(a) = Σ_i a_i ln a_i of each row of attention weights: (…, T) → (…,), from −ln T (uniform) to 0 (one token).

    A weight of zero contributes 0, the limit of a ln a, not NaN.
    """
    return torch.special.xlogy(attention, attention).sum(-1)


def attention_features(
    lm: LanguageModel, texts: Sequence[str], report: Report = no_report, *, quantiles: Sequence[float] = QUANTILES
) -> np.ndarray:
    """Mean and quantiles over a text's tokens of C(a), (texts, layers · heads · (1 + quantiles)), in nats.

    Source: Jagannatha 2021, §4.1.2, S-AWBA: mean, median, 5th and 95th percentile. A token's a is its attention over
    the tokens of its sample. Texts longer than a sample are read sample by sample.
    """
    samples = encode_samples(lm, texts, min(MAX_TOKENS, lm.context))
    found: list[np.ndarray] = [np.empty((0, 0))] * len(samples)
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")  # the fused kernels never compute the weights
    try:
        with torch.inference_mode():
            done = 0
            for batch, ids, attention in buckets(lm, samples.ids):
                report(done, len(samples))
                out = lm.model.base_model(input_ids=ids, attention_mask=attention, output_attentions=True)
                rows = torch.cat([concentration(layer) for layer in out.attentions], dim=1).double().cpu().numpy()
                for row, sample in enumerate(batch):  # rows: (B, layers · heads, T)
                    found[sample] = rows[row, :, : len(samples.ids[sample])]
                done += len(batch)
    finally:
        lm.model.set_attn_implementation(before)
    report(len(samples), len(samples))
    of_texts = by_text(found, samples.note_index, len(texts))
    return np.stack([np.concatenate([one.mean(axis=1), *np.quantile(one, quantiles, axis=1)]) for one in of_texts])


# Gradient norms (Jagannatha 2021, §4.1.2) ----------------------------------------------------------------------------


def gradient_features(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int, seed: int = 0, report: Report = no_report
) -> np.ndarray:
    """Squared norm of the gradient of a text's training loss in each layer, (texts, layers).

    Source: Jagannatha 2021, §4.1.2, S-GWBA. The norms are the training engine's per-example norms
    (`core.training.gradients.clipping`), many texts in one backward pass. The loss is that of training: mean nats a
    predicted token of each sample, summed over a text's samples. For a masked model, the 15 % of predicted tokens are
    drawn from `seed` and the sample's number, `mask_draws` times, and the squares are averaged over these masks: one
    mask alone hides most of what the model memorised (docs/methods/membership-results.md). A causal model has no masks.
    """
    masks = 1 if lm.causal else mask_draws
    samples = encode_samples(lm, texts, min(MAX_TOKENS, lm.context))
    lengths = np.array([len(ids) for ids in samples.ids])
    order = sorted(range(len(texts)), key=lambda text: lengths[slice(*_rows(samples.note_index, text))].max())
    squares: list[np.ndarray] = [np.empty(0)] * len(texts)
    with Clipper(lm.model, 1.0) as clipper:
        for first, last in _batches(order, samples.note_index, lengths):
            report(first, len(texts))
            chosen = order[first:last]
            rows = [row for text in chosen for row in range(*_rows(samples.note_index, text))]
            found = []
            for mask in range(masks):
                losses = _losses(lm, [samples.ids[row] for row in rows], rows, seed, mask)
                clipper.backward(losses, samples.note_index[rows])
                found.append(clipper.layer_squares().cpu().numpy())
            for text, values in zip(sorted(chosen), np.mean(found, axis=0), strict=True):
                squares[text] = values
    report(len(texts), len(texts))
    return np.stack(squares)


def _rows(note_index: np.ndarray, text: int) -> tuple[int, int]:
    """First sample of a text and one past its last."""
    first, last = np.searchsorted(note_index, [text, text + 1])
    return int(first), int(last)


def _batches(order: list[int], note_index: np.ndarray, lengths: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of `order` whose samples, padded to the longest, hold about `_GRADIENT_TOKENS` tokens."""
    found, first, rows, longest = [], 0, 0, 0
    for place, text in enumerate(order):
        own = lengths[slice(*_rows(note_index, text))]
        rows, longest = rows + len(own), max(longest, own.max())
        if rows * longest > _GRADIENT_TOKENS and place > first:
            found.append((first, place))
            first, rows, longest = place, len(own), own.max()
    return [*found, (first, len(order))] if order else []


def _losses(lm: LanguageModel, ids: list[np.ndarray], rows: list[int], seed: int, mask: int) -> torch.Tensor:
    """The training loss of each sample under its mask of this number, (B,)."""
    with torch.enable_grad():
        if lm.causal:
            return example_losses(lm, causal_batch(ids, lm.device))
        keys = [
            np.random.default_rng([seed, int(row)]).random((mask + 1, 2, len(one)))[mask]
            for row, one in zip(rows, ids, strict=True)
        ]
        return example_losses(lm, masked_batch(ids, keys, lm.tokenizer, lm.device))


# Classifying the features --------------------------------------------------------------------------------------------


def folds(patients: pd.Series, member: np.ndarray, seed: int) -> np.ndarray:
    """A fold 0 … 4 for each note, (notes,): whole patients, members and non-members spread evenly over the folds."""
    fold = np.zeros(len(patients), dtype=int)
    rng = np.random.default_rng(seed)
    for flag in (True, False):
        names = np.array(sorted(patients[member == flag].unique()), dtype=object)
        place = dict(zip(rng.permutation(names), np.arange(len(names)) % FOLDS, strict=True))
        fold[member == flag] = patients[member == flag].map(place).to_numpy(dtype=int)
    return fold


def fitted_log_odds(features: np.ndarray, member: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Log-odds of membership of the notes outside `fit` (bool), by a logistic regression fitted on those inside.

    Features are standardised to mean 0 and standard deviation 1 on the fitted notes. Members and non-members have the
    same total weight in the fit, so log-odds 0 is the boundary whatever their numbers.

    Raises:
        NotPossible: when the fitted notes are all members or all non-members.
    """
    if len(np.unique(member[fit])) < 2:
        raise NotPossible(
            "a fifth of the patients holds only members or only non-members, so there is nothing to learn from it: the "
            "cohort is too small for this attack"
        )
    scale = StandardScaler().fit(features[fit])
    model = LogisticRegression(class_weight="balanced", max_iter=1_000).fit(scale.transform(features[fit]), member[fit])
    return model.decision_function(scale.transform(features[~fit]))
