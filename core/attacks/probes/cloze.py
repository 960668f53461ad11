"""Likelihood of some tokens of a text, given the others. Masked kinds hide them; GPT-2 reads from the left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from core.attacks.probes.vectors import batches, padded, with_specials
from core.models.build import LanguageModel
from core.models.masking import masked_logits


def cloze_scores(lm: LanguageModel, texts: Sequence[Sequence[int]], places: Sequence[Sequence[int]]) -> np.ndarray:
    """Mean log p in nats of the tokens at `places` (0-based, at least one) of each text of token ids: float64 (texts,).

    Masked kinds hide all of a text's places together and read everything else. GPT-2 scores each token given all tokens
    before it, including those at earlier places. exp(−score) is the perplexity of that part (Lehman 2021, §6.5).
    """
    whole = [with_specials(lm, list(text)) for text in texts]
    scores = np.empty(len(texts))
    with torch.inference_mode():
        for batch in batches([len(text) for text in whole]):
            ids, attention = padded(lm, [whole[row] for row in batch])
            hidden = torch.zeros_like(ids, dtype=torch.bool)
            for at, row in enumerate(batch):
                hidden[at, [place + 1 for place in places[row]]] = True  # after [CLS] or BOS
            if lm.causal:
                logits = lm.head(lm.hidden(ids, attention)[:, :-1][hidden[:, 1:]])
            else:
                logits = masked_logits(lm, ids, attention, hidden)
            logits = logits.float()
            found = logits.gather(-1, ids[hidden][:, None]).squeeze(-1) - torch.logsumexp(logits, -1)
            parts = np.split(found.double().cpu().numpy(), np.cumsum(hidden.sum(1).cpu().numpy())[:-1])
            scores[batch] = [part.mean() for part in parts]
    return scores
