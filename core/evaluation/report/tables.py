"""The tables of a report, each a frame computed from the runs and their audits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.evaluation import registry
from core.evaluation.guarantee.audit_guarantee import BOUND_COLUMNS, BY_CURVE
from core.evaluation.guarantee.step_audit import PLANTED_COLUMNS, stored_proofs
from core.evaluation.membership.of_run import notes_judged, strongest_on
from core.evaluation.memorisation.discoverable import TRIES_COLUMNS, by_chance
from core.evaluation.memorisation.risk import CALIBRATED
from core.evaluation.memorisation.summary import stored_bounds
from core.evaluation.probes.cards import cards
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import most_certain
from core.evaluation.wording import verdict
from core.runs.audits import StoredAudit
from core.runs.facts import RunFacts
from core.runs.ledger.choice import Choice
from core.runs.ledger.entries import Release
from core.runs.run import Run

ENDS = ("value", "low", "high")
BASE_ENDS = tuple(f"base_{end}" for end in ENDS)  # of the control on the public base model
_COUNTED = {"tp", "fn", "fp", "tn"}  # counts behind a bound, which reports leave out


def controls(runs: Sequence[Run]) -> pd.DataFrame:
    """The figures of the quick audit that have a title in the registry, with both controls.

    `verdict` compares the intervals; `against` names the control: held-out patients, else the public base model.
    """
    rows = []
    for run in runs:
        at = run.metrics.set_index(["metric", "arm"])
        for metric in registry.reported(name for name, arm in at.index if arm == "run"):
            row: dict[str, Any] = {"run": run.id, "metric": metric}
            for arm, prefix in (("run", ""), ("heldout", "heldout_"), ("base", "base_")):
                found = at.loc[(metric, arm)] if (metric, arm) in at.index else None
                row |= {f"{prefix}{end}": math.nan if found is None else float(found[end]) for end in ENDS}
                row |= {f"{prefix}n": 0 if found is None else int(found["n"])}
            row |= dict(zip(("verdict", "against"), _judged(row), strict=True))
            rows.append(row)
    return pd.DataFrame(rows)


def _judged(row: Mapping[str, Any]) -> tuple[str, str]:
    """(verdict, name of the control); both empty if an interval is missing."""
    for prefix, name in (("heldout_", "held out"), ("base_", "base")):
        ends = [row[f"{which}{end}"] for which in ("", prefix) for end in ("low", "high")]
        if not any(map(math.isnan, ends)):
            return verdict(*ends), name
    return "", ""


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


def membership(runs: Sequence[Run], audits: Mapping[str, StoredAudit], bases: Mapping[str, Run | None]) -> pd.DataFrame:
    """AUC by patient of the strongest attack that was run on each model: of its full audit, else the loss attack.

    `base_value`, `base_low` and `base_high` are the control: the loss attack on the public base model, which read none
    of the notes, by all patients that it scored; an attack may score fewer. NaN without that model. `bases` has it for
    each run.
    """
    on_base = {
        base.id: strongest_on(base, None)
        for base in {one.id: one for one in bases.values() if one is not None}.values()
    }
    rows = []
    for run in runs:
        found = strongest_on(run, audits[run.id])
        if found is None:
            continue
        base = bases[run.id]
        control = None if base is None or run.spec.is_base else on_base[base.id]
        rows.append(
            {
                "run": run.id,
                **vars(found.interval),
                "attack": found.attack,
                "attacks": found.attacks,
                "patients": found.patients,
                **{f"base_{end}": math.nan if control is None else vars(control.interval)[end] for end in ENDS},
            }
        )
    return pd.DataFrame(rows, columns=["run", *ENDS, "attack", "attacks", "patients", *BASE_ENDS])


def membership_by_note(attacks: pd.DataFrame, controls: pd.DataFrame, runs: Sequence[Run]) -> pd.DataFrame:
    """AUC by note of the strongest attack on each model, from the report's tables `attacks` and `controls`.

    That is the attack with the highest lower end of its stored interval, widened for the choice
    (`core.evaluation.stats.intervals.most_certain`), of those of the full audit and the loss attack of the quick audit.
    The control is the loss attack on the public base model. `n` of `auc_loss` counts patients, so the notes are counted
    in the scores.
    """
    rows, by_id = [], {run.id: run for run in runs}
    for quick in controls[controls["metric"] == "auc_loss"].to_dict("records"):
        tried = attacks[(attacks["run"] == quick["run"]) & (attacks["level"] == "note") & attacks["value"].notna()]
        found = tried[["attack", *ENDS, "n"]].to_dict("records")
        if LOSS not in set(tried["attack"]):
            found.append({"attack": LOSS, **{end: quick[end] for end in ENDS}, "n": notes_judged(by_id[quick["run"]])})
        judged = [Interval.of(one) for one in found]
        place, widened = most_certain(judged, least=0.0)
        chosen = {"attack": found[place]["attack"], "attacks": len(found), "notes": int(found[place]["n"])}
        rows.append({"run": quick["run"], **vars(widened), **chosen, **{end: quick[end] for end in BASE_ENDS}})
    return pd.DataFrame(rows, columns=["run", *ENDS, "attack", "attacks", "notes", *BASE_ENDS])


def bounds(
    runs: Sequence[Run], audits: Mapping[str, StoredAudit], choices: Mapping[str, Choice] | None = None
) -> pd.DataFrame:
    """The bounds that attacks prove on ε: of the full audit, else of the quick audit's canaries and scores.

    `choices` has the runs, by id, that the ledger has as the best of several runs: their bounds are compared with
    the ε of the choice, and none is by the trade-off curve, which is that of a single training.
    """
    frames, chosen = [], choices or {}
    for run in runs:
        if not run.spec.is_base:
            found = stored_bounds(run, audits[run.id]).assign(run=run.id)
            frames.append(_of_the_choice(found, run, chosen[run.id]) if run.id in chosen else found)
    columns = ["run", *(name for name in BOUND_COLUMNS if name not in _COUNTED)]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _of_the_choice(bounds: pd.DataFrame, run: Run, choice: Choice) -> pd.DataFrame:
    assert run.privacy is not None  # only a private run can be entered with a choice
    promised = choice.best_of(run.privacy).epsilon()
    kept = bounds[bounds["evidence"] != BY_CURVE]
    return kept.assign(promised=promised, alarm=kept["epsilon"] > promised)


def planted(runs: Sequence[Run], audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """What gradients planted in trainings like the runs' proved about ε to an attacker who sees every step.

    One row per number of canaries and seed (`core.evaluation.guarantee.step_audit`). Empty without any.
    """
    frames = [stored_proofs(audits[run.id]).assign(run=run.id) for run in runs if run.privacy is not None]
    columns = ["run", *PLANTED_COLUMNS]
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def tries(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """How many tries patients' identifiers take (`core.evaluation.memorisation.discoverable.tries_figures`), by run.

    `by_chance` is the limit of the figure `above` for a training without effect, over all identifiers of the run
    together; NaN for other figures.
    Empty without that attack.
    """
    frames = [audit.table("tries").assign(run=run_id) for run_id, audit in audits.items()]
    frames = [frame for frame in frames if "figure" in frame and len(frame)]
    columns = ["run", *TRIES_COLUMNS, "by_chance"]
    if not frames:
        return pd.DataFrame(columns=columns)
    found = pd.concat(frames, ignore_index=True)
    controls = found[(found["arm"] == "heldout") & (found["figure"] == "one_in")]
    heldout = controls.set_index(["run", "field"])["patients"].to_dict()
    fields = found.loc[found["figure"] == "above", "run"].value_counts().to_dict()
    found["by_chance"] = [
        by_chance(int(members), heldout[run, field], fields[run])[1] if figure == "above" else math.nan
        for run, field, figure, members in found[["run", "field", "figure", "patients"]].itertuples(index=False)
    ]
    return found[columns]


def memorised(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """The prefix attack of full audits: share of notes whose rest it wrote word for word, and both controls.

    One row per run, arm (`run`, `heldout`, `base`) and length of the prefix. Empty without that attack.
    """
    frames = [audit.table("memorised").assign(run=run_id) for run_id, audit in audits.items()]
    frames = [frame for frame in frames if "verbatim" in frame and len(frame)]
    columns = ["run", "arm", "prefix_tokens", *ENDS, "notes", "patients"]
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True).rename(columns={"verbatim": "value"})[columns]


def probes(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """The identity probes of full audits in words (core.evaluation.probes.cards): one row per run and probe."""
    rows = []
    for run_id, audit in audits.items():
        figures = audit.table("probe_figures")
        for one in cards(figures) if len(figures) else ():
            said = (one.question, one.answer, one.controls, one.verdict, one.conclusion)
            rows.append((run_id, one.row, one.probe, *said))
    return pd.DataFrame(
        rows, columns=["run", "row", "probe", "question", "answer", "controls", "verdict", "conclusion"]
    )


def risk_scores(audits: Mapping[str, StoredAudit]) -> pd.DataFrame:
    """The weighted risk (PrivAI-Leak report, §5.4.3), each part with its control. Empty without a full audit."""
    frames = []
    for run_id, audit in audits.items():
        table = audit.table("risk")
        if len(table):
            frames.append(table[table["version"] == CALIBRATED].drop(columns="version").assign(run=run_id))
    columns = ["run", "part", "weight", *ENDS, "measured", "control"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def hipaa(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """HIPAA's 18 identifiers, one row per identifier and run."""
    rows = [{"run": one.run_id, **row} for one in facts for row in one.hipaa]
    columns = ["run", "number", "identifier", "tested", *ENDS, "control", "control_low", "control_high", "note"]
    return pd.DataFrame(rows).reindex(columns=columns)


def ledger_table(releases: Sequence[Release]) -> pd.DataFrame:
    """The ledger's entries, one row each."""
    rows = []
    for one in releases:
        when = pd.Timestamp(one.time, unit="s", tz="UTC").isoformat(timespec="seconds")
        chosen = "" if one.choice is None else one.choice.text()
        rows.append((one.number, when, one.kind, one.name, one.unit or "", one.epsilon(), one.seed, one.reason, chosen))
    columns = ["number", "time", "kind", "name", "unit", "epsilon", "seed", "reason", "chosen"]
    return pd.DataFrame(rows, columns=columns)
