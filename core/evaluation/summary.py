"""The metrics table of a run: every figure with its interval, its n and its controls, from the other tables alone.

The arm `run` is the figure itself, `heldout` the same figure for held-out patients (no model was trained on them), and
`base` the same figure for the public base model. Only what exceeds its control is evidence of a leak. `summarise` calls
the function of every figure in `core.evaluation.registry`; most of these functions are below.
docs/methods/figures.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, PUBLIC_LOSS
from core.attacks.memorisation.extraction import searched_by
from core.attacks.memorisation.own_values import own_hits
from core.corpus.canary_forms import RANDOM
from core.corpus.tables import Corpus
from core.evaluation import registry
from core.evaluation.memorisation.known_words import (
    hospital_words,
    identifier_spans,
    identifier_words,
    known_share,
    public_words,
    whole_words,
    without_spans,
)
from core.evaluation.stats.bootstrap import (
    Interval,
    WeightedStatistic,
    patient_bootstrap,
    weighted_auc,
    weighted_leakage,
    weighted_perplexity,
    weighted_share,
)
from core.evaluation.stats.boundary_intervals import auc_interval, bits_interval, difference_interval, share_interval
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.stats.roc import says_member
from core.evaluation.wording import FOUND_BY, OF_THEIR_OWN, left_out_note
from core.models.shipped_bases import word_list
from core.phi.detector.engine import SHAPES
from core.phi.fields import DIRECT, FIELDS
from core.phi.old_rule import OLD_RULE_FIELDS
from core.phi.patterns import forms
from core.runs.tables import ADDED, UTILITY
from core.spec import CLINICAL, AuditSpec

METRIC_COLUMNS = {
    "metric": "str",
    "arm": "str",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "n": "int64",
    "note": "str",
}
SPLIT_OF_ARM = {"run": "member", "heldout": "heldout"}


@dataclass(frozen=True)
class Row:
    """One row of the metrics table. `n` counts the trials behind the figure; `note` says what they are."""

    metric: str
    arm: str
    value: float
    low: float
    high: float
    n: int
    note: str


@dataclass(frozen=True)
class RunTables:
    """What a figure is computed from: one model's tables of the quick audit, the cohort, and the audit's settings."""

    scores: pd.DataFrame
    generations: pd.DataFrame
    hits: pd.DataFrame
    canaries: pd.DataFrame
    corpus: Corpus
    audit: AuditSpec
    utility: pd.DataFrame  # empty for a run of an earlier version
    base: str = CLINICAL  # name of the base model

    @classmethod
    def of(cls, tables: Mapping[str, pd.DataFrame], corpus: Corpus, audit: AuditSpec, base: str) -> RunTables:
        """Choose the tables by name.

        Raises:
            ValueError: one is missing; the text is a sentence that names it.
        """
        names = ("scores", "generations", "hits", "canaries")
        for name in names:
            if name not in tables:
                raise ValueError(f"the summary of a run needs its table “{name}”, which is missing")
        found = {name: tables[name] for name in names}
        utility = tables.get(UTILITY, ADDED[UTILITY].empty_table().to_pandas())
        return cls(**found, corpus=corpus, audit=audit, utility=utility, base=base)

    def interval(self, statistic: WeightedStatistic, units: np.ndarray, strata: np.ndarray | None = None) -> Interval:
        """A statistic with its interval: units (patients) are resampled within strata, `audit.bootstrap` times."""
        return patient_bootstrap(statistic, units, strata, resamples=self.audit.bootstrap, seed=self.audit.seed)


def summarise(
    run_tables: Mapping[str, pd.DataFrame],
    base_tables: Mapping[str, pd.DataFrame] | None,
    *,
    corpus: Corpus,
    audit: AuditSpec,
    base: str = CLINICAL,
) -> pd.DataFrame:
    """Compute the metrics table (docs/reference/tables.md) of a run from its tables and those of its base control.

    It is a pure function of them. Intervals are 95 %: Wilson where trials are independent, else by resampling patients
    (`audit.bootstrap` times, seeded by `audit.seed`).

    Args:
        run_tables: the run's tables scores, generations, hits and canaries.
        base_tables: the same of the public base model; None for the base model itself, which has no `base` arm.
        corpus: the cohort.
        audit: the settings of the quick audit.
        base: name of the run's base model, whose public words are known words.

    Raises:
        ValueError: a table is missing or empty.
        KeyError: a registered function makes a figure that has no record.
    """
    rows = list(_figures(RunTables.of(run_tables, corpus, audit, base)))
    if base_tables is not None:
        scores = _of_the_same_notes(base_tables["scores"], run_tables["scores"])
        rows += [
            Row(row.metric, "base", row.value, row.low, row.high, row.n, row.note)
            for row in _figures(RunTables.of({**base_tables, "scores": scores}, corpus, audit, base))
            if row.arm == "run"
        ]
    frame = pd.DataFrame(rows, columns=list(METRIC_COLUMNS)).astype(METRIC_COLUMNS)
    arms = {"run": 0, "heldout": 1, "base": 2}
    first_seen = {metric: place for place, metric in enumerate(dict.fromkeys(frame["metric"]))}
    order = frame["metric"].map(first_seen) * len(arms) + frame["arm"].map(arms)
    return frame.iloc[np.argsort(order.to_numpy(), kind="stable")].reset_index(drop=True)


def _of_the_same_notes(base: pd.DataFrame, run: pd.DataFrame) -> pd.DataFrame:
    """The public model's scores of the notes that the run is evaluated on.

    One public model is the control of runs with different limits of notes per patient: a run was trained on fewer notes
    if a patient has more than its limit.
    """
    return base[base["note_id"].isin(run["note_id"])]


def _figures(run: RunTables) -> Iterator[Row]:
    """Rows of arms `run` and `heldout` for one model's tables, by every registered function."""
    for rows in registry.functions():
        for row in rows(run):
            registry.figure(row.metric)
            yield row


# Language and membership ---------------------------------------------------------------------------------------------


def perplexities(run: RunTables) -> Iterator[Row]:
    """Perplexity on notes of held-out patients and of members, and on public text."""
    scores = run.scores
    notes = scores[scores["attack"] == LOSS]
    for metric, rows, unit in (
        ("perplexity_heldout", notes[notes["split"] == "heldout"], "patient_id"),
        ("perplexity_member", notes[notes["split"] == "member"], "patient_id"),
        ("perplexity_public", scores[scores["attack"] == PUBLIC_LOSS], "note_id"),
    ):
        if len(rows):
            statistic = weighted_perplexity(-rows["score"].to_numpy(), rows["tokens"].to_numpy())
            what = "held-out public texts resampled" if unit == "note_id" else "patients resampled"
            found = run.interval(statistic, rows[unit].to_numpy())
            yield Row(metric, "run", found.value, found.low, found.high, int(rows[unit].nunique()), what)


def membership(run: RunTables) -> Iterator[Row]:
    """AUC and privacy leakage of the loss attack on notes."""
    notes = run.scores[run.scores["attack"] == LOSS]
    score, member = notes["score"].to_numpy(), notes["member"].to_numpy(dtype=bool)
    patients = notes["patient_id"].to_numpy()
    of_members, of_others = (len(np.unique(patients[side])) for side in (member, ~member))
    said = says_member(score, score[member]).astype(float)
    caught, accused = (
        share_interval(run.interval(weighted_share(said[side], np.ones(side.sum())), patients[side]), of)
        for side, of in ((member, of_members), (~member, of_others))
    )
    auc = auc_interval(run.interval(weighted_auc(score, member), patients, member), of_members, of_others)
    leaked = difference_interval(run.interval(weighted_leakage(score, member), patients, member), caught, accused)
    for metric, found, blind in (("auc_loss", auc, "0.5"), ("privacy_leakage_loss", leaked, "0")):
        note = f"patients resampled; a blind guess gets {blind}"
        yield Row(metric, "run", found.value, found.low, found.high, of_members + of_others, note)


# Extraction ----------------------------------------------------------------------------------------------------------


def extraction(run: RunTables) -> Iterator[Row]:
    """Shares of patients about whom something was generated, and of generated texts with something about a patient."""
    return extraction_rows(run.generations, run.hits, run.corpus)


def extraction_rows(generations: pd.DataFrame, hits: pd.DataFrame, corpus: Corpus) -> Iterator[Row]:
    """What was generated about whom, arms `run` and `heldout`: shares of patients by field, of texts with a leak.

    Only patients with a value of their own that can be searched for are counted (`pools`). An arm without any has no
    row: nothing was looked for, which is no 0 %. The loose rule counts as in the report.
    """
    hits = own_hits(hits, corpus.shared_values)
    by_value, by_old_rule = hits[hits["rule"] == "value"], hits[hits["rule"] == "old"]
    imported = corpus.spec is not None and corpus.spec.imported is not None
    whose = f"patients {OF_THEIR_OWN}" if imported else "patients"
    groups = [("full_name_patients", ("full_name",)), ("direct_patients", DIRECT)]
    groups += [(f"field_patients:{field.name}", (field.name,)) for field in FIELDS if field.role != "physical"]
    for metric, fields in groups:
        found, absent = by_value[by_value["field"].isin(fields)], left_out(corpus, fields)
        for arm, patients in pools(corpus, fields).items():
            if patients:
                split = SPLIT_OF_ARM[arm]
                named = found.loc[found["split"] == split, "patient_id"].nunique()
                note = f"of {split} {whose}; {len(generations):,} generations{left_out_note(absent[arm])}"
                yield _share(metric, arm, named, patients, note)
    yield from attempts_with_leak(by_value[by_value["field"].isin(DIRECT)], len(generations), pools(corpus, DIRECT))
    recorded = corpus.patients[list(OLD_RULE_FIELDS)].notna().any(axis=1)
    for arm, split in SPLIT_OF_ARM.items():
        if not recorded[corpus.patients["split"] == split].any():
            continue
        caught = by_old_rule.loc[by_old_rule["split"] == split, "generation_id"].nunique()
        yield _share("old_rule_attempts", arm, caught, len(generations), f"each against one {split} patient's record")


def pools(corpus: Corpus, fields: Collection[str]) -> dict[str, int]:
    """Number of patients of the arms `run` and `heldout` who are `searchable`."""
    return _by_arm(corpus, searchable(corpus, fields))


def left_out(corpus: Corpus, fields: Collection[str]) -> dict[str, int]:
    """Number of patients of both arms who do not count because others have every value of theirs among `fields`."""
    if not corpus.shared_values:
        return dict.fromkeys(SPLIT_OF_ARM, 0)
    return _by_arm(corpus, searchable(corpus, fields, own=False) & ~searchable(corpus, fields))


def _by_arm(corpus: Corpus, chosen: np.ndarray) -> dict[str, int]:
    splits = corpus.patients["split"]
    return {arm: int((chosen & (splits == split)).sum()) for arm, split in SPLIT_OF_ARM.items()}


def searchable(corpus: Corpus, fields: Collection[str], *, own: bool = True) -> np.ndarray:
    """Whether each patient has a value of one of `fields` that can be searched for: (patients,).

    In a synthetic cohort all of them have. Imported patients may have no record, or one word of a name. A value that
    other patients have, too, does not count (`core.attacks.memorisation.own_values`), nor a health detail of a patient
    without any other identifier; with `own=False` both do.
    """
    patients = corpus.patients
    if corpus.spec is None or corpus.spec.imported is None:
        return np.ones(len(patients), dtype=bool)
    shared = corpus.shared_values if own else frozenset()
    found = np.zeros(len(patients), dtype=bool)
    for field in fields:
        found |= [
            isinstance(value, str) and (patient_id, field) not in shared and bool(forms(field, value)[1])
            for patient_id, value in zip(patients["patient_id"], patients[field], strict=True)
        ]
    if shared and not set(fields) <= set(DIRECT):
        affected = patients["patient_id"].isin({patient_id for patient_id, _ in shared}).to_numpy()
        found &= ~affected | searchable(corpus, DIRECT)
    return found


def attempts_with_leak(direct: pd.DataFrame, generations: int, pool: Mapping[str, int]) -> Iterator[Row]:
    """Share of generations with anybody's direct identifier, and the control scaled to as many patients.

    Fewer held-out patients give fewer chances of a hit. The held-out share s is therefore raised to what a pool as
    large as the members' would give: 1 − (1 − s)^(members / held-out). This assumes that the parts of the larger pool
    are hit independently.

    Args:
        direct: one row per hit on a direct identifier (columns generation_id, split of the patient).
        generations: number of generated texts.
        pool: number of patients of the arms `run` and `heldout`.

    Yields:
        `attempts_with_leak` of both arms, and the uncorrected control; no row of an arm without patients.
    """
    counts = {
        arm: direct.loc[direct["split"] == split, "generation_id"].nunique() for arm, split in SPLIT_OF_ARM.items()
    }
    if not pool["run"]:
        return
    yield _share("attempts_with_leak", "run", counts["run"], generations, "generations")
    if not pool["heldout"]:
        return
    raw = _share("attempts_with_leak_uncorrected", "heldout", counts["heldout"], generations, "generations")
    ratio = pool["run"] / pool["heldout"]
    value, low, high = (scale_to_pool(share, ratio) for share in (raw.value, raw.low, raw.high))
    note = f"generations; scaled from {pool['heldout']} held-out patients to {pool['run']}, as many as members"
    yield Row("attempts_with_leak", "heldout", value, low, high, generations, note)
    yield raw


def scale_to_pool(share: float, ratio: float) -> float:
    """Share of attempts that would hit somebody in a pool `ratio` times as large: 1 − (1 − share)^ratio."""
    return 1.0 - (1.0 - share) ** ratio


def _share(metric: str, arm: str, successes: int, trials: int, note: str) -> Row:
    if trials == 0:
        raise ValueError(f"{metric} ({arm}) cannot be computed: there are no trials ({note})")
    low, high = proportion_interval(successes, trials)
    return Row(metric, arm, successes / trials, low, high, trials, note)


# Canaries and words --------------------------------------------------------------------------------------------------


def exposure(run: RunTables) -> Iterator[Row]:
    """Mean exposure (bits) of the canaries of each insertion count; arm `heldout`: those that the coin left out.

    Canaries of random words are not among them: another score ranks them (`core.attacks.exposure`).
    """
    canaries = run.canaries
    ranked = canaries[canaries["exposure"].notna() & (canaries["form"] != RANDOM)]
    for insertions in sorted(ranked["insertions"].unique()):
        same = ranked[ranked["insertions"] == insertions]
        for arm, rows in (
            ("run", same[same["inserted"].astype(bool)]),
            ("heldout", same[~same["inserted"].astype(bool)]),
        ):
            if len(rows):
                ceiling = math.log2(rows["reference_size"].max())
                found = bits_interval(rows["exposure"], ceiling)
                note = "canaries " + ("planted" if arm == "run" else "never planted") + f"; at most {ceiling:.2f} bits"
                yield Row(f"exposure:{insertions}", arm, found.value, found.low, found.high, len(rows), note)


def known_words(run: RunTables) -> Iterator[Row]:
    """Share of the generated words that occur in public text or the hospital's notes, identifiers left out."""
    generations, audit = run.generations, run.audit
    vocabulary = public_words(word_list(run.base)) | hospital_words(run.corpus)
    left_out, spans = identifier_words(run.corpus, vocabulary), identifier_spans(run.hits)
    texts = [
        without_spans(text, spans.get(int(generation), ()))
        for generation, text in zip(generations["generation_id"], generations["text"], strict=True)
    ]
    if all(set(whole_words(text)) <= left_out for text in texts):
        note = "the model wrote no words, or identifiers alone"
        yield Row("known_words", "run", math.nan, math.nan, math.nan, len(generations), note)
        return
    found = known_share(texts, vocabulary, left_out=left_out, resamples=audit.bootstrap, seed=audit.seed)
    by = "" if searched_by(run.hits) == SHAPES else f"{FOUND_BY}{searched_by(run.hits)}"
    note = f"identifiers left out{by}; generations resampled"
    yield Row("known_words", "run", found.value, found.low, found.high, len(generations), note)
