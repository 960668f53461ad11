"""A report for a privacy board: all facts and tables about some runs of one cohort.

`build` collects them; core/evaluation/report/html.py and `Report.to_json` only write them in a format, so that page,
file and JSON cannot differ. The model cards of the runs use the same `core.runs.facts`.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import pandas as pd

from core.common.versions import versions
from core.evaluation.guarantee.odds import mechanism_accuracy
from core.evaluation.memorisation.left_out import counts_own_values
from core.evaluation.report.commands import audit_command, report_commands
from core.evaluation.report.crosswalk.cells import Evidence
from core.evaluation.report.crosswalk.tables import frame, frameworks
from core.evaluation.report.csv_export import spreadsheet_csv
from core.evaluation.report.decision import Decision
from core.evaluation.report.deployment_record import record
from core.evaluation.report.findings import (
    Facts,
    bounds_by_curve,
    finding,
    noise_alone,
    planted_gradients,
    promised_facts,
    recommended_facts,
    released_beside,
)
from core.evaluation.report.glance import Subject, subject_of, verdict
from core.evaluation.report.glance import facts as ten_facts
from core.evaluation.report.identity import checksums, cohort, identity, most_notes
from core.evaluation.report.json_export import plain
from core.evaluation.report.label import label, picture
from core.evaluation.report.rarity import rarity
from core.evaluation.report.tables import (
    attacks,
    bounds,
    controls,
    hipaa,
    ledger_table,
    membership,
    membership_by_note,
    memorised,
    planted,
    probes,
    risk_scores,
    tries,
)
from core.evaluation.report.what_follows import accepted_limits, conditions, limit_lines, still_open
from core.evaluation.sweep.limit_measures import costs
from core.evaluation.sweep.recommendation import COLUMNS, Recommendation
from core.evaluation.wording import guaranteed_text, most_right_guesses, shared_values_sentence
from core.runs.facts import RunFacts, run_facts
from core.runs.ledger.choice import Choice
from core.runs.ledger.entries import Ledger, Release, entry_of
from core.runs.run import Run
from core.runs.store import Workspace

SCHEMA = "phi-leak-lab/report/4"  # of the JSON: report.schema.json beside this file
Rarity = tuple[pd.DataFrame, pd.DataFrame, dict[str, list[str]]]  # tables of buckets and trends, and their sentences


@dataclass(frozen=True)
class Report:
    """`facts` are texts and single values (JSON except for ∞); `tables` are frames by name, in the report's order."""

    facts: Facts
    tables: dict[str, pd.DataFrame]

    def to_json(self) -> str:
        """All facts and every table, one object per row. ∞ is "inf", and missing values are null."""
        tables = {name: frame.to_dict("records") for name, frame in self.tables.items()}
        printed = {name: value for name, value in self.facts.items() if name != "label_picture"}
        return json.dumps(plain({**printed, "tables": tables}), ensure_ascii=False, indent=1, allow_nan=False)

    def to_zip(self, html: str) -> bytes:
        """Pack report.html, report.json and one CSV per table; no cell starts a spreadsheet formula.

        A private subject's record for the registry of deployments is in deployment-record.json.
        """
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("report.html", html)
            archive.writestr("report.json", self.to_json())
            if (found := self.facts["deployment_record"]) is not None:
                archive.writestr("deployment-record.json", json.dumps(plain(found), ensure_ascii=False, indent=1))
            for name, frame in self.tables.items():
                archive.writestr(f"{name}.csv", spreadsheet_csv(frame))
        return packed.getvalue()


def outline(workspace: Workspace, runs: Sequence[Run]) -> Report:
    """The part of a report that is read from the runs' own files in milliseconds: names, models and controls.

    Its values are those of `build`, which computes the rest in seconds. `runs` are at least one. Raises LedgerBroken as
    `build` does.
    """
    choices = choices_of(runs, Ledger.of(workspace, runs[0].spec.corpus).releases())
    facts = _facts_of(runs, choices)
    tables = {"models": _models(runs, facts, choices), "controls": controls(runs)}
    return Report({"names": short_names(runs, choices)}, tables)


def choices_of(runs: Sequence[Run], releases: Sequence[Release]) -> dict[str, Choice]:
    """The runs, by id, that the ledger of their cohort has as the best of several runs, and how they were chosen.

    Runs of another training than their entry's are left out.
    """
    entries = {run.id: entry_of(run, releases) for run in runs}
    return {run_id: entry.choice for run_id, entry in entries.items() if entry is not None and entry.choice is not None}


def _facts_of(runs: Sequence[Run], choices: Mapping[str, Choice]) -> list[RunFacts]:
    return [run_facts(run.id, run.spec, run.privacy, run.metrics, choices.get(run.id)) for run in runs]


def first_page(
    workspace: Workspace,
    runs: Sequence[Run],
    *,
    recommendation: Recommendation | None = None,
    delta: float = 1e-5,
    subject: str | None = None,
    decision: Decision | None = None,
) -> Report:
    """The part of a report that its first page needs, in about a second; arguments and errors are those of `build`."""
    if not runs:
        raise ValueError("A report is about at least one run: choose some.")
    if len({run.spec.corpus for run in runs}) > 1:
        raise ValueError("A report is about one cohort, but these runs were trained on several. Make a report of each.")
    chosen, decision = subject_of(runs, subject), decision or Decision()
    corpus = workspace.corpus(runs[0].spec.corpus, store=False)
    releases = Ledger.of(workspace, runs[0].spec.corpus).releases()
    choices = choices_of(runs, releases)
    facts = _facts_of(runs, choices)
    audits = {run.id: workspace.audit(run.id) for run in runs}
    for stored in audits.values():
        stored.check()
        stored.proving().check()
    bases = {run.id: workspace.find(run.spec.base_spec()) for run in runs}
    quick, full = controls(runs), attacks(audits)
    tables = {
        "models": _models(runs, facts, choices),
        "controls": quick,
        "attacks": full,
        "strongest": membership(runs, audits, bases),
        "strongest_note": membership_by_note(full, quick, runs),
        "bounds": bounds(runs, audits, choices),
        "planted": planted(runs, audits),
        "hipaa": hipaa(facts),
        "accepted_limits": accepted_limits(chosen, audits[chosen.id], decision),
        "recommendation": pd.DataFrame(columns=COLUMNS) if recommendation is None else recommendation.table,
        "ledger": ledger_table(releases),
    }
    names, about_cohort = short_names(runs, choices), cohort(corpus, chosen)
    promise = promised_facts(releases, corpus, delta)
    most = about_cohort["most_training_notes_of_a_patient"]
    about = Subject.of(chosen, names[chosen.id], tables, most, choices.get(chosen.id))
    key, said = verdict(about)
    stated: Facts = {
        "names": names,
        "cohort": about_cohort,
        "subject": {"run": chosen.id, "name": about.name, "verdict": key, "sentence": said},
        "glance": ten_facts(about, about_cohort, released_beside(chosen, releases, promise["sentences"])),
        "conditions": conditions(about, decision),
        "open": still_open(
            about,
            decision,
            audited=bool(audits[chosen.id].outcomes()),
            recommended=recommendation is not None,
            shared=shared_values_sentence(corpus.shared_values) if counts_own_values(chosen.metrics) else "",
        ),
        "decision": decision.model_dump(mode="json"),
        "accepted_limits": limit_lines(tables["accepted_limits"]),
        "promised": promise,
        "recommendation": recommended_facts(recommendation, accepted=bool(decision.limits)),
    }
    return Report(stated, tables)


def build(
    workspace: Workspace,
    runs: Sequence[Run],
    *,
    recommendation: Recommendation | None = None,
    delta: float = 1e-5,
    now: float | None = None,
    subject: str | None = None,
    decision: Decision | None = None,
    rare: Rarity | None = None,
) -> Report:
    """Collect everything about `runs`, which share one cohort.

    Args:
        workspace: the folder of runs and cohorts.
        runs: at least one run.
        recommendation: the recommendation for a reader's limits, if there are any.
        delta: δ of the totals of the cohort's ledger.
        now: the report's date in Unix seconds; by default the current time.
        subject: the id of the run that is decided about; by default as `subject_of` chooses it.
        decision: what a board filled in; by default nothing.
        rare: what `rarity_of` found, which takes most of the time; by default it is computed.

    Raises:
        ValueError: no runs, runs of several cohorts, or a subject that is not among them; the text is a sentence.
        LedgerBroken: the cohort's ledger is damaged.
        AuditBroken: a run's stored audit is damaged.
    """
    first = first_page(workspace, runs, recommendation=recommendation, delta=delta, subject=subject, decision=decision)
    corpus = workspace.corpus(runs[0].spec.corpus, store=False)
    releases = Ledger.of(workspace, runs[0].spec.corpus).releases()
    choices = choices_of(runs, releases)
    facts = _facts_of(runs, choices)
    audits = {run.id: workspace.audit(run.id) for run in runs}
    by_bucket, trends, said = rare or rarity_of(workspace, runs)
    tables = first.tables | {
        "memorised": memorised(audits),
        "tries": tries(audits),
        "probes": probes(audits),
        "risk": risk_scores(audits),
        "rarity_buckets": by_bucket,
        "rarity_trends": trends,
        "costs": costs(runs),
        "checksums": checksums(workspace, subject_of(runs, subject)),
        "figures": _figures(runs),
    }
    chosen = subject_of(runs, subject)
    most = {run.id: most_notes(corpus, run) for run in runs if run.id != chosen.id}
    most[chosen.id] = first.facts["cohort"]["most_training_notes_of_a_patient"]
    about = Subject.of(chosen, first.facts["names"][chosen.id], tables, most[chosen.id], choices.get(chosen.id))
    entry = entry_of(chosen, releases)
    made = datetime.now(UTC).isoformat(timespec="seconds") if now is None else _date(now)
    stated: Facts = {
        "schema": SCHEMA,
        **first.facts,
        "title": "Privacy report",
        "made": made,
        "identity": identity(tables["checksums"], chosen, first.facts["cohort"]["digest"]),
        "label": (own := label(about)),
        "label_picture": picture(about),
        "deployment_record": record(
            about, own, first.facts, made=made, released=None if entry is None else _date(entry.time)
        ),
        "verdict": [
            finding(run, one, tables, most[run.id], choices.get(run.id), _beside(workspace, run, runs))
            for run, one in zip(runs, facts, strict=True)
        ],
        "bounds_by_curve": bounds_by_curve(tables["bounds"]),
        "planted_gradients": planted_gradients(tables["planted"]),
        "rarity": said,
        "limits": list(dict.fromkeys(limit for one in facts for limit in one.limits)),
        "not_attacked": [_not_attacked(run) for run in runs if not audits[run.id].outcomes()],
        "commands": report_commands(
            runs,
            audits,
            None if recommendation is None else recommendation.limits,
            delta,
            subject,
            decided=decision is not None and decision != Decision(),
        ),
        "versions": versions(),
        "trained_by": {run.id: run.trained_by for run in runs if not run.spec.is_base},
        "specs": {run.id: run.spec.model_dump(mode="json") for run in runs},
    }
    found = frameworks(Evidence(about, own, stated))
    stated["crosswalk"] = [asdict(one) for one in found]
    return Report(stated, tables | {"crosswalk": frame(found)})


def rarity_of(workspace: Workspace, runs: Sequence[Run]) -> Rarity:
    """The section on rare diseases (`core.evaluation.report.rarity.rarity`), which takes seconds for full audits."""
    audits = {run.id: workspace.audit(run.id) for run in runs}
    return rarity(workspace, runs, audits, workspace.corpus(runs[0].spec.corpus, store=False))


def _beside(workspace: Workspace, run: Run, runs: Sequence[Run]) -> list[str]:
    """What a run and its control without noise have to do with the others, in sentences."""
    return noise_alone(run, runs, workspace.find(run.spec.clipped_spec()) if run.spec.clipped_id else None)


def _not_attacked(run: Run) -> str:
    made = "prompt extraction and the loss attack on membership"
    if run.metrics["metric"].str.startswith("exposure:").any():
        made = "prompt extraction, the loss attack on membership, and exposure of canaries"
    return (
        f"{run.id} had the quick audit only: {made}. The other attacks were not run; to run them: "
        f"{audit_command(run.id)}"
    )


def short_names(runs: Sequence[Run], choices: Mapping[str, Choice] | None = None) -> dict[str, str]:
    """Names of the runs in tables, by run id: `A: no privacy`, `B: ε = 8 per note`, `C: no privacy, clipped`.

    The ε of a run among `choices` is that of the choice.
    """
    found, chosen = {}, choices or {}
    for number, run in enumerate(runs):
        mechanism = run.privacy
        promise = "no privacy"
        if mechanism is not None:
            held = chosen[run.id].best_of(mechanism) if run.id in chosen else mechanism
            promise = f"ε = {guaranteed_text(held.epsilon())} per {mechanism.unit}"
        promise += ", clipped" if run.spec.training.clip_norm is not None else ""
        promise += "" if run.spec.defence is None else f", {run.spec.defence.label}"
        promise += "" if run.spec.without is None else f", without {', '.join(run.spec.without)}"
        letter = chr(ord("A") + number) if number < 26 else str(number + 1)
        found[run.id] = f"{letter}: {'public model' if run.spec.is_base else promise}"
    return found


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _counted(run: Run, *, chosen: bool) -> float:
    """The most right guesses by exact accounting; NaN of a chosen run, since only one training's is known."""
    if run.privacy is None:
        return 0.5 if run.spec.is_base else 1.0
    return math.nan if chosen else mechanism_accuracy([run.privacy])


def _models(runs: Sequence[Run], facts: Sequence[RunFacts], choices: Mapping[str, Choice]) -> pd.DataFrame:
    """One row per run: its model, and its guarantee with everything that it depends on."""
    rows = []
    for run, fact in zip(runs, facts, strict=True):
        spec, held = run.spec, fact.guarantee or {}
        epsilon = held.get("epsilon", 0.0 if spec.is_base else math.inf)
        rows.append(
            {
                "run": run.id,
                "model": spec.model.kind,
                "size": spec.model.size,
                "seed": spec.training.seed,
                "epochs": spec.training.epochs,
                "epsilon": epsilon,
                "delta": held.get("delta", math.nan),
                "unit": held.get("unit", ""),
                "neighbouring": held.get("neighbouring", ""),
                "accountant": held.get("accountant", ""),
                "sigma": held.get("noise_multiplier", math.nan),
                "sample_rate": held.get("sample_rate", math.nan),
                "steps": held.get("steps", math.nan),
                "clipping_norm": held.get("max_grad_norm", math.nan),
                "noise_source": held.get("noise_source", ""),
                "right_guesses_promised": most_right_guesses(epsilon, held.get("delta", 0.0)),
                "right_guesses_counted": _counted(run, chosen=run.id in choices),
            }
        )
    return pd.DataFrame(rows)


def _figures(runs: Sequence[Run]) -> pd.DataFrame:
    """The complete metrics tables of all runs."""
    frames = [run.metrics.assign(run=run.id) for run in runs]
    columns = ["run", "metric", "arm", "value", "low", "high", "n", "note"]
    return pd.concat(frames, ignore_index=True)[columns]
