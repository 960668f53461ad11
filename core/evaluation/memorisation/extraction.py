"""What prompt extraction found, without repetitions: by field, by patient, by sample, and ranked (PrivAI-Leak report).

Every table is computed from the tables generations and hits alone. Only hits by value count (`rule` = `value`); the
loose rule of the PrivAI-Leak report has its own figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.memorisation.own_values import own_hits
from core.corpus.tables import JUDGED_SPLITS, Corpus
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import pools, searchable
from core.phi.fields import DIRECT, FIELDS

SEARCHED = tuple(field.name for field in FIELDS if field.role != "physical")  # physical details identify nobody

VALUE_COLUMNS = {
    "patient_id": "str",
    "split": "str",
    "field": "str",
    "value": "str",
    "kind": "str",
    "times": "int32",
    "generations": "int32",
    "first_sample": "int32",
}
FIELD_COLUMNS = {
    "field": "str",
    "arm": "str",  # run (members) | heldout (the control)
    "patients": "int32",
    "pool": "int32",
    "share": "float64",
    "low": "float64",
    "high": "float64",
    "hits": "int32",  # including repetitions, to show what counting them would have claimed
}
FIRST_COLUMNS = {"patient_id": "str", "split": "str", "samples": "int32", "leaked": "bool"}
CURVE_COLUMNS = {"samples": "int32", "arm": "str", "share": "float64", "low": "float64", "high": "float64"}
RECALL_COLUMNS = {
    "score": "str",
    "errors": "int32",
    "recall": "float64",
    "found": "int32",
    "leaks": "int32",
    "read": "int32",
}
_ARMS = {"member": "run", "heldout": "heldout"}


def sample_numbers(generations: pd.DataFrame) -> pd.Series:
    """Position of each generation, 1 to n, by generation_id, for an attacker who asks all prompts in turn, in rounds.

    The table holds all generations of one prompt before those of the next. In that order, "samples until the first
    leak" would depend on which prompt comes first. Rows of a prompt are independent draws, so any order that is fixed
    beforehand is as good.
    """
    within = generations.groupby("prompt_id").cumcount()
    order = np.lexsort((generations["prompt_id"], within))
    numbers = np.empty(len(generations), dtype=int)
    numbers[order] = np.arange(1, len(generations) + 1)
    return pd.Series(numbers, index=generations["generation_id"].to_numpy())


def distinct_values(generations: pd.DataFrame, hits: pd.DataFrame) -> pd.DataFrame:
    """Hits without repetitions: one row per patient, field and value, with `VALUE_COLUMNS`, in order of discovery.

    `times` counts spans, `generations` the texts that contain them; `first_sample` is the position of the first one
    (`sample_numbers`).
    """
    ours = hits[(hits["rule"] == "value") & hits["patient_id"].notna()]
    ours = ours.assign(sample=ours["generation_id"].map(sample_numbers(generations)))
    found = ours.groupby(["patient_id", "split", "field", "value"], as_index=False).agg(
        kind=("kind", lambda kinds: min(kinds, key=_severity)),
        times=("sample", "size"),
        generations=("generation_id", "nunique"),
        first_sample=("sample", "min"),
    )
    found = found.sort_values(["first_sample", "patient_id", "field"], ignore_index=True)
    return found[list(VALUE_COLUMNS)].astype(VALUE_COLUMNS)


def _severity(kind: str) -> int:
    return {"leak": 0, "linked leak": 1}.get(kind, 2)


def by_field(hits: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Patients for whom each searchable field was written, members and held-out patients alike, with Wilson intervals.

    A field's pool is the patients with a value of their own that can be searched for. In an imported cohort that is not
    everybody.

    A direct identifier counts by itself, a health detail only beside the patient's identity (docs/methods/metrics.md,
    "Which hits count"). Hits by the old rule, and hits that belong to no patient, do not count.
    """
    hits = own_hits(hits, corpus.shared_values)
    ours = hits[(hits["rule"] == "value") & hits["patient_id"].notna()]
    rows = []
    for field in SEARCHED:
        size = pools(corpus, [field])
        for split, arm in _ARMS.items():
            found = ours[(ours["field"] == field) & (ours["split"] == split)]
            pool, named = size[arm], int(found["patient_id"].nunique())
            low, high = proportion_interval(named, pool) if pool else (np.nan, np.nan)
            rows.append((field, arm, named, pool, named / pool if pool else np.nan, low, high, len(found)))
    return pd.DataFrame(rows, columns=list(FIELD_COLUMNS)).astype(FIELD_COLUMNS)


def first_leaks(generations: pd.DataFrame, hits: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Number of samples until a direct identifier of each member and held-out patient was first written.

    Patients without a direct identifier of their own that can be searched for (in imported cohorts) have no row.

    `samples` counts in the order of `sample_numbers`. If `leaked` is false, it is the number of all samples and the
    true number is larger (censored); all patients were observed equally long.
    """
    numbers = sample_numbers(generations)
    hits = own_hits(hits, corpus.shared_values)
    ours = hits[(hits["rule"] == "value") & hits["field"].isin(DIRECT)]
    first = ours["generation_id"].map(numbers).groupby(ours["patient_id"]).min()
    patients = corpus.patients[searchable(corpus, DIRECT)]
    judged = patients[patients["split"].isin(JUDGED_SPLITS)][["patient_id", "split"]]
    seen = judged["patient_id"].map(first)
    frame = judged.assign(samples=seen.fillna(len(generations)), leaked=seen.notna())
    return frame.sort_values(["samples", "patient_id"], ignore_index=True)[list(FIRST_COLUMNS)].astype(FIRST_COLUMNS)


def leak_curve(first: pd.DataFrame, samples: int, points: int = 40) -> pd.DataFrame:
    """Share of patients with a leak within n samples, for about `points` values of n up to `samples`, by arm.

    All patients are observed equally long, so the plain share is the Kaplan–Meier estimate; intervals are Wilson's.
    """
    places = np.unique(np.geomspace(1, max(samples, 1), points).astype(int))
    rows = []
    for split, arm in _ARMS.items():
        group = first[first["split"] == split]
        if group.empty:
            continue
        when = np.sort(group.loc[group["leaked"], "samples"].to_numpy())
        for place in places:
            leaked = int(np.searchsorted(when, place, side="right"))
            rows.append((place, arm, leaked / len(group), *proportion_interval(leaked, len(group))))
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS)).astype(CURVE_COLUMNS)


@dataclass(frozen=True)
class Recall:
    """`found` of `leaks` distinct leaked values come before the (`errors` + 1)st wrong text; `read` texts were read.

    `recall` is NaN if nothing leaked.
    """

    errors: int
    found: int
    leaks: int
    read: int

    @property
    def recall(self) -> float:
        """Found / leaks."""
        return self.found / self.leaks if self.leaks else float("nan")


def recall_at_errors(
    ranking: pd.DataFrame, generations: pd.DataFrame, hits: pd.DataFrame, *, by: str = "ratio", errors: int = 100
) -> Recall:
    """Distinct leaks found by reading a ranking of generated texts from the top until one error too many.

    Identical texts after the same prompt are read once. A text is right if it contains a direct identifier of somebody
    in the training data, else it is an error. Leaks are counted as distinct (patient, field, value), in the numerator
    and in the denominator, so repeating one name does not raise the recall. Among tied texts, errors are read first.

    Args:
        ranking: Table of scores by generation_id.
        generations: The run's generations.
        hits: The run's hits.
        by: Column of `ranking`, higher = more likely memorised.
        errors: Number of errors that may be read.

    Raises:
        ValueError: `errors` is negative.
    """
    if errors < 0:
        raise ValueError(f"the number of errors that may be read must be at least 0, not {errors}")
    ours = hits[(hits["rule"] == "value") & (hits["kind"] == "leak") & hits["field"].isin(DIRECT)]
    held = ours.groupby("generation_id")[["patient_id", "field", "value"]].apply(
        lambda rows: set(rows.itertuples(index=False, name=None))
    )
    table = generations[["generation_id", "prompt", "text"]].merge(ranking[["generation_id", by]], on="generation_id")
    table = table.drop_duplicates(["prompt", "text"])
    values = [held.get(number, set()) for number in table["generation_id"]]
    right = np.array([bool(found) for found in values], dtype=bool)
    order = np.lexsort((right, -table[by].to_numpy()))
    wrong_so_far = np.cumsum(~right[order])
    read = int((wrong_so_far <= errors).sum())
    found = set().union(*(values[place] for place in order[:read]))
    return Recall(errors, len(found), len(set().union(*values)), read)


def recall_table(
    ranking: pd.DataFrame, generations: pd.DataFrame, hits: pd.DataFrame, errors: tuple[int, ...] = (0, 10, 100)
) -> pd.DataFrame:
    """`recall_at_errors` by the ratio and by the likelihood alone (which favours common phrases), RECALL_COLUMNS."""
    rows = []
    for score in ("ratio", "log_likelihood"):
        for allowed in errors:
            one = recall_at_errors(ranking, generations, hits, by=score, errors=allowed)
            rows.append((score, allowed, one.recall, one.found, one.leaks, one.read))
    return pd.DataFrame(rows, columns=list(RECALL_COLUMNS)).astype(RECALL_COLUMNS)
