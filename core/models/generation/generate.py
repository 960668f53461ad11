"""Text generation: sampling (GPT-2), and the masked kinds' filled masks and Gibbs sampling (`masked_writing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from core.common.transformers_parts import GPT2LMHeadModel
from core.models.build import LanguageModel
from core.models.encoding import decode, encode
from core.models.generation.decoder import CachedDecoder
from core.models.generation.masked_writing import fill_masks, gibbs
from core.models.generation.token_sampling import OnTokens, TokenSampler, check, check_length

__all__ = ["fill_masks", "gibbs", "sample"]

_COMPACT_BELOW = 0.75  # finished rows leave the batch when fewer than this share are still being generated


def sample(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    new_tokens: int,
    temperature: float = 0.8,
    top_k: int = 50,
    top_p: float = 0.95,
    seeds: Sequence[int],
    greedy: bool = False,
    on_tokens: OnTokens | None = None,
    should_stop: Callable[[], bool] | None = None,
    batch_size: int = 128,
) -> list[str]:
    """Continue every prompt by at most `new_tokens` tokens; the returned texts do not include the prompts.

    Logits are divided by `temperature`, cut to the `top_k` best, then to the smallest set whose probability reaches
    `top_p` (as in `transformers`). A row ends at the end-of-text token, when the context is full, or when `on_tokens`
    returns False. When `should_stop` returns True, all rows end; the text generated so far is kept.

    Args:
        lm: a causal model.
        prompts: the texts to continue.
        new_tokens: most new tokens of each text.
        temperature: above 0.
        top_k: at least 1.
        top_p: above 0, at most 1.
        seeds: one for each prompt. Row i draws its tokens with `seeds[i]` only, so its text is the same alone or in a
            batch.
        greedy: always take the most likely token.
        on_tokens: called after each token with (row, text so far).
        should_stop: asked after every token.
        batch_size: most rows generated together.

    Raises:
        ValueError: for a masked model, settings out of range, or a prompt that does not fit into the context.
    """
    if not lm.causal:
        raise ValueError(f"a {lm.kind} model does not continue a text: use gibbs or fill_masks")
    check(prompts, seeds, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    starts = [[lm.tokenizer.bos_token_id, *ids] for ids in encode(lm, prompts)]
    for ids in starts:
        check_length(len(ids) + 1, lm.context)
    order = sorted(range(len(starts)), key=lambda row: len(starts[row]))
    texts = [""] * len(starts)
    with torch.inference_mode():
        for first in range(0, len(order), batch_size):
            if should_stop and should_stop():
                break
            rows = order[first : first + batch_size]
            batch = _Batch(lm, rows, [starts[row] for row in rows], [seeds[row] for row in rows], new_tokens)
            choose = TokenSampler(temperature=temperature, top_k=top_k, top_p=top_p, greedy=greedy)
            for row, text in batch.write(choose, on_tokens, should_stop):
                texts[row] = text
    return texts


class _Batch:
    """Rows that are generated together."""

    def __init__(
        self, lm: LanguageModel, rows: Sequence[int], starts: Sequence[list[int]], seeds: Sequence[int], new_tokens: int
    ) -> None:
        self._lm = lm
        self._rows = list(rows)
        self._starts = starts
        self._written: list[list[int]] = [[] for _ in rows]
        self._limits = [min(new_tokens, lm.context - len(ids)) for ids in starts]
        self._uniform = torch.from_numpy(np.stack([np.random.default_rng(seed).random(new_tokens) for seed in seeds]))

    def write(
        self, choose: TokenSampler, on_tokens: OnTokens | None, should_stop: Callable[[], bool] | None
    ) -> list[tuple[int, str]]:
        """Generate all rows to their end; returns (row of the call, text) of each."""
        logits = self._prefill()
        alive = list(range(len(self._rows)))  # places in this batch, in the order of the decoder's rows
        for step in range(max(self._limits)):
            uniform = self._uniform[alive, step].to(logits.device)
            tokens = choose(logits, uniform)
            going = [self._take(place, token, on_tokens) for place, token in zip(alive, tokens.tolist(), strict=True)]
            if not any(going) or (should_stop and should_stop()):
                break
            if sum(going) < _COMPACT_BELOW * len(alive):
                kept = torch.tensor([at for at, goes in enumerate(going) if goes], device=logits.device)
                self._decoder.keep(kept)
                tokens, alive = tokens[kept], [alive[at] for at in kept.tolist()]
            if step + 1 < max(self._limits):
                logits = self._decoder.step(tokens)
        return [(row, self._text(place)) for place, row in enumerate(self._rows)]

    def _text(self, place: int) -> str:
        """Text of a row so far, without a last character of which only some bytes are generated."""
        return decode(self._lm, self._written[place]).rstrip("\ufffd")

    def _prefill(self) -> torch.Tensor:
        longest = max(map(len, self._starts))
        filler = self._lm.tokenizer.eos_token_id
        prompts = list(dict.fromkeys(map(tuple, self._starts)))  # many rows share a prompt
        number = {prompt: place for place, prompt in enumerate(prompts)}
        ids = torch.tensor([[filler] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        padding = torch.tensor([longest - len(prompt) for prompt in prompts])
        which = torch.tensor([number[tuple(start)] for start in self._starts])
        assert isinstance(self._lm.model, GPT2LMHeadModel)  # a masked model is asked by `gibbs`
        self._decoder = CachedDecoder(self._lm.model, len(self._rows), longest + max(self._limits))
        self._ended = [limit < 1 for limit in self._limits]
        return self._decoder.prefill(*(tensor.to(self._lm.device) for tensor in (ids, padding, which)))

    def _take(self, place: int, token: int, on_tokens: OnTokens | None) -> bool:
        """Add a token to a row unless it has ended; True if the row continues."""
        if self._ended[place]:
            return False
        if token == self._lm.tokenizer.eos_token_id:
            self._ended[place] = True
            return False
        written = self._written[place]
        written.append(token)
        if on_tokens:
            self._ended[place] = on_tokens(self._rows[place], self._text(place)) is False
        self._ended[place] |= len(written) >= self._limits[place]
        return not self._ended[place]
