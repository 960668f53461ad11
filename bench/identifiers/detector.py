"""Recall and precision of the detector of identifiers: `python -m core bench detector --labelled FILE --json`.

It is measured on the project's own labelled lines, on a synthetic hospital, and on every file that you give
(`bench.identifiers._labelled_files`): your copy of ASQ-PHI or of presidio-research's generated set, or JSON
lines with your own labels. The figures of docs/methods/detector.md come from here. Nothing is downloaded.
"""

from __future__ import annotations

import json as json_format
import resource
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bench.identifiers._labelled_files import Labelled, read_labelled
from core.common.files import replace_text
from core.evaluation.detection.phi_detection import ALL, measured, on_hospital, on_labelled_set
from core.phi.detector.engine import Detector, best, rules, shapes
from core.spec import CORPUS_PRESETS

OWN, HOSPITAL = "labelled by hand", "synthetic hospital"


def main(json: bool = False, labelled: Sequence[Path] = (), write: str | None = None) -> None:
    """Print recall and precision by corpus and type, of the detector and of what it is built from.

    With `write`, they are also stored in that file; the app shows those of
    `core.evaluation.detection.detector_figures.STORED`.
    """
    corpora = {name: texts for path in labelled for name, texts in read_labelled(Path(path)).items()}
    found = measure(corpora, best())
    found["others"] = {one.name: measure(corpora, one) for one in (rules(), shapes()) if one.name != found["engine"]}
    if write is not None:
        stored = {one["engine"]: {key: one[key] for key in ("recall", "precision")} for one in _each(found)}
        replace_text(Path(write), json_format.dumps(stored, indent=1) + "\n")
    if json:
        print(json_format.dumps(found))
        return
    for one in _each(found):
        print(one["engine"], *filter(None, (one["lacks"],)))
        for corpus, recall in one["recall"].items():
            precision = one["precision"][corpus][ALL]
            print(f"  {corpus}: recall {_shown(recall[ALL])}, precision {_shown(precision)}")
            print(*(f"    {name}: {_shown(share)}" for name, share in recall.items() if name != ALL), sep="\n")


def _each(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [found, *found["others"].values()]


def measure(corpora: dict[str, list[Labelled]], detector: Detector) -> dict[str, Any]:
    """`recall` and `precision` by corpus and type (value, low, high, n), with the engine, its speed and its memory."""
    tables = {
        OWN: partial(on_labelled_set, detector),
        HOSPITAL: partial(on_hospital, CORPUS_PRESETS["smoke"], detector),
    }
    tables |= {name: partial(measured, texts, detector) for name, texts in corpora.items()}
    detector.find("Maria Keller")  # the lists and the tagger are read now
    started, done = time.perf_counter(), {name: table() for name, table in tables.items()}
    words = sum(len(text.split()) for texts in corpora.values() for text, _ in texts)
    found = {
        "engine": detector.name,
        "lacks": detector.lacks,
        "recall": {name: _shares(table, "recall", "labelled") for name, table in done.items()},
        "precision": {name: _shares(table, "precision", "found") for name, table in done.items()},
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return found | ({"words_per_second": words / (time.perf_counter() - started)} if words else {})


def _shares(table: pd.DataFrame, share: str, trials: str) -> dict[str, dict[str, float]]:
    rows = table[table[trials] > 0].set_index("field")
    return {
        str(name): {
            "value": float(row[share]),
            "low": float(row[f"{share}_low"]),
            "high": float(row[f"{share}_high"]),
            "n": int(row[trials]),
        }
        for name, row in rows.iterrows()
    }


def _shown(share: dict[str, float]) -> str:
    return f"{share['value']:.1%} ({share['low']:.1%} to {share['high']:.1%}; n = {share['n']:,})"
