"""Text from models: sampling (GPT-2), and filled masks and Gibbs sampling (the masked kinds, row L7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import torch

from core.models.build import LanguageModel
from core.models.decoder import CachedDecoder
from core.models.tokenizer import decode, encode

OnTokens = Callable[[int, str], bool | None]  # (row of the call, text so far); returning False ends that row
MASK = "[MASK]"
_COMPACT_BELOW = 0.75  # finished rows leave the batch when fewer than this share is still writing


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
    """Continue every prompt by at most `new_tokens` tokens; the texts come without their prompts.

    Row i draws its tokens with `seeds[i]` alone, so it writes the same text alone or in a batch. Logits are divided by
    `temperature`, cut to the `top_k` best, then to the smallest set whose probability reaches `top_p` (as in
    `transformers`). A row ends at the end-of-text token, when the context is full, when `on_tokens` returns False, or,
    with all others, when `should_stop` returns True; what was written so far is kept.

    Raises ValueError for a masked model, settings out of range, or a prompt that does not fit into the context.
    """
    if not lm.causal:
        raise ValueError(f"a {lm.kind} model does not continue a text: use gibbs or fill_masks")
    _check(prompts, seeds, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    starts = [[lm.tokenizer.bos_token_id, *ids] for ids in encode(lm, prompts)]
    for ids in starts:
        _check_length(len(ids) + 1, lm.context)
    order = sorted(range(len(starts)), key=lambda row: len(starts[row]))
    texts = [""] * len(starts)
    with torch.inference_mode():
        for first in range(0, len(order), batch_size):
            if should_stop and should_stop():
                break
            rows = order[first : first + batch_size]
            batch = _Batch(lm, rows, [starts[row] for row in rows], [seeds[row] for row in rows], new_tokens)
            choose = _Chooser(temperature=temperature, top_k=top_k, top_p=top_p, greedy=greedy)
            for row, text in batch.write(choose, on_tokens, should_stop):
                texts[row] = text
    return texts


class _Chooser:
    """Picks a token a row from logits and one uniform number a row."""

    def __init__(self, *, temperature: float, top_k: int, top_p: float, greedy: bool) -> None:
        self._temperature, self._top_k, self._top_p, self._greedy = temperature, top_k, top_p, greedy

    def __call__(self, logits: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
        """(B, vocabulary) logits and (B,) float64 numbers in [0, 1) → (B,) token ids."""
        if self._greedy:
            return logits.argmax(-1)
        best, ids = _best(logits, min(self._top_k, logits.shape[-1]))
        probability = torch.softmax(best.double() / self._temperature, dim=-1)
        before = probability.cumsum(-1) - probability  # probability of the better tokens
        probability = probability * (before < self._top_p)
        cumulative = probability.cumsum(-1)
        drawn = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)
        last_kept = (probability > 0).sum(-1) - 1
        return ids.gather(-1, torch.minimum(drawn, last_kept)[:, None]).squeeze(-1)


def _best(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest of each row and their places, best first, as `torch.topk`: both (B, count).

    On a CPU by numpy's partition, which takes a third of the time of `torch.topk` (3,072 logits, best 50).
    """
    if logits.device.type != "cpu":
        return torch.topk(logits, count)
    values = logits.numpy()
    places = np.argpartition(values, values.shape[-1] - count, axis=-1)[:, -count:]
    found = np.take_along_axis(values, places, -1)
    order = np.argsort(-found, axis=-1, kind="stable")
    return torch.from_numpy(np.take_along_axis(found, order, -1)), torch.from_numpy(
        np.take_along_axis(places, order, -1)
    )


class _Batch:
    """Rows that are written together."""

    def __init__(
        self,
        lm: LanguageModel,
        rows: Sequence[int],
        starts: Sequence[list[int]],
        seeds: Sequence[int],
        new_tokens: int,
    ) -> None:
        self._lm = lm
        self._rows = list(rows)
        self._starts = starts
        self._written: list[list[int]] = [[] for _ in rows]
        self._limits = [min(new_tokens, lm.context - len(ids)) for ids in starts]
        self._uniform = torch.from_numpy(np.stack([np.random.default_rng(seed).random(new_tokens) for seed in seeds]))

    def write(
        self, choose: _Chooser, on_tokens: OnTokens | None, should_stop: Callable[[], bool] | None
    ) -> list[tuple[int, str]]:
        """Write all rows to their end; (row of the call, text) of each."""
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
        """Text of a row so far; a character of which only some bytes are written is left out."""
        return decode(self._lm, self._written[place]).rstrip("\ufffd")

    def _prefill(self) -> torch.Tensor:
        longest = max(map(len, self._starts))
        filler = self._lm.tokenizer.eos_token_id
        prompts = list(dict.fromkeys(map(tuple, self._starts)))  # many rows have the same one
        number = {prompt: place for place, prompt in enumerate(prompts)}
        ids = torch.tensor([[filler] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        padding = torch.tensor([longest - len(prompt) for prompt in prompts])
        which = torch.tensor([number[tuple(start)] for start in self._starts])
        self._decoder = CachedDecoder(self._lm.model, len(self._rows), longest + max(self._limits))
        self._ended = [limit < 1 for limit in self._limits]
        return self._decoder.prefill(*(tensor.to(self._lm.device) for tensor in (ids, padding, which)))

    def _take(self, place: int, token: int, on_tokens: OnTokens | None) -> bool:
        """Add a token to a row unless it has ended; True when it goes on after it."""
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


def fill_masks(lm: LanguageModel, text: str, top: int = 10) -> list[list[tuple[str, float]]]:
    """Most probable pieces for every `[MASK]` of a text, with their probabilities, best first; one list a mask.

    A piece that continues the word before it starts with `##`. Every mask is filled while the others stay hidden.
    Raises ValueError for a causal model, a text without `[MASK]`, or one longer than the context.
    """
    _check_masked(lm)
    ids = [lm.tokenizer.cls_token_id, *_encode_with_masks(lm, text), lm.tokenizer.sep_token_id]
    if lm.tokenizer.mask_token_id not in ids:
        raise ValueError("the text has no [MASK] to fill: write [MASK] where the model should guess")
    _check_length(len(ids), lm.context)
    tensor = torch.tensor([ids], device=lm.device)
    with torch.inference_mode():
        hidden = lm.hidden(tensor)[tensor == lm.tokenizer.mask_token_id]
        probability, pieces = torch.softmax(lm.head(hidden), dim=-1).topk(min(top, lm.model.config.vocab_size))
    return [
        list(zip(lm.tokenizer.convert_ids_to_tokens(row), chances, strict=True))
        for row, chances in zip(pieces.tolist(), probability.tolist(), strict=True)
    ]


def gibbs(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    new_tokens: int,
    seeds: Sequence[int],
    sweeps: int = 3,
    temperature: float = 0.8,
    top_k: int = 50,
    on_tokens: OnTokens | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[str]:
    """Continue prompts with a masked model (row L7): append masks, then draw one position after the other.

    The first sweep fills the masks from left to right; each further one hides and redraws every position in a random
    order, given all others. `on_tokens` is called after each position with the text so far (masks left out). One seed a
    row, as in `sample`; special tokens are never drawn. Raises ValueError as `sample` does, and when prompt and new
    tokens together exceed the context.
    """
    _check_masked(lm)
    _check(prompts, seeds, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=1.0)
    if sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, not {sweeps}")
    starts = [[lm.tokenizer.cls_token_id, *ids] for ids in encode(lm, prompts)]
    for start in starts:
        _check_length(len(start) + new_tokens + 1, lm.context)
    ids, attention = _masked_rows(lm, starts, new_tokens)
    places, uniform = _gibbs_plan([len(start) for start in starts], seeds, sweeps, new_tokens)
    choose = _Chooser(temperature=temperature, top_k=top_k, top_p=1.0, greedy=False)
    special = torch.tensor(lm.tokenizer.all_special_ids, device=lm.device)
    rows, going = torch.arange(len(starts), device=lm.device), [True] * len(starts)
    with torch.inference_mode():
        for draw in range(places.shape[1]):
            at = places[:, draw].to(lm.device)
            before = ids[rows, at]
            ids[rows, at] = lm.tokenizer.mask_token_id
            logits = lm.head(lm.hidden(ids, attention)[rows, at]).index_fill(1, special, -torch.inf)
            tokens = choose(logits, uniform[:, draw].to(lm.device))
            ids[rows, at] = torch.where(torch.tensor(going, device=lm.device), tokens, before)
            if on_tokens:
                for row, start in enumerate(starts):
                    going[row] = going[row] and on_tokens(row, _new_text(lm, ids[row], start, new_tokens)) is not False
            if not any(going) or (should_stop and should_stop()):
                break
    return [_new_text(lm, ids[row], start, new_tokens) for row, start in enumerate(starts)]


def _masked_rows(lm: LanguageModel, starts: Sequence[list[int]], new_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[CLS] prompt [MASK] × new_tokens [SEP], padded on the right: ids and attention mask, both (B, T)."""
    end = [lm.tokenizer.mask_token_id] * new_tokens + [lm.tokenizer.sep_token_id]
    longest = max(map(len, starts)) + len(end)
    ids = [start + end + [lm.tokenizer.pad_token_id] * (longest - len(start) - len(end)) for start in starts]
    attention = [[1] * (len(start) + len(end)) + [0] * (longest - len(start) - len(end)) for start in starts]
    return torch.tensor(ids, device=lm.device), torch.tensor(attention, device=lm.device)


def _gibbs_plan(
    starts: Sequence[int], seeds: Sequence[int], sweeps: int, new_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which position each row draws when, and with which uniform number: both (B, sweeps × new_tokens)."""
    places, uniform = [], []
    for start, seed in zip(starts, seeds, strict=True):
        rng = np.random.default_rng(seed)
        orders = [np.arange(new_tokens)] + [rng.permutation(new_tokens) for _ in range(sweeps - 1)]
        places.append(start + np.concatenate(orders))
        uniform.append(rng.random(sweeps * new_tokens))
    return torch.from_numpy(np.stack(places)), torch.from_numpy(np.stack(uniform))


def _new_text(lm: LanguageModel, ids: torch.Tensor, start: list[int], new_tokens: int) -> str:
    """Text of the new tokens, with the space that stands between prompt and text, if there is one."""
    prompt = decode(lm, start)
    whole = decode(lm, ids[: len(start) + new_tokens].tolist())
    return whole[len(prompt) :] if whole.startswith(prompt) else decode(lm, ids[len(start) :][:new_tokens].tolist())


def _encode_with_masks(lm: LanguageModel, text: str) -> list[int]:
    """Token ids of a text with `[MASK]`s; what touches a mask is read as the rest of a word, as in training."""
    ids: list[int] = []
    pieces = re.split(re.escape(MASK), text)
    for number, piece in enumerate(pieces):
        if number:
            ids.append(lm.tokenizer.mask_token_id)
        if number and piece and not piece[0].isspace():
            ids += encode(lm, ["|" + piece])[0][1:]  # "|" is always a piece of its own
        else:
            ids += encode(lm, [piece])[0]
    return ids


def _check_masked(lm: LanguageModel) -> None:
    if lm.causal:
        raise ValueError("gpt2 has no [MASK]: use sample")


def _check_length(tokens: int, context: int) -> None:
    if tokens > context:
        raise ValueError(
            f"the text is too long: with what is to be written it takes {tokens} tokens, and this model reads at most "
            f"{context}. Shorten the prompt."
        )


def _check(
    prompts: Sequence[str], seeds: Sequence[int], *, new_tokens: int, temperature: float, top_k: int, top_p: float
) -> None:
    if len(prompts) != len(seeds):
        raise ValueError(f"give one seed a prompt: there are {len(prompts)} prompts and {len(seeds)} seeds")
    if new_tokens < 1:
        raise ValueError(f"new_tokens must be at least 1, not {new_tokens}")
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, not {temperature} (greedy=True picks the best token)")
    if top_k < 1 or not 0 < top_p <= 1:
        raise ValueError(f"top_k must be at least 1 and top_p above 0 and at most 1, not {top_k} and {top_p}")
