"""Models of two layers × 32 and a few notes, small enough to be compared with naive loops."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
)

from core.models import tokenizer
from core.models.build import LanguageModel
from core.training.gradients.clipping import Clipper
from core.training.losses import Batch, causal_batch, masked_batch

KINDS = ("gpt2", "distilbert", "bert")
CPU = torch.device("cpu")
DEVICES = (CPU, torch.device("cuda")) if torch.cuda.is_available() else (CPU,)


def notes(count: int = 24, *, a_patient: int = 3, seed: int = 0, words: int = 25) -> pd.DataFrame:
    """So many notes of 3 to `words` words from a vocabulary of 30, `a_patient` of them each patient's."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choice("abcdefg") for _ in range(4)) for _ in range(30)]
    texts = [" ".join(rng.choice(vocabulary) for _ in range(rng.randint(3, words))) for _ in range(count)]
    ids = [f"patient-{number // a_patient}" for number in range(count)]
    return pd.DataFrame({"note_id": [f"note-{n}" for n in range(count)], "patient_id": ids, "text": texts})


_TOKENIZERS = {kind: tokenizer.train(kind, notes(60)["text"].tolist(), 420) for kind in KINDS}


def language_model(kind: str, *, tied: bool = True, seed: int = 0) -> LanguageModel:
    """A model with every weight drawn at random (also the scales of its LayerNorms), so that no gradient is trivial."""
    words = _TOKENIZERS[kind]
    shared = {"vocab_size": len(words), "tie_word_embeddings": tied, "pad_token_id": words.pad_token_id}
    if kind == "gpt2":
        config = GPT2Config(
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=2,
            activation_function="gelu_pytorch_tanh",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            **shared,
        )
        model = GPT2LMHeadModel(config)
    elif kind == "distilbert":
        config = DistilBertConfig(
            max_position_embeddings=64,
            dim=32,
            n_layers=2,
            n_heads=2,
            hidden_dim=64,
            dropout=0.0,
            attention_dropout=0.0,
            **shared,
        )
        model = DistilBertForMaskedLM(config)
    else:
        config = BertConfig(
            max_position_embeddings=64,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **shared,
        )
        model = BertForMaskedLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            centre = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(centre + 0.15 * torch.randn(parameter.shape, generator=generator))
    return LanguageModel(model.eval(), words, kind)


def samples(lm: LanguageModel, lengths: list[int], seed: int = 0) -> list[np.ndarray]:
    """Random token ids of the given lengths, with [CLS] … [SEP] for the masked kinds."""
    rng = np.random.default_rng(seed)
    ordinary = np.setdiff1d(np.arange(len(lm.tokenizer)), lm.tokenizer.all_special_ids)
    drawn = [rng.choice(ordinary, length) for length in lengths]
    if not lm.causal:
        for ids in drawn:
            ids[0], ids[-1] = lm.tokenizer.cls_token_id, lm.tokenizer.sep_token_id
    return drawn


def batch(lm: LanguageModel, ids: list[np.ndarray], seed: int = 0) -> tuple[Batch, list[Batch]]:
    """The samples as one padded batch, and each alone (with the same mask), where the model is."""
    if lm.causal:
        return causal_batch(ids, lm.device), [causal_batch([one], lm.device) for one in ids]
    keys = [np.random.default_rng([seed, row]).random((2, len(one))) for row, one in enumerate(ids)]
    alone = [masked_batch([one], [key], lm.tokenizer, lm.device) for one, key in zip(ids, keys, strict=True)]
    return masked_batch(ids, keys, lm.tokenizer, lm.device), alone


def accumulate(clipper: Clipper, losses: torch.Tensor, units: list[int]) -> torch.Tensor:
    """Add the clipped gradients of a physical batch that ran through the model in one piece. Returns the norms."""
    clipper.backward(losses, units)
    return clipper.clip()


def merged(batches: list[Batch]) -> Batch:
    """Batches of one example each, padded to one batch."""

    def padded(tensors: list[torch.Tensor], fill: int | bool) -> torch.Tensor:
        width = max(tensor.shape[1] for tensor in tensors)
        return torch.cat([torch.nn.functional.pad(one, (0, width - one.shape[1]), value=fill) for one in tensors])

    return Batch(
        ids=padded([one.ids for one in batches], 0),
        padding=padded([one.padding for one in batches], True),
        targets=padded([one.targets for one in batches], -100),
        positions=None if batches[0].positions is None else padded([one.positions for one in batches], 0),
        tokens=sum(one.tokens for one in batches),
    )
