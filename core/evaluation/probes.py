"""The identity probes judged: each figure with its 95 % interval, its n, what a blind guess gets, and its controls.

A pure function of the table `probes`. Controls stand in rows of their own: the same figure with another patient's name,
without a name, from frequency alone, for held-out patients, for the public model. What only a leak can move is a
difference between a figure and its control, and has a row with the blind value 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass

import numpy as np
import pandas as pd

from core.attacks.probes.cosine import PROBE as COSINE
from core.attacks.probes.fill_in import CONDITION_ONLY, FREQUENCY, NAME, OTHER_NAME
from core.attacks.probes.fill_in import PROBE as FILL_IN
from core.attacks.probes.generated import NAMES, PAIRS, TEXTS
from core.attacks.probes.half_name import OTHERS, OWN
from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.mlp import PROBE as NETWORK
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.per_condition import PROBE as PER_CONDITION
from core.attacks.probes.table import PUBLIC, TARGET
from core.evaluation import probe_ranking as ranking
from core.evaluation.audit_summaries import Audited, Summary
from core.evaluation.bootstrap import (
    Interval,
    WeightedStatistic,
    patient_bootstrap,
    weighted_auc,
    weighted_perplexity,
    weighted_share,
)
from core.evaluation.extremes import auc_interval
from core.evaluation.probe_tables import (
    ALL_NAMES,
    AUC,
    BOTH,
    COLUMNS,
    DIFFERENCE,
    FIGURES,
    LINK,
    OWN_MINUS_FREQUENCY,
    OWN_MINUS_OTHER,
    PAIRED,
    PERPLEXITY,
    RHO,
    RIGHT,
    SHUFFLED,
    SPLITS,
    TARGET_MINUS_PUBLIC,
    TOP10,
    TOP100,
    TOP_NAMES,
    WITH_NAME,
    Figure,
    Matrices,
    matrices,
)
from core.evaluation.statistics import mean_interval, proportion_interval
from core.evaluation.summary import scale_to_pool


def figures(probes: pd.DataFrame, pool: Mapping[str, int], *, resamples: int = 1_000, seed: int = 0) -> pd.DataFrame:
    """Every figure of the probes that are in the table; columns as in `COLUMNS`.

    `pool` counts the cohort's patients of the splits member and heldout: a generated name can be anybody's of them.
    Intervals resample patients (seeded), conditions for “one probe a condition”; of fewer than ten they are Student's,
    and Wilson's for A@100 and where all patients agree.
    """
    judge = _Judge(resamples, seed)
    found: list[Figure] = []
    for probe, rows in probes.groupby("probe", sort=False):
        if probe in (FILL_IN, NETWORK):
            found += judge.rankings(rows, probe)
        elif probe == PER_CONDITION:
            found += judge.single_conditions(rows)
        elif probe == COSINE:
            found += judge.cosines(rows)
        elif probe == NAME_SEEN:
            found += judge.seen(rows)
        elif probe == HALF_NAME:
            found += judge.halves(rows)
        elif probe == NAMES:
            found += _names(rows, pool)
        elif probe == PAIRS:
            found += judge.pairs(rows)
        elif probe == TEXTS:
            found += _texts(rows)
    return pd.DataFrame([astuple(one) for one in found], columns=list(COLUMNS)).astype(COLUMNS)


FEWEST_RESAMPLED = 10  # patients (or conditions): of fewer, resamples are too alike, and Student's t is used
_SHARES = (AUC, TOP10, RIGHT)  # figures between 0 and 1


@dataclass(frozen=True)
class _Judge:
    resamples: int
    seed: int

    def interval(self, statistic: WeightedStatistic, units, strata=None) -> Interval:
        return patient_bootstrap(statistic, units, strata, resamples=self.resamples, seed=self.seed)

    def mean(
        self, key: tuple[str, str, str, str, str, str], values: np.ndarray, blind: float, note: str, units=None
    ) -> Iterator[Figure]:
        """The mean of one value a patient (NaN left out), `key` being the first columns; nothing without values."""
        known = np.isfinite(values)
        if not known.any():
            return
        units = (np.arange(len(values)) if units is None else np.asarray(units))[known]
        n = len(np.unique(units))
        found = self.interval(weighted_share(values[known], np.ones(known.sum())), units)
        low, high = found.low, found.high
        a_share = key[1] in _SHARES and " − " not in key[2]
        if a_share and found.value in (0.0, 1.0):
            low, high = proportion_interval(round(found.value * n), n)  # nothing varies: resampling shows no spread
        elif (a_share or key[1] == RHO) and np.ptp(values[known]) < 1e-12:
            low, high = np.nan, np.nan  # all the same, such as ties of a baseline: no spread to make an interval of
        elif 1 < n < FEWEST_RESAMPLED:
            low, high = _student(found.value, pd.Series(values[known]).groupby(units).mean().to_numpy())
            low, high = (max(0.0, low), min(1.0, high)) if a_share else (low, high)
        yield Figure(*key, found.value, low, high, n, blind, note)

    # L2, L3 ----------------------------------------------------------------------------------------------------------

    def rankings(self, rows: pd.DataFrame, probe: str) -> Iterator[Figure]:
        """AUC and A@10 a patient of every method, differences to the controls, and the correlation with frequency."""
        tables = matrices(rows)
        base = tables.named[NAME, TARGET]
        for split in SPLITS:
            inside = base.splits == split
            if not inside.any():
                continue
            has = base.labels[inside]
            aucs: dict[tuple[str, str], np.ndarray] = {}
            for method, model in tables.methods():
                scores = tables.scores(method, model)[inside]
                aucs[method, model] = ranking.patient_aucs(scores, has, tables.bins)
                key = (probe, AUC, method, model, split, "all")
                yield from self.mean(key, aucs[method, model], 0.5, "patients")
                top, blind = ranking.patient_precisions(scores, has, tables.bins)
                if np.isfinite(blind).any():
                    key = (probe, TOP10, method, model, split, "all")
                    yield from self.mean(key, top, float(np.nanmean(blind)), "patients")
            for control, name in ((OTHER_NAME, OWN_MINUS_OTHER), (FREQUENCY, OWN_MINUS_FREQUENCY)):
                paired = aucs[NAME, TARGET] - aucs[control, TARGET]
                yield from self.mean((probe, AUC, name, TARGET, split, "all"), paired, 0.0, "patients, paired")
            if len(set(tables.bins)) > 1:
                yield from self._by_bin(tables, inside, probe, split)
            yield from self._correlations(tables, inside, probe, split)

    def _by_bin(self, tables: Matrices, inside: np.ndarray, probe: str, split: str) -> Iterator[Figure]:
        """AUC and A@10 of every method, and the correlation with frequency, for each number of tokens by itself."""
        has, note = tables.named[NAME, TARGET].labels[inside], "patients with such a condition"
        for name in sorted(set(tables.bins), key=int):
            places = tables.bins == name
            bins = tables.bins[places]
            for method in (NAME, OTHER_NAME, CONDITION_ONLY, FREQUENCY):
                scores = tables.scores(method, TARGET)[inside][:, places]
                found = ranking.patient_aucs(scores, has[:, places], bins)
                yield from self.mean((probe, AUC, method, TARGET, split, str(name)), found, 0.5, note)
                top, blind = ranking.patient_precisions(scores, has[:, places], bins)
                if np.isfinite(blind).any():
                    key = (probe, TOP10, method, TARGET, split, str(name))
                    yield from self.mean(key, top, float(np.nanmean(blind)), note)
            own = tables.scores(NAME, TARGET)[inside][:, places]
            rho = ranking.patient_correlations(own, tables.once[FREQUENCY, TARGET][places], bins)
            yield from self.mean((probe, RHO, NAME, TARGET, split, str(name)), rho, 0.0, "patients")

    def _correlations(self, tables: Matrices, inside: np.ndarray, probe: str, split: str) -> Iterator[Figure]:
        frequency = tables.once[FREQUENCY, TARGET]
        own = ranking.patient_correlations(tables.scores(NAME, TARGET)[inside], frequency, tables.bins)
        yield from self.mean((probe, RHO, NAME, TARGET, split, "all"), own, 0.0, "patients")
        if split == "member":
            left, right, bins = ranking.condition_correlation(
                tables.once[CONDITION_ONLY, TARGET], frequency, tables.bins
            )
            if len(left):
                found = self.interval(ranking.weighted_correlation(left, right, bins), np.arange(len(left)), bins)
                yield Figure(
                    probe, RHO, CONDITION_ONLY, TARGET, split, "all", found.value, found.low, found.high, len(left),
                    0.0, "conditions",
                )  # fmt: skip

    # L3, one condition at a time -------------------------------------------------------------------------------------

    def single_conditions(self, rows: pd.DataFrame) -> Iterator[Figure]:
        """Mean over conditions of the AUC that one condition's own probe reaches, by bin of frequency."""
        for split in SPLITS:
            found: dict[str, list[float]] = {"all": []}
            for (bin_, _), one in rows[rows["split"] == split].groupby(["bin", "target"], sort=False):
                label = one["label"].to_numpy(dtype=bool)
                if label.any() and not label.all():
                    auc = float(weighted_auc(one["score"], label)(np.ones((1, len(one))))[0])
                    found["all"].append(auc)
                    found.setdefault(bin_, []).append(auc)
            for bin_, aucs in found.items():
                key = (PER_CONDITION, AUC, NAME, TARGET, split, bin_)
                yield from self.mean(key, np.array(aucs), 0.5, "conditions")

    # L4 --------------------------------------------------------------------------------------------------------------

    def cosines(self, rows: pd.DataFrame) -> Iterator[Figure]:
        """Mean over patients of own minus other conditions, with one's own name, with another's, and paired."""
        for (method, model, split), part in rows.groupby(["method", "model", "split"], sort=False):
            wide = part.pivot(index="patient_id", columns="target", values="score")
            name = f"{method}, {{}}"
            for column in (NAME, OTHER_NAME):
                key = (COSINE, DIFFERENCE, name.format(column), model, split, "all")
                yield from self.mean(key, wide[column].to_numpy(), 0.0, "patients")
            paired = (wide[NAME] - wide[OTHER_NAME]).to_numpy()
            key = (COSINE, DIFFERENCE, name.format(OWN_MINUS_OTHER), model, split, "all")
            yield from self.mean(key, paired, 0.0, "patients, paired")

    # L5, L6 ----------------------------------------------------------------------------------------------------------

    def seen(self, rows: pd.DataFrame) -> Iterator[Figure]:
        """AUC of members against held-out patients, for the model, for the public one, and their difference."""
        yield from self._apart(rows, NAME_SEEN, "logistic regression", "all")

    def halves(self, rows: pd.DataFrame) -> Iterator[Figure]:
        """For each hidden half: AUCs, perplexities, and how much one's own other half helps more than another's."""
        for hidden, part in rows.groupby("target", sort=False):
            own = part[part["method"] == OWN]
            yield from self._apart(own, HALF_NAME, OWN, hidden)
            yield from self._apart(part[part["method"] == OTHERS], HALF_NAME, OTHERS, hidden)
            for (model, split), group in own.groupby(["model", "split"], sort=False):
                found = self.interval(weighted_perplexity(-group["score"], np.ones(len(group))), group["patient_id"])
                key = (HALF_NAME, PERPLEXITY, OWN, model, split, hidden)
                yield Figure(*key, found.value, found.low, found.high, len(group), np.nan, "patients")
            for (model, split), group in part.groupby(["model", "split"], sort=False):
                wide = group.pivot(index="patient_id", columns="method", values="score")
                key = (HALF_NAME, LINK, f"{OWN} − {OTHERS}", model, split, hidden)
                yield from self.mean(key, (wide[OWN] - wide[OTHERS]).to_numpy(), 0.0, "patients, paired")

    def _apart(self, rows: pd.DataFrame, probe: str, method: str, bin_: str) -> Iterator[Figure]:
        """AUC of `label` by score for each model, and the target's minus the public model's on the same patients."""
        statistics = {}
        for model, part in rows.sort_values("patient_id").groupby("model", sort=False):
            label, units = part["label"].to_numpy(dtype=bool), part["patient_id"].to_numpy()
            statistics[model] = weighted_auc(part["score"], label)
            found = auc_interval(self.interval(statistics[model], units, label), int(label.sum()), int((~label).sum()))
            key = (probe, AUC, method, model, BOTH, bin_)
            yield Figure(*key, found.value, found.low, found.high, len(units), 0.5, "patients")
        if {TARGET, PUBLIC} <= set(statistics):
            both = self.interval(lambda w: statistics[TARGET](w) - statistics[PUBLIC](w), units, label)
            key = (probe, AUC, method, TARGET_MINUS_PUBLIC, BOTH, bin_)
            yield Figure(*key, both.value, both.low, both.high, len(units), 0.0, "patients, paired")

    # L7 --------------------------------------------------------------------------------------------------------------

    def pairs(self, rows: pd.DataFrame) -> Iterator[Figure]:
        """Share of sentences (texts) whose patient has a condition in it, against others of that patient's split."""
        for (bin_, split), part in rows.groupby(["bin", "split"], sort=False):
            label, chance, units = part["label"].to_numpy(dtype=float), part["score"].to_numpy(), part["patient_id"]
            note = f"patients, in {len(part):,} {'sentences' if bin_ == 'one sentence' else 'texts'}"
            blind = float(chance.mean())
            yield from self.mean((PAIRS, RIGHT, NAME, TARGET, split, bin_), label, blind, note, units)
            yield from self.mean((PAIRS, RIGHT, SHUFFLED, TARGET, split, bin_), chance, blind, note, units)
            yield from self.mean((PAIRS, RIGHT, PAIRED, TARGET, split, bin_), label - chance, 0.0, note, units)


def _student(value: float, values: np.ndarray) -> tuple[float, float]:
    """Student's 95 % interval about `value` from one number a patient."""
    _, low, high = mean_interval(values)
    return value - (high - low) / 2, value + (high - low) / 2


def _names(rows: pd.DataFrame, pool: Mapping[str, int]) -> Iterator[Figure]:
    """Shares of the top 100 names, and of all names, that are members' and (scaled to as many) held-out patients'."""
    values, count = rows["score"].to_numpy(), len(rows)
    for measure, k in ((TOP100, min(TOP_NAMES, count)), (ALL_NAMES, count)):
        for split in [split for split in SPLITS if pool.get(split)]:
            share = ranking.top_share(values, (rows["split"] == split).to_numpy(), k)
            low, high = proportion_interval(share * k, k)
            ratio = pool["member"] / pool[split]
            found = [scale_to_pool(one, ratio) for one in (share, low, high)]
            note = "names" if split == "member" else f"names; scaled from {pool[split]} patients to {pool['member']}"
            yield Figure(NAMES, measure, NAME, TARGET, split, "all", *found, k, np.nan, note)


def _texts(rows: pd.DataFrame) -> Iterator[Figure]:
    """Share of the generated texts that hold a full name at all. Texts are sampled independently: Wilson's interval."""
    count, n = int(rows["label"].sum()), len(rows)
    low, high = proportion_interval(count, n)
    yield Figure(TEXTS, WITH_NAME, NAME, TARGET, "", "all", count / n, low, high, n, np.nan, "texts")


def _summary(audited: Audited) -> pd.DataFrame:
    pool = audited.corpus.patients["split"].value_counts().to_dict()
    audit = audited.run.spec.audit
    return figures(audited.audit.table("probes"), pool, resamples=audit.bootstrap, seed=audit.seed)


PROBE_FIGURES = Summary(
    name=FIGURES,
    columns=COLUMNS,
    needs=("probes",),
    make=_summary,
    headline="bin == 'all' and model == 'target' and split != 'heldout'",
    version=2,
)
