"""Summary tables of extraction, memorisation and the guarantee, from the tables of a full audit and of its run."""

from __future__ import annotations

import math

import pandas as pd

from core.attacks.memorisation.own_values import own_rows
from core.evaluation.audit_summaries import Audited, Summary
from core.evaluation.guarantee.audit_guarantee import BOUND_COLUMNS, audit_guarantee, with_ceilings, with_patients
from core.evaluation.guarantee.curve_bound import with_curve
from core.evaluation.membership.strongest_attack import scores_of
from core.evaluation.memorisation.discoverable import TRIES_COLUMNS, tries_figures
from core.evaluation.memorisation.extraction import FIELD_COLUMNS, RECALL_COLUMNS, by_field, recall_table
from core.evaluation.memorisation.predictors import PREDICTOR_COLUMNS, memorised_notes, predict_memorised
from core.evaluation.memorisation.risk import RISK_COLUMNS, risk_scores
from core.evaluation.memorisation.unlearning import UNLEARNED_COLUMNS, unlearned_figures
from core.evaluation.memorisation.verbatim import MEMORISED_COLUMNS, memorised_rates
from core.runs.audits import StoredAudit
from core.runs.run import Run
from core.runs.tables import SCHEMAS


def _fields(audited: Audited) -> pd.DataFrame:
    return by_field(audited.run.table("hits"), audited.corpus)


def _recall(audited: Audited) -> pd.DataFrame:
    run = audited.run
    return recall_table(audited.audit.table("ranking"), run.table("generations"), run.table("hits"))


def _tries(audited: Audited) -> pd.DataFrame:
    settings = audited.run.spec.audit
    own = own_rows(audited.audit.table("discoverable"), audited.corpus.shared_values)
    return tries_figures(own, seed=settings.seed, resamples=settings.bootstrap)


def _unlearned(audited: Audited) -> pd.DataFrame:
    standing, steps = (audited.audit.table(f"unlearning_{name}") for name in ("standing", "steps"))
    return unlearned_figures(standing, steps, resamples=audited.run.spec.audit.bootstrap)


def _memorised(audited: Audited) -> pd.DataFrame:
    settings = audited.run.spec.audit
    return memorised_rates(audited.audit.table("prefixes"), seed=settings.seed, resamples=settings.bootstrap)


def _predictors(audited: Audited) -> pd.DataFrame:
    """The predictors; empty if the attack finds too few notes (a private model) or all: nothing is left to predict."""
    notes = audited.audit.table("note_features")
    members = notes[notes["split"] == "member"].reset_index(drop=True)
    found = memorised_notes(members["ratio"], notes.loc[notes["split"] == "heldout", "ratio"])
    try:
        return predict_memorised(members, found, members["patient_id"], seed=audited.run.spec.audit.seed)
    except ValueError:
        return pd.DataFrame(columns=list(PREDICTOR_COLUMNS))


def _risk(audited: Audited) -> pd.DataFrame:
    run, prefixes = audited.run, audited.audit.table("prefixes")
    settings = run.spec.audit
    tables = (run.metrics, run.table("scores"), run.table("canaries"))
    return risk_scores(*tables, prefixes, resamples=settings.bootstrap)


def _bounds(audited: Audited) -> pd.DataFrame:
    run, people = audited.run, audited.audit.table("canary_patients")
    scores = audited.audit.table("scores") if run.figures_only else scores_of(run, audited.audit)
    return bounds_of(run, None if scores.empty else scores, people)


NO_SCORES = SCHEMAS["scores"].empty_table().to_pandas()


def bounds_of(run: Run, scores: pd.DataFrame | None = None, people: pd.DataFrame | None = None) -> pd.DataFrame:
    """What the run's canaries and membership scores (by default its quick audit's) prove about its ε.

    The canaries alone count for a run with figures only, which has no scores, and for notes with a given split:
    chance did not decide who is a member, so differences between patients would pass for a leak. `people` is a full
    audit's table `canary_patients`; the quick audit does not rank them. δ is `delta_of` the run.
    """
    mechanism, canaries = run.privacy, run.table("canaries")
    if run.spec.corpus.split is not None:
        scores = NO_SCORES
    elif scores is None:
        scores = NO_SCORES if run.figures_only else run.table("scores")
    found = audit_guarantee(
        canaries if people is None else with_patients(canaries, people),
        scores,
        unit=run.spec.privacy.unit,
        delta=delta_of(run),
        promised=math.inf if mechanism is None else mechanism.epsilon(),
        seed=run.spec.audit.seed,
    )
    return with_curve(found, mechanism)


def delta_of(run: Run) -> float:
    """δ at which attacks prove an ε of a run: that of its promise, or of its settings without one.

    It is larger than that of training if the run has a vocabulary from its notes (Hoory 2021, §3.2).
    """
    return run.spec.privacy.delta if run.privacy is None else run.privacy.delta


def stored_bounds(run: Run, audit: StoredAudit) -> pd.DataFrame:
    """The bounds of a run: of its full audit, else of its own tables (`bounds_of`).

    An audit of an earlier version lacks the row by the run's curve, which is added, and has ceilings at δ = 0, which
    are computed again: the counts behind them are stored.
    """
    table = audit.table("bounds")
    return bounds_of(run) if table.empty else with_curve(with_ceilings(table, delta_of(run)), run.privacy)


MEMORISATION: tuple[Summary, ...] = (
    Summary("extraction_fields", FIELD_COLUMNS, (), _fields, version_imported=3),
    Summary("extraction_recall", RECALL_COLUMNS, ("ranking",), _recall),
    Summary("tries", TRIES_COLUMNS, ("discoverable",), _tries, version_imported=2),
    Summary("unlearned", UNLEARNED_COLUMNS, ("unlearning_standing",), _unlearned, version=3),
    Summary("memorised", MEMORISED_COLUMNS, ("prefixes",), _memorised, version=2),
    Summary("memorisation_predictors", PREDICTOR_COLUMNS, ("note_features",), _predictors, version=2),
    Summary("risk", RISK_COLUMNS, (), _risk, from_metrics=True, version=5),
    Summary("bounds", BOUND_COLUMNS, (), _bounds, version=5),
)
