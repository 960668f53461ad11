"""The tables of a report, each a frame made of what the runs and their audits hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.membership import LOSS
from core.corpus.tables import Corpus
from core.evaluation.guarantee import audit_guarantee
from core.evaluation.rarity import log_profile_probability
from core.evaluation.risk import CALIBRATED
from core.evaluation.wording import verdict
from core.runs.audits import StoredAudit
from core.runs.facts import SHOWN, RunFacts
from core.runs.ledger import Release
from core.runs.run import Run

ENDS = ("value", "low", "high")
LEAST_PATIENTS = 10  # below this no correlation is told


def controls(runs: Sequence[Run]) -> pd.DataFrame:
    """The main figures of the quick audit beside both controls, and the verdict against the held-out one."""
    rows = []
    for run in runs:
        at = run.metrics.set_index(["metric", "arm"])
        exposures = sorted({name for name, _ in at.index if name.startswith("exposure:")})
        for metric in [name for name in (*SHOWN, *exposures[-1:]) if (name, "run") in at.index]:
            row = {"run": run.id, "metric": metric}
            for arm, prefix in (("run", ""), ("heldout", "heldout_"), ("base", "base_")):
                found = at.loc[(metric, arm)] if (metric, arm) in at.index else None
                row |= {f"{prefix}{end}": math.nan if found is None else float(found[end]) for end in ENDS}
                row |= {f"{prefix}n": 0 if found is None else int(found["n"])}
            ends = [row[f"{prefix}{end}"] for prefix in ("", "heldout_") for end in ("low", "high")]
            row["verdict"] = "" if any(map(math.isnan, ends)) else verdict(*ends)
            rows.append(row)
    return pd.DataFrame(rows)


def attacks(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """Membership by every attack of a full audit: AUC by note and by patient with intervals. Empty without one."""
    frames = []
    for run_id, audit in audits.items():
        table = audit.table("membership")
        if len(table):
            keep = (table["metric"] == "auc") & (table["length"] == "all") & (table["rule"] == "")
            keep &= table["level"].isin(["sample", "patient"])
            frames.append(table[keep].assign(run=run_id))
    if not frames:
        return pd.DataFrame(columns=["run", "attack", "level", *ENDS, "n"])
    found = pd.concat(frames, ignore_index=True)
    return found[["run", "attack", "level", *ENDS, "n"]].replace({"level": {"sample": "note"}})


def bounds(runs: Sequence[Run], audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """What attacks prove about ε: of the full audit, else of the quick one's canaries and scores."""
    frames = []
    for run in runs:
        if run.spec.is_base:
            continue
        table = audits[run.id].table("bounds")
        if table.empty:
            mechanism = run.privacy
            table = audit_guarantee(
                run.table("canaries"),
                _loss_scores(run),
                unit=run.spec.privacy.unit,
                delta=run.spec.privacy.delta,
                promised=math.inf if mechanism is None else mechanism.epsilon(),
                seed=run.spec.audit.seed,
            )
        frames.append(table.assign(run=run.id))
    columns = [
        "run",
        "audit",
        "evidence",
        "unit",
        "group",
        "trials",
        "correct",
        "epsilon",
        "ceiling",
        "promised",
        "alarm",
    ]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _loss_scores(run: Run) -> pd.DataFrame:
    scores = run.table("scores")
    return scores[scores["attack"] == LOSS]


def risk_scores(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """Row P5's risk with controls, part by part. Empty without a full audit."""
    frames = []
    for run_id, audit in audits.items():
        table = audit.table("risk")
        if len(table):
            frames.append(table[table["version"] == CALIBRATED].drop(columns="version").assign(run=run_id))
    columns = ["run", "part", "weight", *ENDS, "measured", "control"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def hipaa(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """HIPAA's 18 identifiers, a row an identifier and run."""
    rows = [{"run": one.run_id, **row} for one in facts for row in one.hipaa]
    columns = ["run", "number", "identifier", "tested", *ENDS, "control", "control_low", "control_high", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def rarity(runs: Sequence[Run], corpus: Corpus) -> pd.DataFrame:
    """Do members with rare diseases stand out more? Spearman's ρ of −ln p(c) (row J10) and the loss attack's score.

    One row a run and split: `members`, and `heldout` as the control (whoever is unlike the others is harder to predict,
    trained on or not). A member's score is the mean over their notes. ρ above 0: rarer profiles score higher. Patients
    without codes are left out; fewer than 10 patients give no row.
    """
    coded = corpus.patients[corpus.patients["icd_codes"].map(len) > 0].set_index("patient_id")
    columns = ["run", "split", "patients", "rho", "low", "high", "p_value"]
    if coded.empty:
        return pd.DataFrame(columns=columns)
    rare = -log_profile_probability(coded["icd_codes"])
    rows = []
    for run in runs:
        scores = _loss_scores(run)
        for split in ("member", "heldout"):
            means = scores[scores["split"] == split].groupby("patient_id")["score"].mean()
            both = pd.concat([rare, means], axis=1, join="inner")
            if len(both) >= LEAST_PATIENTS:
                found = stats.spearmanr(both.iloc[:, 0], both.iloc[:, 1])
                low, high = _rank_interval(float(found.statistic), len(both))
                rows.append((run.id, split, len(both), float(found.statistic), low, high, float(found.pvalue)))
    return pd.DataFrame(rows, columns=columns)


def _rank_interval(rho: float, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """95 % interval of Spearman's ρ by Fisher's transform, its variance (1 + ρ²/2)/(n − 3) (Bonett & Wright 2000)."""
    if not abs(rho) < 1:
        return math.nan, math.nan
    half = z * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half))


def ledger_table(releases: Sequence[Release]) -> pd.DataFrame:
    """What was released, a row an entry."""
    rows = []
    for one in releases:
        when = pd.Timestamp(one.time, unit="s", tz="UTC").isoformat(timespec="seconds")
        rows.append((one.number, when, one.kind, one.name, one.unit or "", one.epsilon(), one.seed, one.reason))
    return pd.DataFrame(rows, columns=["number", "time", "kind", "name", "unit", "epsilon", "seed", "reason"])
