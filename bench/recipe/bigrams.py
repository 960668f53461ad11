"""How far DP gets without training: `python -m core bench bigrams --json`.

A table of how often each token follows each other one is released once by the Gaussian mechanism and mixed with the
public model. An expert asks whether DP-SGD does better than that. The unit is a note: its counts are scaled to a
Euclidean norm of at most `CLIP`, and two data sets are neighbours when one has one more note. Noise is added to all
V² cells, those of pairs that nobody wrote included, so the release is one Gaussian mechanism; what is done with the
table afterwards costs no ε. The threshold and the weight of the mixture are chosen on the tuning hospital
(`bench.recipe.recipes`), and the figures are those of another one. docs/methods/pairs.md compares them with DP-SGD.
"""

from __future__ import annotations

import json as json_format
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.recipe.recipes import MIDDLE, SMALL, TUNING_SEED
from core.common.randomness import PublicSeed
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.models.build import LanguageModel, load
from core.models.encoding import Samples, encode_samples
from core.models.likelihood import MAX_TOKENS, token_log_likelihoods
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec, PrivacySpec
from core.training.accounting import noise_multiplier

SIZES = {"classroom": SMALL, "classroom-12k": MIDDLE}  # reported hospital → patients of the tuning hospital
EPSILONS = (8.0, 4.0, 1.0)
CLIP = math.sqrt(40.0)  # the norm of a note with 40 different pairs
THRESHOLDS = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0)  # standard deviations of the noise, below which a cell counts as empty
WEIGHTS = (
    3.0,
    10.0,
    30.0,
    100.0,
    300.0,
    1_000.0,
)  # of the public model, in standard deviations of the noise (see `mixed`)
_STREAM = 61


@dataclass(frozen=True)
class Setting:
    """What is chosen on the tuning hospital: `threshold` and `weight` in standard deviations of the noise."""

    threshold: float
    weight: float


@dataclass(frozen=True)
class Scored:
    """Pairs of tokens of held-out notes: int64 (pairs,) `before` and `token`; `public` is the public model's log p."""

    before: np.ndarray
    token: np.ndarray
    public: np.ndarray
    characters: int


def main(json: bool = False) -> None:
    """Print the perplexity and bits a character of the mixture at each ε, and of the public model alone."""
    lm = load(ModelSpec(kind="gpt2"))
    rows = []
    for preset, patients in SIZES.items():
        tuning = CORPUS_PRESETS[preset].model_copy(update={"seed": TUNING_SEED, "patients": patients})
        rows += measured(lm, tuning, CORPUS_PRESETS[preset])
    print(json_format.dumps(rows) if json else pd.DataFrame(rows).to_string(index=False))


def measured(
    lm: LanguageModel, tuning: CorpusSpec, reported: CorpusSpec, epsilons: Sequence[float] = EPSILONS
) -> list[dict[str, Any]]:
    """Choose settings on the hospital `tuning`, and measure with them on `reported`.

    Returns:
        Rows of notes (that the table was made from), epsilon (None for the public model), sigma, threshold, weight, and
        of the held-out patients' notes perplexity and bits_per_character.
    """
    delta = PrivacySpec().delta
    there, here = build(tuning), build(reported)
    counts = {"there": clipped_counts(lm, there), "here": clipped_counts(lm, here)}
    scored = {"there": scored_pairs(lm, there), "here": scored_pairs(lm, here)}
    notes = len(here.training_notes(None))
    none = {"notes": notes, "epsilon": None, "sigma": None, "threshold": None, "weight": None}
    rows: list[dict[str, Any]] = [none | _figures(scored["here"], scored["here"].public)]
    for epsilon in epsilons:
        sigma = noise_multiplier(target_epsilon=epsilon, sample_rate=1.0, steps=1, delta=delta)
        deviation = sigma * CLIP
        tables = {name: noised(table, deviation) for name, table in counts.items()}
        chosen = best_setting(tables["there"], deviation, scored["there"])
        likelihoods = mixed(tables["here"], deviation, chosen, scored["here"])
        row = {
            "notes": notes,
            "epsilon": epsilon,
            "sigma": sigma,
            "threshold": chosen.threshold,
            "weight": chosen.weight,
        }
        rows.append(row | _figures(scored["here"], likelihoods))
    return rows


def clipped_counts(lm: LanguageModel, corpus: Corpus) -> np.ndarray:
    """How often each token follows each other one in the training notes, every note scaled to a norm of at most CLIP.

    Returns:
        float64 (V, V): row = token before, column = token; the beginning and the end of a note count as tokens.
    """
    texts = corpus.training_notes(None)["text"].tolist()
    samples = encode_samples(lm, texts, MAX_TOKENS)
    size = len(lm.tokenizer)
    table = np.zeros(size * size)
    for ids in _by_note(samples, len(texts)):
        cells, times = np.unique(np.concatenate([one[:-1] * size + one[1:] for one in ids]), return_counts=True)
        norm = math.sqrt(float((times.astype(float) ** 2).sum()))
        table[cells] += times * min(1.0, CLIP / norm)
    return table.reshape(size, size)


def noised(table: np.ndarray, deviation: float) -> np.ndarray:
    """The table as it is released: N(0, `deviation`²) added to every cell, from a public seed. float64 (V, V)."""
    noise = PublicSeed(0).stream(_STREAM).normal(scale=deviation, size=table.size)
    return table + noise.reshape(table.shape)


def best_setting(table: np.ndarray, deviation: float, scored: Scored) -> Setting:
    """The setting with the highest likelihood of the tuning hospital's held-out notes."""
    settings = [Setting(threshold, weight) for threshold in THRESHOLDS for weight in WEIGHTS]
    return max(settings, key=lambda one: float(mixed(table, deviation, one, scored).mean()))


def mixed(table: np.ndarray, deviation: float, setting: Setting, scored: Scored) -> np.ndarray:
    """Log p in nats of each scored token: float64 (pairs,).

    A cell counts if it is above the threshold. With R the sum of a row's counting cells and K = `weight` · `deviation`,
    p(token | before) = (cell + K · p_public) / (R + K): the public model has the weight of K observations (Dirichlet
    smoothing; MacKay & Peto 1995).
    """
    kept = np.where(table > setting.threshold * deviation, table, 0.0)
    prior = setting.weight * deviation
    cells = kept[scored.before, scored.token]
    return np.log((cells + prior * np.exp(scored.public)) / (kept.sum(axis=1)[scored.before] + prior))


def scored_pairs(lm: LanguageModel, corpus: Corpus) -> Scored:
    """The held-out patients' notes as pairs of tokens, with the public model's log-likelihood of each second one."""
    texts = corpus.notes_of("heldout")["text"].tolist()
    samples = encode_samples(lm, texts, MAX_TOKENS)
    public = np.concatenate(token_log_likelihoods(lm, texts))
    return Scored(
        before=np.concatenate([ids[:-1] for ids in samples.ids]),
        token=np.concatenate([ids[1:] for ids in samples.ids]),
        public=public,
        characters=sum(map(len, texts)),
    )


def _by_note(samples: Samples, notes: int) -> list[list[np.ndarray]]:
    """The samples of each note: a long note has several, and is one unit."""
    found: list[list[np.ndarray]] = [[] for _ in range(notes)]
    for ids, note in zip(samples.ids, samples.note_index, strict=True):
        found[note].append(ids)
    return found


def _figures(scored: Scored, likelihoods: np.ndarray) -> dict[str, float]:
    nats = -float(likelihoods.sum())
    return {
        "perplexity": math.exp(nats / len(likelihoods)),
        "bits_per_character": nats / math.log(2) / scored.characters,
    }
