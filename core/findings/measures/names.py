"""Names in a masked model: how well each layer knows them, and which it writes (Lehman 2021, §6.4 to §6.6)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from core.attacks.probes.generated import NAMES
from core.attacks.probes.half_name import OWN
from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.table import TARGET
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.probes.figures import share_of_names
from core.evaluation.probes.tables import FIGURES, TOP100, TOP_NAMES
from core.evaluation.probes.verdicts import Look
from core.evaluation.stats import intervals
from core.evaluation.stats.bootstrap import (
    Interval,
    patient_bootstrap,
    weighted_auc,
    weighted_auc_difference,
    weighted_share,
)
from core.evaluation.stats.boundary_intervals import auc_interval
from core.evaluation.summary import pools, scale_to_pool
from core.findings.from_weights.name_layers import NAME as LAYERS
from core.findings.from_weights.written_links import NAME as LINKS
from core.findings.from_weights.written_names import NAME as WRITTEN
from core.findings.measures.tables import RESAMPLES, probed, share_of
from core.findings.stored_runs import Missing, StoredRuns
from core.spec import RunSpec


def seen_by_layer(runs: StoredRuns, spec: RunSpec, layer: int) -> Interval:
    """AUC of members against held-out patients by a regression on the [CLS] vector of the name after one layer."""
    rows = _rows(runs, spec, NAME_SEEN, layer)
    label, score = rows["label"].to_numpy(dtype=bool), rows["score"].to_numpy()
    found = patient_bootstrap(weighted_auc(score, label), rows["patient_id"], label)
    return auc_interval(found, int(label.sum()), int((~label).sum()))


def layers_apart(runs: StoredRuns, spec: RunSpec, one: int, other: int) -> Interval:
    """AUC of members against held-out patients by the last name read out after layer `one` − after layer `other`."""
    sides = [_rows(runs, spec, HALF_NAME, layer) for layer in (one, other)]
    if not sides[0]["patient_id"].equals(sides[1]["patient_id"]):
        raise ValueError("the two layers were asked about different patients")
    people, label = sides[0]["patient_id"], sides[0]["label"]
    apart = weighted_auc_difference(sides[0]["score"], sides[1]["score"], label)
    return patient_bootstrap(apart, people, label)


def half_names_apart(runs: StoredRuns, one: RunSpec, other: RunSpec, half: str) -> Interval:
    """AUC of members against held-out patients by the hidden `half` of their names: under `one` − under `other`.

    Only patients that both were asked about count, who are resampled for both. Where fewer notes name their patient,
    fewer members can be asked about: those with many notes, whom a model knows better.
    """
    sides = [_half_names(runs, spec, half) for spec in (one, other)]
    both = sides[0].join(sides[1], how="inner", rsuffix="_other")
    member = (both["split"] == "member").to_numpy()
    if not np.array_equal(member, both["split_other"] == "member"):
        raise ValueError("the two models have different members")
    apart = weighted_auc_difference(both["score"].tolist(), both["score_other"].tolist(), member.tolist())
    return patient_bootstrap(apart, both.index.to_series(), member, resamples=RESAMPLES)


def _half_names(runs: StoredRuns, spec: RunSpec, half: str) -> pd.DataFrame:
    """Split and score of each patient, asked with the own other half of the name."""
    rows = probed(runs, spec, HALF_NAME)
    rows = rows[(rows["method"] == OWN) & (rows["target"] == half)]
    return rows.astype({"score": float}).set_index("patient_id")[["split", "score"]].sort_index()


def _rows(runs: StoredRuns, spec: RunSpec, probe: str, layer: int) -> pd.DataFrame:
    rows = runs.measured(spec, LAYERS)
    chosen = (rows["probe"] == probe) & (rows["model"] == TARGET) & (rows["layer"] == layer)
    return rows[chosen].astype({"score": float}).sort_values("patient_id", ignore_index=True)


def patients_written(runs: StoredRuns, spec: RunSpec, table: str = WRITTEN) -> Interval:
    """Share of members with their full name in at least one text of `table` − of held-out patients.

    Patients are independent trials: Newcombe's interval from those of Wilson.
    """
    rows = runs.measured(spec, table)
    return intervals.difference(*(_share_written(rows[rows["split"] == split]) for split in JUDGED_SPLITS))


def _share_written(rows: pd.DataFrame) -> Interval:
    count = int((rows["texts"] > 0).sum())
    return Interval(count / len(rows), *intervals.proportion_interval(count, len(rows)))


def highest_ranked(runs: StoredRuns, spec: RunSpec, table: str = WRITTEN) -> Interval:
    """A@100 of members − of held-out patients at equal pools (`share_of_names`); of all names if fewer were written.

    The two shares are combined as independent.

    Raises:
        Missing: No text holds a name, so none is ranked.
    """
    rows = runs.measured(spec, table)
    pool = {split: int((rows["split"] == split).sum()) for split in JUDGED_SPLITS}
    written = rows[rows["texts"] > 0]
    if written.empty:
        raise Missing(f"the texts of {runs.run(spec).id} hold no name")
    k = min(TOP_NAMES, len(written))
    return intervals.difference(*(share_of_names(written, split, pool, k) for split in JUDGED_SPLITS))


def top100_shares(runs: StoredRuns, spec: RunSpec, figures: int) -> tuple[Interval, Interval]:
    """A@100 of members, and of held-out patients at equal pools, in the texts of the audit (`share_of_names`).

    Their intervals are at the level at which `figures` of a claim hold together; NaN if no text holds a name.
    """
    look = Look(runs.audited(spec, FIGURES))
    pool = pools(runs.workspace.corpus(spec.corpus, store=False), ("full_name",))
    found = []
    for split, ratio in (("member", 1.0), ("heldout", pool["run"] / pool["heldout"])):
        row = look(NAMES, TOP100, "name", split=split)
        if not row.n:
            return Interval(math.nan, math.nan, math.nan), Interval(math.nan, math.nan, math.nan)
        found.append(share_of(scale_to_pool(row.value, 1 / ratio), row.n, figures, ratio))
    member, control = found
    return member, control


def linked(runs: StoredRuns, spec: RunSpec) -> Interval:
    """Share of texts with a member's name and a condition that the member has − that other members have.

    Members are resampled, each with all texts that pair the name with a condition.

    Raises:
        Missing: No text pairs a member with a condition.
    """
    rows = runs.measured(spec, LINKS)
    rows = rows[(rows["split"] == "member") & (rows["paired"] > 0)]
    if rows.empty:
        raise Missing(f"no text of {runs.run(spec).id} pairs a member's name with a condition")
    return patient_bootstrap(weighted_share(rows["right"] - rows["chance"], rows["paired"]), rows["patient_id"])
