"""Scoring notes for membership: `python -m core bench scoring --json`.

GPT-2 scores 10,000 whole notes (52 words on average) of a cohort like `study` with a few more patients. One side pads
batches of 32 in file order and takes `transformers`' logits; the other is `core.models.likelihood.note_losses`. Both
tokenize, and both return a mean loss per note; that they agree is checked before anything is timed. Batches in file
order are all alike, so every fifth of them is timed and the time multiplied; the other side sorts by length and scores
all notes. Notes of more than 192 tokens are left out, since `note_losses` scores those in several samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from bench import _bare
from bench._models import check_device
from bench._ratio import Figures, figure, in_turns, show
from core.corpus.synthetic.hospital import build
from core.models.build import LanguageModel, load
from core.models.encoding import encode
from core.models.likelihood import MAX_TOKENS, note_losses
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec

NOTES, BATCH, EVERY = 10_000, 32, 5
COHORT = CORPUS_PRESETS["study"].model_copy(update={"patients": 1_800})


def main(json: bool = False, rounds: int = 3, device: str = "cpu") -> None:
    """Print the figure of scoring."""
    check_device(device)
    lm = load(ModelSpec())
    torch.nn.Module.to(lm.model, device)
    show(measure(rounds, lm=lm, texts=notes(lm, NOTES)), json=json)


def notes(lm: LanguageModel, count: int, corpus: CorpusSpec = COHORT) -> list[str]:
    """The first `count` notes of a cohort that fit in one sample, in file order. Raises ValueError if too few do."""
    texts = build(corpus).notes["text"].tolist()
    fitting = [text for text, ids in zip(texts, encode(lm, texts), strict=True) if len(ids) + 2 <= MAX_TOKENS]
    if len(fitting) < count:
        raise ValueError(f"the cohort has {len(fitting):,} notes of one sample, not {count:,}: choose a larger cohort")
    return fitting[:count]


def measure(rounds: int, *, lm: LanguageModel, texts: Sequence[str]) -> Figures:
    """The figure over `texts`. Raises ValueError if the two sides do not give the same losses."""
    part = [text for number, text in enumerate(texts) if number // BATCH % EVERY == 0]
    some = texts[: 4 * BATCH]
    if not np.allclose(note_losses(lm, some), _bare.scores(lm, some, batch_size=BATCH)().cpu(), atol=1e-4):
        raise ValueError("the two ways of scoring do not agree, so their times cannot be compared")
    sides = {"padded": _bare.scores(lm, part, batch_size=BATCH), "ours": lambda: note_losses(lm, texts)}
    seconds = in_turns(sides, rounds, warm_up=0)
    scale = len(texts) / len(part)
    return figure("scoring_padded_over_ours", scale * seconds["padded"], seconds["ours"])
