"""What generated notes give away if they are released instead of the model that wrote them, and what they are good for.

Every figure has its control: held-out patients, whom no model read, beside members, or the public model beside the one
trained on the notes. `core.pipeline.released_notes` makes the notes and the models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer

from core.attacks.memorisation.extraction import searched_by
from core.attacks.memorisation.own_values import own_hits
from core.corpus.tables import Corpus
from core.evaluation.stats.bootstrap import (
    Interval,
    patient_bootstrap,
    weighted_auc,
    weighted_perplexity,
    weighted_share,
)
from core.evaluation.stats.boundary_intervals import auc_interval, share_interval, units_tried
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import METRIC_COLUMNS, Row, searchable
from core.evaluation.utility.distance import area_interval
from core.evaluation.utility.sentences import fitting
from core.evaluation.wording import FOUND_BY
from core.phi.detector.engine import SHAPES
from core.phi.fields import DIRECT
from core.tasks.released import LIST, TaggerCounts
from core.tasks.texts import LEFT

WORDS = 5  # of a sequence that two texts may share
RESAMPLES = 1_000
HELD_OUT = "held out"  # the arm of real notes that no model read
HIGHEST = 0.99  # the share of texts below the likeness that is told
_TEXTS = 64  # compared with all notes at once


def _row(figure: str, arm: str, found: Interval, n: int, note: str) -> Row:
    return Row(figure, arm, found.value, found.low, found.high, n, note)


def named(hits: pd.DataFrame, corpus: Corpus, texts: int) -> list[Row]:
    """Whose direct identifiers the texts hold, and in how many texts there is one that belongs to nobody.

    Args:
        hits: of the texts, as from `core.attacks.memorisation.extraction.value_hits`. The note of the second figure
            names their detector if it is not the shapes.
        corpus: the cohort; patients without a direct identifier of their own that can be searched for are not counted.
        texts: how many there are.
    """
    direct = own_hits(hits, corpus.shared_values)
    direct = direct[direct["field"].isin(DIRECT)]
    patients = corpus.patients[searchable(corpus, DIRECT)]
    found = []
    for arm, split in (("members", "member"), ("held out", "heldout")):
        ids = set(patients.loc[patients["split"] == split, "patient_id"])
        count = len(ids & set(direct["patient_id"].dropna()))
        found.append(_share("patients_named", arm, count, len(ids), "patients with a direct identifier in any text"))
    phantom = direct.loc[direct["patient_id"].isna(), "generation_id"].nunique()
    by = "" if searched_by(hits) == SHAPES else f"{FOUND_BY}{searched_by(hits)}"
    found.append(_share("texts_with_phantom", "texts", phantom, texts, f"texts with an invented identifier{by}"))
    return found


def _share(figure: str, arm: str, count: int, of: int, note: str) -> Row:
    if not of:
        return Row(figure, arm, np.nan, np.nan, np.nan, 0, note)
    low, high = proportion_interval(count, of)
    return Row(figure, arm, count / of, low, high, of, note)


def likeness(texts: Sequence[str], notes: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """How much of each text stands in one note of a patient: the share of its different five-word sequences.

    Case and line breaks do not count. A text of fewer than five words is like no note.

    Args:
        texts: released texts.
        notes: columns patient_id and text.

    Returns:
        The largest share over each patient's notes, (texts, patients), and the patients' ids, (patients,).
    """
    words = CountVectorizer(
        ngram_range=(WORDS, WORDS), tokenizer=str.split, token_pattern=None, binary=True, dtype=np.float32
    )
    ids, of_note = np.unique(notes["patient_id"].to_numpy(dtype=object), return_inverse=True)
    found = np.zeros((len(texts), len(ids)), dtype=np.float32)
    if not any(len(text.split()) >= WORDS for text in texts):
        return found, ids
    of_texts = words.fit_transform(texts)
    order = np.argsort(of_note, kind="stable")
    of_notes = words.transform(notes["text"].iloc[order]).T.tocsr()
    first = np.searchsorted(of_note[order], np.arange(len(ids)))
    lengths = np.maximum(np.asarray(of_texts.sum(axis=1)).ravel(), 1)
    for start in range(0, len(texts), _TEXTS):
        rows = slice(start, start + _TEXTS)
        shared = np.asarray((of_texts[rows] @ of_notes).todense()) / lengths[rows, None]
        found[rows] = np.maximum.reduceat(shared, first, axis=1)
    return found, ids


def nearest(texts: Sequence[str], members: pd.DataFrame, heldout: pd.DataFrame, *, seed: int) -> list[Row]:
    """Is a released text nearer to a note that was trained on than to one that was not? 0.5 is chance.

    Text by text, the note with most of its five-word sequences is sought among equally many members and held-out
    patients; the share counts texts whose nearest note is a member's, ties ½. If training had no effect, members are
    patients like the others, so the labels of all patients are permuted (`_by_chance`). The interval is the value less
    what permuted shares differ from ½ in 95 %: it leaves out ½ exactly where the permutation test at 5 % does. The note
    has the shares by chance and the p-value.
    Where no text shares a sequence with any note, nothing was compared, and there is no value.

    Args:
        texts: released texts.
        members: notes that were trained on (patient_id, text).
        heldout: notes of patients whom no model read.
        seed: of the choice of patients on the larger side, and of the permutations.
    """
    rng = np.random.default_rng([seed, 61])
    sides = [likeness(texts, notes)[0] for notes in (members, heldout)]
    count = min(side.shape[1] for side in sides)
    sides = [side[:, np.sort(rng.permutation(side.shape[1])[:count])] for side in sides]
    if max(float(side.max()) for side in sides) == 0.0:
        nothing = Interval(np.nan, np.nan, np.nan)
        return [_row("nearer_to_members", "texts", nothing, len(texts), "texts; none shares five words")]
    value, chance = _by_chance(sides, rng)
    low, high = np.quantile(chance, 0.025, method="lower"), np.quantile(chance, 0.975, method="higher")
    p_value = min(1.0, 2 * min(np.mean(chance >= value), np.mean(chance <= value)))
    found = Interval(value, max(0.0, value - float(high) + 0.5), min(1.0, value + 0.5 - float(low)))
    note = f"texts; {count} patients on each side; by chance {low:.3f} to {high:.3f}, p = {p_value:.2g}"
    return [
        _row("nearer_to_members", "texts", found, len(texts), note),
        *(
            _row("longest_likeness", arm, _quantile(side.max(axis=1), HIGHEST), len(texts), "texts; 99th percentile")
            for arm, side in zip(("members", "held out"), sides, strict=True)
        ),
    ]


def _quantile(values: np.ndarray, share: float) -> Interval:
    """A quantile with the order statistics between which that of the distribution lies in 95 % of samples.

    The number B of values below it is binomial. The k-th smallest value is at most the quantile if B ≥ k, and the j-th
    is at least it if B < j. Where no value is small or large enough for that, the end is 0 or 1: values are shares.
    """
    ordered, size = np.sort(values), len(values)
    least, most = stats.binom.ppf([0.025, 0.975], size, share).astype(int)
    low = ordered[least - 1] if least > 0 else 0.0
    high = ordered[most] if most < size else 1.0
    return Interval(float(np.quantile(values, share)), float(low), float(high))


def _by_chance(sides: Sequence[np.ndarray], rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The share of texts nearer to the first side, ties ½, and that share under `RESAMPLES` labellings of all patients.

    The first labelling is the true one, so a test by their ranks is exact. Only the patients nearest to a text matter:
    it counts for the first side if any of them is labelled as its own, for the other if any is not, and half if both.
    """
    likeness_of = np.concatenate(sides, axis=1)
    nearest_ones = (likeness_of == likeness_of.max(axis=1, keepdims=True)).astype(np.float32)
    own = np.zeros((likeness_of.shape[1], RESAMPLES), dtype=np.float32)
    own[: sides[0].shape[1]] = 1.0
    own[:, 1:] = rng.permuted(own[:, 1:], axis=0)
    found = np.concatenate(
        [
            ((part @ own > 0).astype(np.float64) + 1 - (part @ (1 - own) > 0)).sum(axis=0, keepdims=True) / 2
            for part in np.array_split(nearest_ones, max(1, len(nearest_ones) // _TEXTS))
        ]
    ).sum(axis=0) / len(nearest_ones)
    return float(found[0]), found


def membership(scored: pd.DataFrame, arms: Sequence[str]) -> list[Row]:
    """AUC by patient of the likelihood ratio to the public model (Mireshghallah 2022, §2.2), for each model.

    Args:
        scored: a row a note: patient_id, member (bool), tokens, and for `public` and every arm the summed nats.
        arms: models to compare with the public one, as columns.
    """
    found = []
    for arm in arms:
        gain = ((scored["public"] - scored[arm]) / scored["tokens"]).groupby(scored["patient_id"]).mean()
        member = scored.groupby("patient_id")["member"].first().loc[gain.index]
        auc = patient_bootstrap(weighted_auc(gain.tolist(), member.tolist()), gain.index, member, resamples=RESAMPLES)
        auc = auc_interval(auc, int(member.sum()), int((~member).sum()))
        found.append(_row("auc_ratio_patient", arm, auc, len(gain), "patients; 0.5 is chance"))
    return found


def usefulness(scored: pd.DataFrame, arms: Sequence[str]) -> list[Row]:
    """Perplexity of held-out notes under each model, exp(nats / tokens). `scored`: as in `membership`."""
    heldout = scored[~scored["member"]]
    found = []
    for arm in arms:
        statistic = weighted_perplexity(heldout[arm] / heldout["tokens"], heldout["tokens"])
        value = patient_bootstrap(statistic, heldout["patient_id"], resamples=RESAMPLES)
        found.append(_row("perplexity", arm, value, heldout["patient_id"].nunique(), "held-out patients"))
    return found


def similarity(counts: Mapping[str, pd.DataFrame], *, seed: int) -> list[Row]:
    """How close texts are to held-out notes as a whole (Pillutla et al. 2021), 1 for the same distribution.

    Args:
        counts: for each arm the rows of `core.tasks.texts.cluster_counts`.
        seed: of the resamples.
    """
    found = []
    for arm, rows in counts.items():
        value = area_interval(rows, resamples=RESAMPLES, seed=seed)
        number = int(rows.loc[rows["kind"] == LEFT, "trials"].sum())
        found.append(_row("text_similarity", arm, value, number, "texts, against as many held-out notes"))
    return found


def coherence(arm: str, texts: Sequence[str], heldout: pd.DataFrame, *, seed: int) -> list[Row]:
    """Share of sentences with two facts or more whose facts fit one disease group; controls: real notes, and shuffled.

    Args:
        arm: of the texts.
        texts: released texts; the last sentence of one that was cut does not count.
        heldout: held-out notes (patient_id, text).
        seed: of the shuffles.
    """
    written = fitting(texts, unfinished=True, seed=seed)
    real = fitting(heldout["text"].tolist(), unfinished=False, seed=seed)
    return [
        _fits("facts_fit", arm, written.fits, written.sentences, np.arange(len(texts)), "texts"),
        _fits("facts_fit", HELD_OUT, real.fits, real.sentences, heldout["patient_id"].to_numpy(), "patients"),
        _fits("facts_fit_shuffled", arm, written.shuffled, written.sentences, np.arange(len(texts)), "texts"),
    ]


def _fits(figure: str, arm: str, hits: np.ndarray, of: np.ndarray, units: np.ndarray, what: str) -> Row:
    count = int(of.sum())
    if not count:
        return Row(figure, arm, np.nan, np.nan, np.nan, 0, "no sentence states two facts")
    value = patient_bootstrap(weighted_share(hits, of), units, resamples=RESAMPLES)
    value = share_interval(value, units_tried(units, of))
    return _row(figure, arm, value, count, f"sentences with two facts or more; {what} resampled")


def answers(counts: pd.DataFrame, arm: str) -> list[Row]:
    """Share of claims about held-out notes that are judged right, from rows of the task `inference`; none without."""
    if counts.empty:
        return []
    patients = counts["patient_id"].nunique()
    value = patient_bootstrap(weighted_share(counts["correct"], counts["trials"]), counts["patient_id"])
    value = share_interval(value, patients)
    return [_row("nli_accuracy", arm, value, patients, "held-out patients; a third is chance")]


def taggers(found: Mapping[str, TaggerCounts], *, seed: int) -> list[Row]:
    """F1, precision and recall of entities in held-out notes, for a tagger fitted on the texts of each arm.

    Micro averages over types and patients, as for models (`entity_f1`); held-out patients are resampled, and the
    fitted head stays as it is.

    Args:
        found: By arm, from `core.tasks.released.tagger_counts`.
        seed: Of the resamples.
    """
    rows = []
    for arm, of_arm in found.items():
        counts = of_arm.counts
        patients = counts["patient_id"].nunique()
        fitted = "no tagger" if arm == LIST else f"fitted on {of_arm.texts} texts with {of_arm.labels:,} labels"
        for figure, above, below in (
            ("entity_f1", 2 * counts["correct"], counts["trials"] + counts["predicted"]),
            ("entity_precision", counts["correct"], counts["predicted"]),
            ("entity_recall", counts["correct"], counts["trials"]),
        ):
            value = Interval(np.nan, np.nan, np.nan)
            if below.sum():
                statistic = weighted_share(above.to_numpy(), below.to_numpy())
                value = patient_bootstrap(statistic, counts["patient_id"], resamples=RESAMPLES, seed=seed)
                value = share_interval(value, units_tried(counts["patient_id"], below))
            rows.append(_row(figure, arm, value, patients, f"held-out patients; {fitted}"))
    return rows


def table(figures: Sequence[Row]) -> pd.DataFrame:
    """Figures as a table with METRIC_COLUMNS."""
    return pd.DataFrame([vars(one) for one in figures]).astype(METRIC_COLUMNS)
