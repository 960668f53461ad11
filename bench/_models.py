"""Models with random weights for the benchmarks: the time of a step does not depend on the weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from transformers import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from core.corpus.public_text import training_text
from core.models import tokenizer
from core.models.build import ACTIVATION, LanguageModel
from core.spec import ModelKind

CONTEXT = 256


@dataclass(frozen=True)
class Shape:
    """Size of a model."""

    layers: int
    width: int
    heads: int
    vocabulary: int


SHAPES = {
    "tiny": Shape(layers=4, width=128, heads=4, vocabulary=2_048),
    "gpt2": Shape(layers=12, width=768, heads=12, vocabulary=50_257),  # 124 million parameters, like the smallest GPT-2
}


@lru_cache(maxsize=4)
def _words(kind: ModelKind, size: int) -> PreTrainedTokenizerFast:
    return tokenizer.train(kind, training_text(), size)


def random_model(kind: ModelKind, shape: Shape, *, tied: bool = True, device: str = "cpu") -> LanguageModel:
    """A GPT-2 or DistilBERT of that shape without dropout, with the same weights in every call.

    Its tokenizer has at most 2,048 entries, even if the model's vocabulary is larger.

    Raises:
        ValueError: The kind is neither of the two.
    """
    words = _words(kind, min(shape.vocabulary, 2_048))
    shared = {
        "vocab_size": max(shape.vocabulary, len(words)),
        "tie_word_embeddings": tied,
        "pad_token_id": words.pad_token_id,
    }
    torch.manual_seed(0)
    model: PreTrainedModel
    if kind == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(
                n_positions=CONTEXT,
                n_embd=shape.width,
                n_layer=shape.layers,
                n_head=shape.heads,
                activation_function=ACTIVATION,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=words.bos_token_id,
                eos_token_id=words.eos_token_id,
                **shared,
            )
        )
    elif kind == "distilbert":
        model = DistilBertForMaskedLM(
            DistilBertConfig(
                max_position_embeddings=CONTEXT,
                dim=shape.width,
                n_layers=shape.layers,
                n_heads=shape.heads,
                hidden_dim=4 * shape.width,
                activation=ACTIVATION,
                dropout=0.0,
                attention_dropout=0.0,
                **shared,
            )
        )
    else:
        raise ValueError(f"there is no random model of kind {kind!r}: choose gpt2 or distilbert")
    return LanguageModel(model.eval().to(device), words, kind)


def chosen(shape: str, device: str) -> Shape:
    """The shape of that name. Raises ValueError for an unknown shape, or a device that this machine does not have."""
    if shape not in SHAPES:
        raise ValueError(f"--shape: there is no model “{shape}”. Choose {' or '.join(SHAPES)}.")
    check_device(device)
    return SHAPES[shape]


def check_device(device: str) -> None:
    """Raise ValueError for a device that this machine does not have."""
    if not (device == "cpu" or device.startswith("cuda") and torch.cuda.is_available()):
        raise ValueError(f"--device: this machine has no “{device}”. Choose cpu, or cuda on a machine with a GPU.")
