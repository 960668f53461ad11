"""Initialise the first layer with attention to neighbouring tokens, for masked models pretrained on little text.

With random weights, a masked model spends most of a short pretraining at the loss of a unigram model: its prediction of
a hidden token is an average over the whole text, and attention to neighbours is learned late. The heads of the first
layer therefore start with sinusoidal positions and with queries rotated by one or two steps, which makes the heads
attend to the token 1 before, 1 after, 2 before, 2 after … (a structured initialisation, as in Trockman & Kolter 2023,
"Mimetic Initialization of Self-Attention Layers"). Everything stays trainable.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from core.spec import ModelKind

SHARPNESS = 3.0  # of queries and keys: about half of a head's attention is then on its token and the two beside it
LONGEST_PERIOD = 100.0  # of the sinusoids, relative to the shortest


def init_local_attention(model: nn.Module, kind: ModelKind) -> None:
    """Give the first layer of a new DistilBERT or BERT model local attention, in place.

    The first half of the width carries positions and the other half words, so that they do not interfere.
    """
    body: Any = model.base_model  # torch gives every part of a module the type Tensor | Module
    embeddings, layer = body.embeddings, _first_layer(model, kind)
    width = embeddings.word_embeddings.weight.shape[1]
    half, heads = width // 2, body.config.num_attention_heads
    speeds = LONGEST_PERIOD ** (-torch.arange(half // 2) / (half // 2))  # radians per token, for each pair of columns
    query, key, value, output = layer
    with torch.no_grad():
        words, positions = embeddings.word_embeddings.weight, embeddings.position_embeddings.weight
        angles = torch.arange(len(positions))[:, None] * speeds
        amplitude = math.sqrt(2) * float(words.std())
        positions.zero_()
        positions[:, 0:half:2] = amplitude * torch.sin(angles)
        positions[:, 1:half:2] = amplitude * torch.cos(angles)
        words[:, :half] = 0
        query.weight += SHARPNESS * _turned_pairs(width, heads, speeds, turned=True)
        key.weight += SHARPNESS * _turned_pairs(width, heads, speeds, turned=False)
        nn.init.orthogonal_(value.weight)
        nn.init.orthogonal_(output.weight)


def _turned_pairs(width: int, heads: int, speeds: torch.Tensor, *, turned: bool) -> torch.Tensor:
    """(width, width) matrix with which each head reads its share of the (sin, cos) pairs, rotated by its own offset."""
    matrix = torch.zeros(width, width)
    pairs = width // heads // 2
    stride = max(1, len(speeds) // pairs)
    for head in range(heads):
        offset = (head // 2 + 1) * (-1 if head % 2 == 0 else 1) if turned else 0
        for number in range(pairs):
            pair = number * stride + head % stride
            row, column = head * 2 * pairs + 2 * number, 2 * pair
            angle = float(speeds[pair]) * offset
            matrix[row, column], matrix[row, column + 1] = math.cos(angle), math.sin(angle)
            matrix[row + 1, column], matrix[row + 1, column + 1] = -math.sin(angle), math.cos(angle)
    return matrix


def _first_layer(model: nn.Module, kind: ModelKind) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """Query, key, value and output projections of the first layer."""
    body: Any = model.base_model
    if kind == "distilbert":
        attention = body.transformer.layer[0].attention
        return attention.q_lin, attention.k_lin, attention.v_lin, attention.out_lin
    attention = body.encoder.layer[0].attention
    return attention.self.query, attention.self.key, attention.self.value, attention.output.dense
