"""How much each layer of a masked model knows of names (Lehman 2021, §6.4 and §6.5, by layer)."""

from __future__ import annotations

import pandas as pd

from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.table import TARGET
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_auc
from core.evaluation.stats.boundary_intervals import auc_interval
from core.findings.from_weights.name_layers import NAME
from core.findings.stored_runs import StoredRuns
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
    first, second = (weighted_auc(rows["score"], rows["label"]) for rows in sides)
    people, strata = sides[0]["patient_id"], sides[0]["label"]
    return patient_bootstrap(lambda weights: first(weights) - second(weights), people, strata)


def _rows(runs: StoredRuns, spec: RunSpec, probe: str, layer: int) -> pd.DataFrame:
    rows = runs.measured(spec, NAME)
    chosen = (rows["probe"] == probe) & (rows["model"] == TARGET) & (rows["layer"] == layer)
    return rows[chosen].astype({"score": float}).sort_values("patient_id", ignore_index=True)
