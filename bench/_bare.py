"""Baseline loops in plain PyTorch and transformers, with the libraries' defaults.

Default activation (`gelu_new`), default AdamW, batches in the order of the file, padded to the longest note, loss by
`labels=`. Dropout is off on both sides, as in the shipped models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel

from core.models.build import LanguageModel


def with_defaults(lm: LanguageModel) -> LanguageModel:
    """The same weights in a model with GPT-2's own activation, as `from_pretrained` loads a hub model."""
    config = copy.deepcopy(lm.model.config)
    assert isinstance(config, GPT2Config)  # the shipped model is one
    config.activation_function = "gelu_new"
    model = GPT2LMHeadModel(config)
    model.load_state_dict(lm.model.state_dict())
    nn.Module.to(model, lm.device)
    return LanguageModel(model, lm.tokenizer, "gpt2")


def epochs(lm: LanguageModel, texts: Sequence[str], *, count: int, batch_size: int, rate: float) -> Callable[[], None]:
    """Plain training over `texts`, tokenized once, `count` times in the given order."""

    def run() -> None:
        rows = _tokenized(lm, texts)
        model: nn.Module = lm.model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        data = cast("Dataset[list[int]]", rows)  # a list serves as one
        loader = DataLoader(data, batch_size=batch_size, collate_fn=lambda part: _padded(lm, part))
        for _ in range(count):
            for ids, attention in loader:
                labels = ids.masked_fill(attention == 0, -100)
                loss = model(input_ids=ids, attention_mask=attention, labels=labels).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                loss.item()  # such a loop usually prints the loss

    return run


def scores(lm: LanguageModel, texts: Sequence[str], *, batch_size: int) -> Callable[[], Tensor]:
    """Mean negative log-likelihood of every text, (texts,), with batches in file order, each padded to its longest."""

    @torch.no_grad()
    def run() -> Tensor:
        found = []
        for start in range(0, len(texts), batch_size):
            ids, attention = _padded(lm, _tokenized(lm, texts[start : start + batch_size]))
            logits = lm.model(input_ids=ids, attention_mask=attention).logits[:, :-1]
            losses = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
            real = attention[:, 1:]
            found.append((losses.view_as(real) * real).sum(1) / real.sum(1))
        return torch.cat(found)

    return run


def _tokenized(lm: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Begin mark, text and end mark, in the same way as this project does it."""
    mark = lm.tokenizer.bos_token_id
    return [[mark, *ids, mark] for ids in lm.tokenizer(list(texts), add_special_tokens=False)["input_ids"]]


def _padded(lm: LanguageModel, rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    found = lm.tokenizer.pad({"input_ids": list(rows)}, return_tensors="pt").to(lm.device)
    return found["input_ids"], found["attention_mask"]
