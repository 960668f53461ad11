"""What is left of a run's leaks behind an output filter: its generations, filtered and evaluated by the same rules.

This needs no model: a filter changes what is read, not what is written. Everything else about a run (perplexity,
membership, canaries) is measured on token probabilities, which a text filter never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from core.attacks.memorisation.extraction import value_hits
from core.corpus.cohort_detector import cohort_detector
from core.corpus.tables import Corpus
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import METRIC_COLUMNS, extraction_rows
from core.phi.detector.engine import SHAPES, Detector
from core.phi.fields import DIRECT
from core.phi.index import PhiIndex
from core.phi.output_filter import BlockList, OutputFilter


def filters(corpus: Corpus, detector: Detector | None = None) -> dict[str, OutputFilter]:
    """The filters that are compared, by name. The last one ignores the prompt, as many products do, and is weaker.

    Without `detector`, stored tables and the pages have the cohort's (`core.corpus.cohort_detector`). One that is not
    the shapes names itself in place of “shapes”.
    """
    known = BlockList.of(corpus.patients)
    detector = cohort_detector(corpus.spec) if detector is None else detector
    return {
        "shapes" if detector.name == SHAPES else detector.name: OutputFilter(detector),
        "known values": OutputFilter(detector=None, known=known),
        "both": OutputFilter(detector, known),
        "both, answer alone": OutputFilter(detector, known, reads_prompt=False),
    }


def filtered(generations: pd.DataFrame, through: OutputFilter | None) -> pd.DataFrame:
    """The generations as a user sees them; None filters nothing."""
    if through is None:
        return generations
    pairs = zip(generations["text"], generations["prompt"], strict=True)
    return generations.assign(text=[through.apply(text, prompt) for text, prompt in pairs])


def hits_after(generations: pd.DataFrame, hits: pd.DataFrame, through: OutputFilter, index: PhiIndex) -> pd.DataFrame:
    """Hits by value in what passes the filter. A text that the filter does not change keeps its hits in `hits`."""
    seen = filtered(generations, through)
    changed = seen["text"] != generations["text"]
    kept = hits["generation_id"].isin(generations.loc[~changed, "generation_id"]) & (hits["rule"] == "value")
    return pd.concat([hits[kept], value_hits(seen[changed], index)], ignore_index=True)


def filtered_metrics(
    metrics: pd.DataFrame, generations: pd.DataFrame, hits: pd.DataFrame, base_hits: pd.DataFrame, *, corpus: Corpus
) -> pd.DataFrame:
    """A run's metrics with everything extracted by value, and its controls, replaced by what passes a filter.

    `hits` and `base_hits` come from `hits_after`, for the run and for its base control, which wrote as many texts.
    Other rows do not change, except that those by the old rule are left out.
    """
    rows = []
    for arm, found in (("run", hits), ("base", base_hits)):
        table = pd.DataFrame([asdict(row) for row in extraction_rows(generations, found, corpus)])
        rows.append(table if arm == "run" else table[table["arm"] == "run"].assign(arm="base"))
    after = pd.concat(rows, ignore_index=True)
    old = after["metric"] == "old_rule_attempts"
    kept = metrics[~metrics["metric"].isin(after["metric"])]
    return pd.concat([kept[list(METRIC_COLUMNS)], after[~old]], ignore_index=True).astype(METRIC_COLUMNS)


def false_alarms(texts: Mapping[str, Sequence[str]], through: Mapping[str, OutputFilter]) -> pd.DataFrame:
    """Share of texts without anybody's PHI in which a filter blacks something out, with Wilson's 95 % interval.

    Columns: filter, texts (the key of `texts`), value, low, high, n. A kind without texts has no row.
    """
    rows = []
    for name, one in through.items():
        for kind, some in texts.items():
            if some:
                struck = sum(bool(one.places(text)) for text in some)
                rows.append((name, kind, struck / len(some), *proportion_interval(struck, len(some)), len(some)))
    return pd.DataFrame(rows, columns=["filter", "texts", "value", "low", "high", "n"])


def harmless_texts(corpus: Corpus) -> dict[str, list[str]]:
    """Texts that contain nobody's PHI: held-out patients' notes without a direct identifier, and public health text."""
    from core.corpus.public_text import heldout_text, training_text

    notes = corpus.notes_of("heldout")
    free = [not any(span["field"] in DIRECT for span in spans) for spans in notes["phi_spans"]]
    public = [*heldout_text(), *training_text()]
    return {"notes without identifiers": notes.loc[free, "text"].tolist(), "public text": public}
