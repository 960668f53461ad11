"""One loss for each example, for causal and for masked language models.

The loss of an example is the *mean* over its predicted tokens, in nats. A long note then has the same weight as a short
one, and the norm of its gradient does not grow with its length, so that one clipping norm C suits both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.common.transformers_parts import PreTrainedTokenizerBase
from core.models.build import LanguageModel
from core.models.masking import MASK_SHARE

CACHED_FLOATS = 1 << 19  # 2 MiB
# Of the tokens to predict, 80 % are shown as [MASK], 10 % as a random token, 10 % unchanged.
SHOWN_AS_MASK, SHOWN_AT_RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class Batch:
    """A padded physical batch on the model's device.

    `ids` (B, T) are the model's input, `padding` (B, T) is True at padding, `targets` (B, S) are the tokens to predict
    (-100 = none), `positions` (B, S) are their positions (None for a causal model: position t predicts token t + 1).
    """

    ids: Tensor
    padding: Tensor
    targets: Tensor
    positions: Tensor | None
    tokens: int

    @property
    def lengths(self) -> Tensor:
        """(B,) number of tokens of each example, without padding."""
        return (~self.padding).sum(1)

    def only(self, rows: np.ndarray) -> Batch:
        """The examples in these rows, padded as before."""
        at = torch.from_numpy(rows).to(self.ids.device)
        padding = self.padding[at]
        return Batch(
            ids=self.ids[at],
            padding=padding,
            targets=self.targets[at],
            positions=None if self.positions is None else self.positions[at],
            tokens=int((~padding).sum()),
        )


def causal_batch(samples: Sequence[np.ndarray], device: torch.device) -> Batch:
    """Next-token prediction: right-padded ids, targets shifted by one. A sample of one token has no target."""
    ids, padding = _pad(samples)
    targets = np.where(padding[:, 1:], -100, ids[:, 1:])
    return _batch(ids, padding, targets, None, device)


def masked_batch(
    samples: Sequence[np.ndarray],
    keys: Sequence[np.ndarray],
    tokenizer: PreTrainedTokenizerBase,
    device: torch.device,
    share: float = MASK_SHARE,
) -> Batch:
    """Masked-token prediction with a `share` of each sample's ordinary tokens (at least one) as targets.

    `keys` has two rows of uniform random numbers (2, length) for each sample: the smallest of the first row are masked,
    and the second row decides between [MASK], a random token and the token itself. The caller supplies them, so that a
    sample's mask does not depend on the physical batch it is in.
    """
    ids, padding = _pad(samples)
    special = np.isin(ids, tokenizer.all_special_ids) | padding
    order = np.full(ids.shape, 2.0)
    replacement = np.ones(ids.shape)
    for row, key in enumerate(keys):
        order[row, : key.shape[1]], replacement[row, : key.shape[1]] = key
    order[special] = 2.0
    ordinary = (~special).sum(1)
    counts = np.where(ordinary > 0, np.maximum(1, np.rint(share * ordinary)), 0).astype(np.int64)
    most = max(1, int(counts.max(initial=0)))
    positions = np.argsort(order, axis=1, kind="stable")[:, :most]  # (B, S)
    none = np.arange(most)[None, :] >= counts[:, None]
    targets = np.where(none, -100, np.take_along_axis(ids, positions, 1))
    choice = np.take_along_axis(replacement, positions, 1)
    words = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
    # Uniform again, given that 0.8 ≤ choice < 0.9.
    rescaled = np.clip((choice - SHOWN_AS_MASK) / SHOWN_AT_RANDOM, 0.0, 1.0 - 1e-9)
    shown = np.where(
        choice < SHOWN_AS_MASK,
        tokenizer.mask_token_id,
        np.where(choice < SHOWN_AS_MASK + SHOWN_AT_RANDOM, words[(rescaled * len(words)).astype(np.int64)], targets),
    )
    shown = np.where(none, np.take_along_axis(ids, positions, 1), shown)
    inputs = ids.copy()
    np.put_along_axis(inputs, positions, shown, 1)
    return _batch(inputs, padding, targets, positions, device)


def _pad(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Samples as the rows of one array (B, T), padded with zeros on the right, and a mask of the padding."""
    lengths = np.array([len(sample) for sample in samples])
    padding = np.arange(lengths.max())[None, :] >= lengths[:, None]
    ids = np.zeros(padding.shape, dtype=np.int64)
    ids[~padding] = np.concatenate(samples)
    return ids, padding


def _batch(
    ids: np.ndarray, padding: np.ndarray, targets: np.ndarray, positions: np.ndarray | None, device: torch.device
) -> Batch:
    place = None if positions is None else torch.as_tensor(positions, device=device)
    return Batch(
        ids=torch.as_tensor(ids, device=device),
        padding=torch.as_tensor(padding, device=device),
        targets=torch.as_tensor(targets, device=device),
        positions=place,
        tokens=int((~padding).sum()),
    )


def example_losses(lm: LanguageModel, batch: Batch) -> Tensor:
    """(B,) mean negative log-likelihood of each example's targets, in nats; 0 for an example without targets.

    Position ids have the batch dimension, which clipping needs (a batch of one would be broadcast, and its gradient
    summed over examples). A masked model's vocabulary projection is computed only at the predicted positions,
    usually 15 % of them, which changes no gradient.
    """
    positions = torch.arange(batch.ids.shape[1], device=batch.ids.device).repeat(len(batch.ids), 1)
    body = lm.model.base_model
    if lm.causal:
        # A causal model is padded on the right, so no real token attends to padding and no mask is needed.
        hidden = body(input_ids=batch.ids, position_ids=positions, use_cache=False)[0][:, :-1]
    else:
        mask = (~batch.padding).long() if batch.padding.any() else None
        hidden = body(input_ids=batch.ids, attention_mask=mask, position_ids=positions)[0]
        assert batch.positions is not None  # a masked batch has them
        hidden = hidden.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))  # (B, S, d)
    logits = lm.head(hidden)  # (B, S, V)
    losses: Tensor = _TokenLosses.apply(logits.flatten(0, 1), batch.targets.flatten())
    return losses.view_as(batch.targets).sum(1) / (batch.targets != -100).sum(1).clamp(min=1)


class _Kept(torch.autograd.function.FunctionCtx):
    """What the forward pass of `_TokenLosses` keeps for the backward pass."""

    probabilities: Tensor | None
    index: Tensor
    ignored: Tensor


class _TokenLosses(torch.autograd.Function):
    """Cross-entropy of each row, as `F.cross_entropy(logits, targets, ignore_index=-100, reduction="none")`.

    The probabilities that the backward pass needs overwrite the logits, one cache-sized slice at a time, and become the
    logits' gradient in place. The logits are by far the largest tensor of a step; torch's own function would keep four
    of them. Nothing else may read the logits afterwards (no layer keeps its own output).
    """

    @staticmethod
    def forward(ctx: _Kept, logits: Tensor, targets: Tensor) -> Tensor:
        """(N, V) logits, (N,) targets → (N,) losses in nats, 0 where the target is -100."""
        rows = logits.data  # not detach(): autograd would notice the change and lose track of the layer's output
        losses = rows.new_empty(len(rows))
        index = targets.clamp(min=0).unsqueeze(1)
        step = max(1, CACHED_FLOATS // rows.shape[1])
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            log_probabilities = torch.log_softmax(rows[part], dim=1)
            losses[part] = log_probabilities.gather(1, index[part]).squeeze(1)
            torch.exp(log_probabilities, out=rows[part])
        ctx.probabilities, ctx.index, ctx.ignored = rows, index, targets == -100
        return losses.neg_().masked_fill_(ctx.ignored, 0.0)

    @staticmethod
    def backward(ctx: _Kept, upstream: Tensor) -> tuple[Tensor, None]:
        """(probabilities − one-hot targets)·upstream, in the memory of the logits."""
        assert ctx.probabilities is not None  # they go at the end of this, the only backward pass
        scale = upstream.masked_fill(ctx.ignored, 0.0).unsqueeze(1)
        gradient = ctx.probabilities.mul_(scale)
        gradient.scatter_add_(1, ctx.index, -scale)
        ctx.probabilities = None
        return gradient, None
