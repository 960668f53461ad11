"""Does text from a private table help DP-SGD? `python -m core bench table_text --write FILE`.

A part of the budget pays for the table of pairs of `bench.recipe.bigrams`. Text is sampled from its mixture with the
public model, and the public model is trained on it without privacy: post-processing, so it costs no more ε. The rest of
the budget pays for DP-SGD from there on the notes. All of it is one composition of Gaussian mechanisms, one of them on
every note and the others on sampled batches, and the noise of DP-SGD is the least that keeps it within ε.

Everything is trained on the tuning hospital. Threshold and weight of the mixture are chosen on the held-out notes of a
third hospital, so no figure is that of notes by which something was chosen. docs/methods/pairs.md says what was found.
"""

from __future__ import annotations

import json as json_format
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import brentq

from bench.recipe import bigrams
from bench.recipe.recipes import SMALL, TUNING_SEED, scored
from core.common.randomness import PublicSeed
from core.common.transformers_parts import GPT2LMHeadModel
from core.corpus.synthetic.hospital import build
from core.models.build import LanguageModel, load
from core.models.encoding import decode
from core.models.generation.decoder import CachedDecoder
from core.models.likelihood import MAX_TOKENS
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec, PrivacySpec, TrainingSpec
from core.spec.recipes import recipe
from core.training.accounting import noise_multiplier
from core.training.accounting.privacy_loss import numerical_epsilon
from core.training.accounting.risk import rate_and_steps
from core.training.trainer import train

CHOOSING_SEED = 1_002  # of the hospital on which the mixture's threshold and weight are chosen
EPSILONS = (8.0, 1.0)
SHARES = (0.0, 0.4, 0.8)  # of the table: its μ over that of a table that has all of ε
TEXTS = 8_000
BATCH = 256  # texts that are written together
PUBLIC_TRAINING = TrainingSpec(epochs=3, batch_size=32, learning_rate=1e-3)  # on the sampled text; not tuned
_STREAM = 67


@dataclass(frozen=True)
class Setting:
    """One training: `share` of the budget for the table, 0 for DP-SGD alone."""

    patients: int
    epsilon: float
    share: float


GRID = tuple(Setting(SMALL, epsilon, share) for epsilon in EPSILONS for share in SHARES)


def main(json: bool = False, write: str | None = None) -> None:
    """Measure every setting that FILE lacks, and print all, one JSON object a line (`json` changes nothing)."""
    file = None if write is None else Path(write)
    lines = [] if file is None or not file.exists() else file.read_text(encoding="utf-8").splitlines()
    known = {Setting(row["patients"], row["epsilon"], row["share"]): row for row in map(json_format.loads, lines)}
    for setting in GRID:
        if setting not in known:
            known[setting] = measured(setting)
            if file is not None:
                with file.open("a", encoding="utf-8") as stored:
                    stored.write(json_format.dumps(known[setting]) + "\n")
        print(json_format.dumps(known[setting]), flush=True)


def measured(
    setting: Setting,
    cohort: CorpusSpec = CORPUS_PRESETS["classroom"],
    texts: int = TEXTS,
    training: TrainingSpec | None = None,
) -> dict[str, Any]:
    """Train one setting.

    Args:
        setting: budget and hospital.
        cohort: the kind of hospital.
        texts: number of texts that are sampled from the table.
        training: of DP-SGD; None takes the recipe's.

    Returns:
        The setting; `table_sigma` and `sigma` (None for no table); `written`, the figures of the public model after
        the sampled text; and those after DP-SGD (`bench.recipe.recipes.scored`).
    """
    there = cohort.model_copy(update={"seed": TUNING_SEED, "patients": setting.patients})
    corpus = build(there)
    notes = corpus.training_notes(None)
    training = training or recipe("gpt2", PrivacySpec(target_epsilon=setting.epsilon), notes=len(notes))
    rate, steps = rate_and_steps(training, len(notes))
    delta = PrivacySpec().delta
    lm = load(ModelSpec(kind="gpt2"))
    found: dict[str, Any] = {**asdict(setting), "notes": len(notes), "steps": steps, "table_sigma": None}
    if setting.share:
        whole = noise_multiplier(target_epsilon=setting.epsilon, sample_rate=1.0, steps=1, delta=delta)
        table_sigma = whole / setting.share
        table, chosen = _released(lm, there, table_sigma)
        written = write_texts(lm, table, chosen, table_sigma * bigrams.CLIP, texts)
        numbers = [str(number) for number in range(len(written))]
        public = pd.DataFrame({"text": written, "patient_id": numbers, "note_id": numbers})
        train(lm, public, PUBLIC_TRAINING, PrivacySpec())
        found |= {"table_sigma": table_sigma, "threshold": chosen.threshold, "weight": chosen.weight}
        found["written"] = scored(lm, corpus)
    sigma = noise_left(setting.epsilon, delta, found["table_sigma"], rate, steps)
    train(lm, notes, training, PrivacySpec(noise_multiplier=sigma, delta=delta))
    return found | {"sigma": sigma, "rate": training.learning_rate} | scored(lm, corpus)


def noise_left(epsilon: float, delta: float, table_sigma: float | None, rate: float, steps: int) -> float:
    """DP-SGD's σ with which it and a table with `table_sigma` (None: no table) are (ε, δ)-DP together.

    The privacy losses of both are composed numerically (`core.training.accounting.privacy_loss`).
    """
    if table_sigma is None:
        return noise_multiplier(target_epsilon=epsilon, sample_rate=rate, steps=steps, delta=delta)

    def excess(log_sigma: float) -> float:
        return numerical_epsilon({(table_sigma, 1.0): 1, (math.exp(log_sigma), rate): steps}, delta) - epsilon

    return math.exp(brentq(excess, math.log(0.3), math.log(100.0), xtol=1e-4)) * 1.0001


def _released(lm: LanguageModel, there: CorpusSpec, sigma: float) -> tuple[np.ndarray, bigrams.Setting]:
    """The noisy table of the hospital `there`, float64 (V, V), and the mixture chosen on a third hospital."""
    elsewhere = build(there.model_copy(update={"seed": CHOOSING_SEED}))
    deviation = sigma * bigrams.CLIP
    table = bigrams.noised(bigrams.clipped_counts(lm, elsewhere), deviation)
    chosen = bigrams.best_setting(table, deviation, bigrams.scored_pairs(lm, elsewhere))
    return bigrams.noised(bigrams.clipped_counts(lm, build(there)), deviation), chosen


def write_texts(
    lm: LanguageModel, table: np.ndarray, chosen: bigrams.Setting, deviation: float, count: int
) -> list[str]:
    """Sample `count` texts of at most MAX_TOKENS tokens from the mixture of `bigrams.mixed`, with a public seed."""
    kept = torch.from_numpy(np.where(table > chosen.threshold * deviation, table, 0.0).astype(np.float32))
    totals, prior = kept.sum(dim=1, keepdim=True), chosen.weight * deviation
    generator = torch.Generator().manual_seed(int(PublicSeed(0).stream(_STREAM).integers(2**31)))
    written: list[str] = []
    for first in range(0, count, BATCH):
        written += _write_batch(lm, kept, totals, prior, min(BATCH, count - first), generator)
    return [text for text in written if text]


def _write_batch(
    lm: LanguageModel, kept: torch.Tensor, totals: torch.Tensor, prior: float, rows: int, generator: torch.Generator
) -> list[str]:
    assert isinstance(lm.model, GPT2LMHeadModel)
    end, width = lm.tokenizer.eos_token_id, min(MAX_TOKENS, lm.context)
    tokens, alive = torch.full((rows,), lm.tokenizer.bos_token_id), list(range(rows))
    written: list[list[int]] = [[] for _ in alive]
    decoder = CachedDecoder(lm.model, rows, width)
    with torch.inference_mode():
        logits = decoder.prefill(
            tokens[:1, None], torch.zeros(1, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
        )
        for place in range(1, width):
            public = torch.softmax(logits, dim=-1)
            mixture = (kept[tokens] + prior * public) / (totals[tokens] + prior)
            tokens = torch.multinomial(mixture, 1, generator=generator)[:, 0]
            going = (tokens != end).nonzero()[:, 0]
            tokens, alive = tokens[going], [alive[row] for row in going.tolist()]
            for row, token in zip(alive, tokens.tolist(), strict=True):
                written[row].append(token)
            if not alive or place + 1 == width:
                break
            decoder.keep(going)
            logits = decoder.step(tokens)
    return [decode(lm, ids) for ids in written]
