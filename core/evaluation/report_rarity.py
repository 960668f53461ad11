"""What a report says about rare diseases (row J10): leakage by bucket of rarity, its trend, and single patients.

The buckets, their rates and intervals are those of the Patients page (core.runs.patient_queries,
core.evaluation.patient_leakage). Patients are grouped by how rare their set of diagnoses is; each bucket's figure
already has held-out patients of the same rarity taken off, and the public base model's stands beside it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.decision import LOSS, OWN_THRESHOLDS
from core.corpus.tables import Corpus
from core.evaluation.patient_leakage import leakage, rank_correlation
from core.evaluation.rarity import LEAST_PATIENTS, number_of_buckets
from core.evaluation.wording import p_value_text, verdict
from core.runs.audits import StoredAudit
from core.runs.disease_profiles import DiseaseProfiles
from core.runs.patient_queries import PatientTables, Scored
from core.runs.run import Run
from core.runs.store import Workspace

BUCKET_COLUMNS = (
    *("run", "attack", "bucket", "log_probability", "patients", "members", "heldout", "value", "low", "high"),
    *("tpr", "fpr", "base_value", "base_low", "base_high", "kept"),
)
TREND_COLUMNS = ("run", "attack", "buckets", "rho", "p_value", "dropped_buckets", "dropped_patients")
PATIENT_COLUMNS = ("run", "split", "patients", "rho", "low", "high", "p_value")
USUAL = 0.05  # a p-value below this is called a trend


def coded(corpus: Corpus) -> bool:
    """Whether any patient has a diagnosis code: without one nobody is rarer than anybody."""
    return bool((corpus.patients["icd_codes"].map(len) > 0).any())


def buckets(
    workspace: Workspace, runs: Sequence[Run], audits: Mapping[str, StoredAudit], corpus: Corpus
) -> pd.DataFrame:
    """Privacy leakage (TPR − FPR, row J3) of each bucket, `BUCKET_COLUMNS`; bucket 1 holds the rarest profiles.

    One row a run, attack and bucket: the loss attack of every run, and of a full audit also its attack with the highest
    AUC over patients. `kept` is false for a bucket of fewer than LEAST_PATIENTS, which has no figure. `base_value` is
    the loss attack on the public base model. Nothing is written; empty without codes.
    """
    if not coded(corpus):
        return pd.DataFrame(columns=list(BUCKET_COLUMNS))
    with tempfile.TemporaryDirectory() as beside:
        tables = _patient_tables(workspace, runs[0], corpus, Path(beside))
        place = tables.profile("patient")
        count = number_of_buckets(place["place"], place["patient"])
        bases: dict[str, pd.DataFrame] = {}
        frames = []
        for run in runs:
            base = None if run.spec.is_base else workspace.find(run.spec.base_spec())
            if base is not None and base.id not in bases:
                bases[base.id] = leakage(tables.buckets(_loss(base), "patient", count), "privacy leakage")
            for scored in _judges(run, audits[run.id]):
                found = leakage(tables.buckets(scored, "patient", count), "privacy leakage")
                found = found.assign(run=run.id, attack=scored.attack, bucket=found["bucket"] + 1)
                control = None if base is None else bases[base.id]
                frames.append(_beside(found, control))
    return pd.concat(frames, ignore_index=True)[list(BUCKET_COLUMNS)]


def _patient_tables(workspace: Workspace, run: Run, corpus: Corpus, beside: Path) -> PatientTables:
    """The cohort's files; one that is not on disk is written beside for the time being."""
    folder = workspace.corpus_folder(run.spec.corpus)
    if folder is None:
        corpus.write(beside)
        folder = beside
    return PatientTables(folder / "patients.parquet", folder / "notes.parquet")


def _loss(run: Run) -> Scored:
    return Scored(LOSS, run.folder / "tables" / "scores.parquet")


def _judges(run: Run, audit: StoredAudit) -> list[Scored]:
    """The loss attack, and the one that tells patients apart best where a full audit has tried several."""
    membership, files = audit.table("membership"), audit.files("scores")
    if membership.empty:
        return [_loss(run)]
    rows = membership[(membership["metric"] == "auc") & (membership["level"] == "patient")]
    rows = rows[(rows["length"] == "all") & rows["attack"].isin([*files])]
    best = None if rows.empty else str(rows.loc[rows["value"].idxmax(), "attack"])
    if best is None or best == LOSS:
        return [_loss(run)]
    return [_loss(run), Scored(best, files[best], OWN_THRESHOLDS.get(best))]


def _beside(found: pd.DataFrame, control: pd.DataFrame | None) -> pd.DataFrame:
    """The figures with those of the public base model for the same bucket."""
    names = {"value": "base_value", "low": "base_low", "high": "base_high"}
    if control is None:
        return found.assign(**dict.fromkeys(names.values(), math.nan))
    columns = control.assign(bucket=control["bucket"] + 1)[["bucket", *names]].rename(columns=names)
    return found.merge(columns, on="bucket", how="left")


def trends(table: pd.DataFrame) -> pd.DataFrame:
    """Spearman's ρ of rarity (−ln p) with leakage over the kept buckets, a row a run and attack: `TREND_COLUMNS`.

    ρ above 0: rarer diseases leak more. The p-value is that of a permutation test. `buckets` counts those that ρ is of:
    one whose patients are all members, or all held out, is kept but has no leakage.
    """
    rows = []
    for (run, attack), same in table.groupby(["run", "attack"], sort=False):
        kept, dropped = same[same["kept"]], same[~same["kept"]]
        found = rank_correlation(-kept["log_probability"], kept["value"])
        rows.append((run, attack, found.points, found.rho, found.p_value, len(dropped), int(dropped["patients"].sum())))
    return pd.DataFrame(rows, columns=list(TREND_COLUMNS))


def trend_sentence(attack: str, buckets: int, rho: float, p_value: float) -> str:
    """What a trend over buckets says, without claiming one that is not there."""
    if math.isnan(rho):
        return f"“{attack}”: {buckets} buckets show no trend that could be tested."
    told = f"“{attack}”: over {buckets} buckets ρ = {signed(rho)}, {p_value_text(p_value)}: "
    if p_value >= USUAL:
        return told + "no trend can be told."
    return told + ("rarer diseases leak more." if rho > 0 else "rarer diseases leak less.")


def signed(value: float) -> str:
    """`+0.12`, `−0.28`, and `0.00` without a sign."""
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"


def by_patient(runs: Sequence[Run], corpus: Corpus) -> pd.DataFrame:
    """Do members with rare diseases stand out more? Spearman's ρ of −ln p(c) (row J10) and the loss attack's score.

    One row a run and split: `members`, and `heldout` as the control (whoever is unlike the others is harder to predict,
    trained on or not). A member's score is the mean over their notes. ρ above 0: rarer profiles score higher. Profiles
    are those of the Patients page (`DiseaseProfiles`): rates over all patients but canaries, and whoever has no code
    has a profile, too. Fewer than 10 patients give no row.
    """
    if not coded(corpus):
        return pd.DataFrame(columns=list(PATIENT_COLUMNS))
    with tempfile.TemporaryDirectory() as beside:
        file = Path(beside) / "patients.parquet"
        corpus.patients[["patient_id", "split", "icd_codes"]].to_parquet(file, index=False)
        rare = -DiseaseProfiles(file, file.with_name("notes.parquet")).log_probabilities()
    rows = []
    for run in runs:
        scores = run.table("scores")
        scores = scores[scores["attack"] == LOSS]
        for split in ("member", "heldout"):
            means = scores[scores["split"] == split].groupby("patient_id")["score"].mean()
            both = pd.concat([rare, means], axis=1, join="inner")
            if len(both) >= LEAST_PATIENTS:
                found = stats.spearmanr(both.iloc[:, 0], both.iloc[:, 1])
                low, high = rank_interval(float(found.statistic), len(both))
                rows.append((run.id, split, len(both), float(found.statistic), low, high, float(found.pvalue)))
    return pd.DataFrame(rows, columns=list(PATIENT_COLUMNS))


def rank_interval(rho: float, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """95 % interval of Spearman's ρ by Fisher's transform, its variance (1 + ρ²/2)/(n − 3) (Bonett & Wright 2000)."""
    if not abs(rho) < 1:
        return math.nan, math.nan
    half = z * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half))


def patient_sentence(rows: pd.DataFrame) -> str:
    """Members against held-out patients of one run, from its rows of `by_patient`; empty where one of them lacks."""
    at = rows.set_index("split")
    if not {"member", "heldout"} <= set(at.index):
        return ""
    ends = [float(at.loc[split, end]) for split in ("member", "heldout") for end in ("low", "high")]
    if any(map(math.isnan, ends)):
        return ""
    return {
        "exceeds its control": "rarity marks members more than held-out patients",
        "cannot be told from its control": "rarity marks members no more than held-out patients",
        "below its control": "rarity marks members less than held-out patients",
    }[verdict(*ends)]
