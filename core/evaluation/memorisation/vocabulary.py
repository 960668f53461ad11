"""Costs and gains of a vocabulary from the notes: names that it contains, and how notes are tokenized with it.

The names are a separate leak (Hoory 2021, §3.2): nobody needs training to read them, and private training does not
remove them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tokenizers import pre_tokenizers

from core.common.randomness import PublicSeed
from core.corpus.tables import Corpus
from core.evaluation.stats.bootstrap import patient_bootstrap, weighted_share
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import METRIC_COLUMNS, SPLIT_OF_ARM, Row
from core.models.dp_vocabulary import check_extensible, train_pieces, unit_counts, unknown_words
from core.models.word_noise import WordNoise
from core.spec import AuditSpec, TrainingSpec, Unit, VocabularySpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
DRAWS = 5  # of the noise, for each ε
_STREAM = 43
NAMES, OWN_NAMES = "vocabulary_names", "vocabulary_rare_names"
BITS, TOKENS = "bits_per_character_heldout", "tokens_per_note_heldout"
OWN_TOKENS = ("perplexity_heldout", "perplexity_member", "perplexity_public", "bits_per_character")  # over own tokens
_WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


def with_vocabulary_figures(
    metrics: pd.DataFrame, entries: Sequence[str], reading: pd.DataFrame, corpus: Corpus, audit: AuditSpec
) -> pd.DataFrame:
    """The metrics table of a run with a vocabulary from its notes, with figures that can be compared to other runs.

    Perplexities are per token, and tokens differ from those of every other run and of the public model, so they are
    left out. `bits_per_character_heldout` and `tokens_per_note_heldout` take their place (arms `run` and `base`, from
    the table `reading`).
    """
    rows = [*names_in_vocabulary(entries, corpus), *reading_figures(reading, audit)]
    own = pd.DataFrame(rows, columns=list(METRIC_COLUMNS)).astype(METRIC_COLUMNS)
    return pd.concat([metrics[~metrics["metric"].isin(OWN_TOKENS)], own], ignore_index=True)


def names_in_vocabulary(entries: Sequence[str], corpus: Corpus) -> Iterator[Row]:
    """Share of members, and of held-out patients as the control, with a word of their name among the new `entries`.

    `vocabulary_names` counts any first or last name. `vocabulary_rare_names` counts only words that are in no other
    patient's name in the cohort: such an entry reveals that this one person is among the notes. Patients whose name is
    not known do not count; an arm without names has no row. Intervals are Wilson's.
    """
    new = {entry for entry in entries if not entry.startswith("##")}
    borne = bearers(corpus.patients)
    for metric, most in ((NAMES, len(corpus.patients)), (OWN_NAMES, 1)):
        for arm, split in SPLIT_OF_ARM.items():
            names = corpus.patients.loc[corpus.patients["split"] == split, "full_name"].map(name_words)
            named = [words for words in names if words]
            if not named:
                continue
            hit = sum(any(word in new and borne[word] <= most for word in words) for words in named)
            whose = "any of their names" if metric == NAMES else "a name that nobody else bears"
            low, high = proportion_interval(hit, len(named))
            note = f"{split} patients with {whose} among {len(entries):,} new entries"
            yield Row(metric, arm, hit / len(named), low, high, len(named), note)


def named_entries(entries: Sequence[str], corpus: Corpus) -> pd.DataFrame:
    """New entries that occur in a name: columns entry, place (1 = learned first), bearers, members, heldout."""
    people = corpus.patients[corpus.patients["split"].isin(SPLIT_OF_ARM.values())]
    by_split = {split: bearers(people[people["split"] == split]) for split in SPLIT_OF_ARM.values()}
    borne = bearers(corpus.patients)
    rows = [
        (entry, place, borne[entry], by_split["member"][entry], by_split["heldout"][entry])
        for place, entry in enumerate(entries, start=1)
        if borne[entry]
    ]
    return pd.DataFrame(rows, columns=["entry", "place", "bearers", "members", "heldout"])


def names_by_epsilon(
    lm: LanguageModel,
    corpus: Corpus,
    spec: VocabularySpec,
    *,
    unit: Unit = "note",
    epsilons: Sequence[float] = EPSILONS,
    draws: int = DRAWS,
) -> pd.DataFrame:
    """Names in the vocabulary that a public model would get from the training notes, for several ε, without training.

    Args:
        lm: The public model.
        corpus: The cohort.
        spec: Settings of the vocabulary; its ε is not used.
        unit: What ε protects.
        epsilons: Values of ε; ∞ means exact counts and a single draw.
        draws: Draws of the noise per ε. Which words of a unit count is drawn once, for all of them.

    Returns:
        One row per ε, draw of the noise and arm: epsilon, draw, threshold (in units), kept (words), entries, arm
        (`run`: members, `heldout`), names and rare_names (shares of patients as in `names_in_vocabulary`), patients.
        Empty if no names are known.

    Raises:
        ValueError: As in `core.models.dp_vocabulary.own_words`, such as for a tokenizer that cannot be extended.
    """
    check_extensible(lm)
    notes = corpus.training_notes(None if unit == "note" else TrainingSpec().max_notes_per_patient)
    exact = dict(Counter(word for text in notes["text"] for word in unknown_words(lm, text)))
    capped = unit_counts(partial(unknown_words, lm), notes, unit, spec.words, PublicSeed(0))
    rows = []
    for epsilon in epsilons:
        noise = None if math.isinf(epsilon) else WordNoise.planned(spec.model_copy(update={"epsilon": epsilon}))
        for draw in range(1 if noise is None else draws):
            kept = exact if noise is None else noise.release(capped, np.random.default_rng([draw, _STREAM]))
            entries = train_pieces(lm, kept, spec.pieces)
            found = {(row.metric, row.arm): row for row in names_in_vocabulary(entries, corpus)}
            threshold = math.nan if noise is None else noise.threshold
            for arm in [arm for arm in SPLIT_OF_ARM if (NAMES, arm) in found]:
                names, rare = found[NAMES, arm], found[OWN_NAMES, arm]
                shares = (names.value, rare.value, names.n)
                rows.append((epsilon, draw, threshold, len(kept), len(entries), arm, *shares))
    columns = ["epsilon", "draw", "threshold", "kept", "entries", "arm", "names", "rare_names", "patients"]
    return pd.DataFrame(rows, columns=columns)


def bearers(patients: pd.DataFrame) -> Counter[str]:
    """Number of patients whose name contains each word."""
    return Counter(word for name in patients["full_name"] for word in set(name_words(name)))


def name_words(name: object) -> list[str]:
    """The words of a name as a vocabulary would hold them, without initials; none if there is no name."""
    return [word for word, _ in _WORDS.pre_tokenize_str(name) if len(word) > 1] if isinstance(name, str) else []


def reading_figures(reading: pd.DataFrame, audit: AuditSpec) -> Iterator[Row]:
    """Bits per character, Σ −log₂ p(word) / Σ characters over predicted words, and tokens per note, of every arm."""
    for arm, rows in reading.groupby("arm", sort=False):
        bits = weighted_share(rows["nats"] / math.log(2), rows["characters"])
        length = weighted_share(rows["tokens"], pd.Series(1.0, index=rows.index))
        for metric, statistic, note in (
            (BITS, bits, "words hidden whole and put back piece by piece; patients resampled"),
            (TOKENS, length, "patients resampled"),
        ):
            found = patient_bootstrap(
                statistic, rows["patient_id"].to_numpy(), None, resamples=audit.bootstrap, seed=audit.seed
            )
            yield Row(metric, str(arm), found.value, found.low, found.high, int(rows["patient_id"].nunique()), note)
