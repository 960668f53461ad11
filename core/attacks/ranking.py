"""Rank generated texts by how much more likely they are under the target than under the public model.

Carlini et al. 2021 ("Extracting training data from large language models", §5.2) let a model generate texts and sort
them by their likelihood under it, relative to another model. Common phrases are likely under both; memorised text is
likely under the target only. `core.evaluation.memorisation.extraction.recall_at_errors` evaluates the ranking.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from core.models.build import LanguageModel
from core.models.encoding import encode
from core.models.likelihood import note_losses, token_log_likelihoods
from core.spec import AuditSpec

RANKING_COLUMNS = {
    "generation_id": "int64",
    "tokens": "int32",  # of the generated part; 0 where nothing was generated
    "log_likelihood": "float64",  # mean nats per token under the target; −∞ where nothing was generated
    "base_log_likelihood": "float64",
    "ratio": "float64",  # their difference: higher = more likely memorised
}
_CHUNK = 256


def rank_generations(
    lm: LanguageModel,
    base: LanguageModel,
    generations: pd.DataFrame,
    audit: AuditSpec,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Mean log-likelihood in nats per token of every generated text under target and base: the table `ranking`.

    Causal models score the tokens after the prompt, given the prompt. For masked models it is minus the energy of
    prompt and text together under `audit.mask_draws` random masks, the same for both models (Mireshghallah 2022,
    eq. 2). `on_progress(done, total)` counts texts.
    """
    prompts, texts = generations["prompt"].tolist(), generations["text"].tolist()
    tokens = [len(ids) for ids in encode(lm, texts)]
    found = np.full((2, len(texts)), -np.inf)
    for start in range(0, len(texts), _CHUNK):
        part = slice(start, min(start + _CHUNK, len(texts)))
        for row, model in enumerate((lm, base)):
            found[row, part] = _mean_log_likelihoods(model, prompts[part], texts[part], audit, start)
        if on_progress is not None:
            on_progress(part.stop, len(texts))
    found[:, [count == 0 for count in tokens]] = -np.inf
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isinf(found[0]), -np.inf, found[0] - found[1])
    frame = pd.DataFrame(
        {
            "generation_id": generations["generation_id"].to_numpy(),
            "tokens": tokens,
            "log_likelihood": found[0],
            "base_log_likelihood": found[1],
            "ratio": ratio,
        }
    )
    return frame.astype(RANKING_COLUMNS)


def _mean_log_likelihoods(
    lm: LanguageModel, prompts: list[str], texts: list[str], audit: AuditSpec, start: int
) -> np.ndarray:
    whole = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
    if not lm.causal:
        return -note_losses(lm, whole, mask_draws=audit.mask_draws, seed=audit.seed + start)
    means = []
    for prompt, encoding, logprobs in zip(
        prompts,
        lm.tokenizer.backend_tokenizer.encode_batch(whole, add_special_tokens=False),
        token_log_likelihoods(lm, whole),
        strict=True,
    ):
        typed = sum(end <= len(prompt) for _, end in encoding.offsets)
        written = logprobs[typed:-1]  # without the end mark, which the model may never have reached
        means.append(written.mean() if len(written) else -np.inf)
    return np.array(means)
