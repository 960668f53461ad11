"""Text from masked models: filled masks, and Gibbs sampling (Lehman 2021, §6.6; Wang & Cho 2019)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import torch

from core.models.build import LanguageModel
from core.models.encoding import decode, encode
from core.models.generation import MASK
from core.models.generation.token_sampling import OnTokens, TokenSampler, check, check_length


def fill_masks(lm: LanguageModel, text: str, top: int = 10) -> list[list[tuple[str, float]]]:
    """Most probable pieces for every `[MASK]` of a text, with their probabilities, best first; one list for each mask.

    A piece that continues the word before it starts with `##`. Every mask is filled while the others stay hidden.

    Raises:
        ValueError: for a causal model, a text without `[MASK]`, or one longer than the context.
    """
    _check_masked(lm)
    ids = [lm.tokenizer.cls_token_id, *_encode_with_masks(lm, text), lm.tokenizer.sep_token_id]
    if lm.tokenizer.mask_token_id not in ids:
        raise ValueError("the text has no [MASK] to fill: write [MASK] where the model should guess")
    check_length(len(ids), lm.context)
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
    """Continue prompts with a masked model (Lehman 2021, §6.6): append masks, then draw one position after the other.

    The first sweep fills the masks from left to right. Each further sweep hides and redraws every position in a random
    order, given all others. `on_tokens` is called after each position with the text so far (masks left out). As in
    `sample`, each row has its own seed. Special tokens are never drawn.

    Raises:
        ValueError: as `sample` does, and when prompt and new tokens together exceed the context.
    """
    _check_masked(lm)
    check(prompts, seeds, new_tokens=new_tokens, temperature=temperature, top_k=top_k, top_p=1.0)
    if sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, not {sweeps}")
    if not prompts:
        return []
    starts = [[lm.tokenizer.cls_token_id, *ids] for ids in encode(lm, prompts)]
    for start in starts:
        check_length(len(start) + new_tokens + 1, lm.context)
    ids, attention = _masked_rows(lm, starts, new_tokens)
    places, uniform = _gibbs_plan([len(start) for start in starts], seeds, sweeps, new_tokens)
    choose = TokenSampler(temperature=temperature, top_k=top_k, top_p=1.0, greedy=False)
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
    """The position that each row draws at each step, and its uniform random number: both (B, sweeps × new_tokens)."""
    places, uniform = [], []
    for start, seed in zip(starts, seeds, strict=True):
        rng = np.random.default_rng(seed)
        orders = [np.arange(new_tokens)] + [rng.permutation(new_tokens) for _ in range(sweeps - 1)]
        places.append(start + np.concatenate(orders))
        uniform.append(rng.random(sweeps * new_tokens))
    return torch.from_numpy(np.stack(places)), torch.from_numpy(np.stack(uniform))


def _new_text(lm: LanguageModel, ids: torch.Tensor, start: list[int], new_tokens: int) -> str:
    """Text of the new tokens, with the space between prompt and text if there is one."""
    prompt = decode(lm, start)
    whole = decode(lm, ids[: len(start) + new_tokens].tolist())
    return whole[len(prompt) :] if whole.startswith(prompt) else decode(lm, ids[len(start) :][:new_tokens].tolist())


def _encode_with_masks(lm: LanguageModel, text: str) -> list[int]:
    """Token ids of a text with `[MASK]`s. What touches a mask is read as the rest of a word, as in training."""
    ids: list[int] = []
    pieces = re.split(re.escape(MASK), text)
    for number, piece in enumerate(pieces):
        if number:
            ids.append(lm.tokenizer.mask_token_id)
        if number and piece and not piece[0].isspace():
            ids += encode(lm, ["|" + piece])[0][1:]  # "|" is always a separate piece
        else:
            ids += encode(lm, [piece])[0]
    return ids


def _check_masked(lm: LanguageModel) -> None:
    if lm.causal:
        raise ValueError("gpt2 has no [MASK]: use sample")
