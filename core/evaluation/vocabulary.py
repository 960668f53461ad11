"""What a word list of the notes' own words costs and gains: names that stand in it, and how notes are read with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd
from tokenizers import pre_tokenizers

from core.corpus.tables import Corpus
from core.evaluation.bootstrap import patient_bootstrap, weighted_share
from core.evaluation.statistics import proportion_interval
from core.evaluation.summary import METRIC_COLUMNS, SPLIT_OF_ARM, Row
from core.spec import AuditSpec

NAMES, OWN_NAMES = "vocabulary_names", "vocabulary_rare_names"
BITS, TOKENS = "bits_per_character_heldout", "tokens_per_note_heldout"
OWN_TOKENS = ("perplexity_heldout", "perplexity_member", "perplexity_public")  # a token is another unit in each list
_WORDS = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


def with_vocabulary_figures(
    metrics: pd.DataFrame, entries: Sequence[str], reading: pd.DataFrame, corpus: Corpus, audit: AuditSpec
) -> pd.DataFrame:
    """The metrics table of a run with `entries` of its own: without what no longer compares, with what does.

    Perplexities are per token, and tokens differ from those of every other run and of the public model, so they are
    left out; `bits_per_character_heldout` and `tokens_per_note_heldout` take their place (arms `run` and `base`, from
    the table `reading`).
    """
    rows = [*names_in_vocabulary(entries, corpus), *_reading_figures(reading, audit)]
    own = pd.DataFrame(rows, columns=list(METRIC_COLUMNS)).astype(METRIC_COLUMNS)
    return pd.concat([metrics[~metrics["metric"].isin(OWN_TOKENS)], own], ignore_index=True)


def names_in_vocabulary(entries: Sequence[str], corpus: Corpus) -> Iterator[Row]:
    """Share of members, and of held-out patients as the control, of whose name a word is among the new `entries`.

    `vocabulary_names` counts any first or last name. `vocabulary_rare_names` counts only words that no other patient of
    the cohort is called by: such an entry says that this one person is among the notes. Wilson intervals.
    """
    new = {entry for entry in entries if not entry.startswith("##")}
    borne = bearers(corpus.patients)
    for metric, most in ((NAMES, len(corpus.patients)), (OWN_NAMES, 1)):
        for arm, split in SPLIT_OF_ARM.items():
            people = corpus.patients[corpus.patients["split"] == split]
            if people.empty:
                continue
            hit = sum(any(w in new and borne[w] <= most for w in name_words(name)) for name in people["full_name"])
            whose = "any of their names" if metric == NAMES else "a name that nobody else bears"
            low, high = proportion_interval(hit, len(people))
            note = f"{split} patients with {whose} among {len(entries):,} new entries"
            yield Row(metric, arm, hit / len(people), low, high, len(people), note)


def named_entries(entries: Sequence[str], corpus: Corpus) -> pd.DataFrame:
    """The new entries that are somebody's name: columns entry, place (1 = learned first), bearers, members, heldout."""
    people = corpus.patients[corpus.patients["split"].isin(SPLIT_OF_ARM.values())]
    by_split = {split: bearers(people[people["split"] == split]) for split in SPLIT_OF_ARM.values()}
    borne = bearers(corpus.patients)
    rows = [
        (entry, place, borne[entry], by_split["member"][entry], by_split["heldout"][entry])
        for place, entry in enumerate(entries, start=1)
        if borne[entry]
    ]
    return pd.DataFrame(rows, columns=["entry", "place", "bearers", "members", "heldout"])


def bearers(patients: pd.DataFrame) -> Counter[str]:
    """How many patients are called by each word of a name."""
    return Counter(word for name in patients["full_name"] for word in set(name_words(name)))


def name_words(name: object) -> list[str]:
    """The words of a name as the word list would hold them, without initials; none where there is no name."""
    return [word for word, _ in _WORDS.pre_tokenize_str(name) if len(word) > 1] if isinstance(name, str) else []


def _reading_figures(reading: pd.DataFrame, audit: AuditSpec) -> Iterator[Row]:
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
