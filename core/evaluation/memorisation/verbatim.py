"""How much is repeated word for word: rates of the prefix attack with their controls, and the notes behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_share
from core.evaluation.stats.boundary_intervals import share_interval
from core.evaluation.stats.intervals import wilson

ARMS = {("target", "member"): "run", ("target", "heldout"): "heldout", ("base", "member"): "base"}

MEMORISED_COLUMNS = {
    "arm": "str",  # run | heldout | base, as in the metrics table
    "prefix_tokens": "int32",
    "verbatim": "float64",  # share of notes whose rest was repeated word for word
    "low": "float64",
    "high": "float64",
    "notes": "int32",
    "found": "int32",
    "patients": "int32",
    "mean_matched": "float64",  # mean length of the longest verbatim continuation, in tokens
}


def verbatim_rate(rows: pd.DataFrame, *, seed: int = 0, resamples: int = 1_000) -> Interval:
    """Share of the rows (notes of one arm and prefix) that are verbatim, with its 95 % interval.

    Patients are resampled (`core.evaluation.stats.bootstrap`), and the interval is never narrower than Wilson's over
    notes. If no note or every note is verbatim, resampling shows no spread, and notes of one patient are not
    independent trials: the interval is then Wilson's over patients (`share_interval`). The same holds for a single
    patient.

    Raises:
        ValueError: There are no rows.
    """
    flags, patients = rows["verbatim"].to_numpy(dtype=float), rows["patient_id"].nunique()
    found = patient_bootstrap(
        weighted_share(flags, np.ones(len(flags))), rows["patient_id"].to_numpy(), resamples=resamples, seed=seed
    )
    low, high = wilson(found.value, len(flags) if patients > 1 else patients)
    widest = Interval(found.value, float(np.nanmin([found.low, low])), float(np.nanmax([found.high, high])))
    return share_interval(widest, patients)


def memorised_rates(prefixes: pd.DataFrame, *, seed: int = 0, resamples: int = 1_000) -> pd.DataFrame:
    """The rate of every arm and prefix length, with MEMORISED_COLUMNS: members, held-out patients and the base model.

    `prefixes` is the table of `core.attacks.memorisation.prefix`.
    """
    rows = []
    for (model, split), arm in ARMS.items():
        of_arm = prefixes[(prefixes["model"] == model) & (prefixes["split"] == split)]
        for prefix, notes in of_arm.groupby("prefix_tokens"):
            rate = verbatim_rate(notes, seed=seed, resamples=resamples)
            rows.append(
                (
                    arm,
                    prefix,
                    rate.value,
                    rate.low,
                    rate.high,
                    len(notes),
                    int(notes["verbatim"].sum()),
                    notes["patient_id"].nunique(),
                    notes["matched_tokens"].mean(),
                )
            )
    return pd.DataFrame(rows, columns=list(MEMORISED_COLUMNS)).astype(MEMORISED_COLUMNS)


def longest(prefixes: pd.DataFrame, split: str = "member") -> pd.DataFrame:
    """The target's longest verbatim continuations in notes of a split, one row per note, longest first."""
    rows = prefixes[(prefixes["model"] == "target") & (prefixes["split"] == split)]
    rows = rows.sort_values(["matched_tokens", "prefix_tokens", "note_id"], ascending=[False, True, True])
    return rows.drop_duplicates("note_id").reset_index(drop=True)


def fields_within(phi_spans: Iterable[Mapping[str, Any]], start: int, end: int) -> list[str]:
    """Names of the PHI fields that have a whole span within the characters [start, end) of a note, each name once.

    `phi_spans` is a cell of the notes table: mappings of `start`, `end` and `field`.
    """
    whole = [span["field"] for span in phi_spans if start <= span["start"] and span["end"] <= end]
    return list(dict.fromkeys(whole))
