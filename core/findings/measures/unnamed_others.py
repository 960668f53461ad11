"""Name insertion with names in the trained notes alone (Mireshghallah 2022, §4.3.1)."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_share
from core.findings.from_weights.unnamed_others import NAME
from core.findings.measures.attacks import Side, difference
from core.findings.measures.energies import scored
from core.findings.measures.tables import RESAMPLES
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec


def insertion_minus_regular(runs: StoredRuns, inserted: RunSpec, regular: RunSpec, attack: str) -> Interval:
    """AUC of the attack on the model of named notes, the others' notes unnamed − on that of the same notes unnamed.

    Both models have the same patients and notes, who are resampled for both together.
    """
    rows = runs.measured(inserted, NAME)
    return difference(Side(scored(rows, attack), attack), Side(runs.scores(regular, attack), attack))


def named_minus_regular_loss(runs: StoredRuns, inserted: RunSpec, regular: RunSpec) -> Interval:
    """Mean loss of members' notes, nats a token: named under the model of named notes − regular under the other model.

    Both models have the same patients and notes; each note counts once, and the members are resampled.
    """
    sides = [scored(runs.measured(inserted, NAME), LOSS), runs.scores(regular, LOSS)]
    named, plain = (rows[rows["split"] == "member"].set_index("note_id") for rows in sides)
    apart = (plain["score"].astype(float) - named["score"].astype(float)).dropna()
    by_patient = apart.groupby(named["patient_id"].reindex(apart.index)).agg(["sum", "size"])
    return patient_bootstrap(
        weighted_share(by_patient["sum"], by_patient["size"]), by_patient.index.to_numpy(), resamples=RESAMPLES
    )
