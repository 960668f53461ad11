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
from typing import Any

import pandas as pd

from core.common.formatting import delta_text, promised_text
from core.corpus.tables import Corpus
from core.evaluation.figures.limited import UTILITY
from core.evaluation.guarantee.audit_guarantee import headline_bound
from core.evaluation.guarantee.odds import group_sentence, mechanism_accuracy, mechanism_sentence
from core.evaluation.membership.strongest_attack import Strongest, strongest_sentence
from core.evaluation.report.commands import audit_command, commands, report_command, versions
from core.evaluation.report.csv_export import spreadsheet_csv
from core.evaluation.report.json_export import plain
from core.evaluation.report.rarity import rarity
from core.evaluation.report.tables import (
    ENDS,
    attacks,
    bounds,
    controls,
    hipaa,
    ledger_table,
    membership,
    memorised,
    probes,
    risk_scores,
)
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.limit_measures import costs
from core.evaluation.sweep.recommendation import Recommendation
from core.evaluation.wording import audit_sentence, leak_sentence, most_right_guesses, odds_sentence
from core.runs.audits import StoredAudit
from core.runs.facts import RunFacts, run_facts
from core.runs.ledger.entries import Ledger
from core.runs.ledger.totals import promised, together
from core.runs.run import Run
from core.runs.store import Workspace

HEADLINE = "direct_patients"  # the leak that the verdict is about
EVERYTHING = "Everything released of this cohort so far promises"


@dataclass(frozen=True)
class Report:
    """`facts` are texts and single values (JSON except for ∞); `tables` are frames by name, in the report's order."""

    facts: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    def to_json(self) -> str:
        """All facts and every table, one object per row. ∞ is "inf", and missing values are null."""
        tables = {name: frame.to_dict("records") for name, frame in self.tables.items()}
        return json.dumps(plain({**self.facts, "tables": tables}), ensure_ascii=False, indent=1, allow_nan=False)

    def to_zip(self, html: str) -> bytes:
        """Pack report.html, report.json and one CSV per table; no cell starts a spreadsheet formula."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("report.html", html)
            archive.writestr("report.json", self.to_json())
            for name, frame in self.tables.items():
                archive.writestr(f"{name}.csv", spreadsheet_csv(frame))
        return packed.getvalue()


def outline(runs: Sequence[Run]) -> Report:
    """The part of a report that is read from the runs' own files in milliseconds: names, models and controls.

    Its values are those of `build`, which computes the rest in seconds.
    """
    facts = [run_facts(run.id, run.spec, run.privacy, run.metrics) for run in runs]
    return Report({"names": short_names(runs)}, {"models": _models(runs, facts), "controls": controls(runs)})


def build(
    workspace: Workspace,
    runs: Sequence[Run],
    *,
    recommendation: Recommendation | None = None,
    delta: float = 1e-5,
    now: float | None = None,
) -> Report:
    """Collect everything about `runs`, which share one cohort.

    Args:
        workspace: the folder of runs and cohorts.
        runs: at least one run.
        recommendation: the recommendation for a reader's limits, if there are any.
        delta: δ of the totals of the cohort's ledger.
        now: the report's date in Unix seconds; by default the current time.

    Raises:
        ValueError: no runs, or runs of several cohorts; the text is a sentence.
        LedgerBroken: the cohort's ledger is damaged.
        AuditBroken: a run's stored audit is damaged.
    """
    if not runs:
        raise ValueError("a report is about at least one run: choose some")
    corpora = {run.spec.corpus for run in runs}
    if len(corpora) > 1:
        raise ValueError("a report is about one cohort, and these runs were trained on several: make a report of each")
    corpus = workspace.corpus(corpora.pop(), store=False)
    facts = [run_facts(run.id, run.spec, run.privacy, run.metrics) for run in runs]
    audits = {run.id: workspace.audit(run.id) for run in runs}
    for stored in audits.values():
        stored.check()
    ledger = Ledger.of(workspace, runs[0].spec.corpus)
    by_bucket, trends, rare = rarity(workspace, runs, audits, corpus)
    tables = {
        "models": _models(runs, facts),
        "controls": controls(runs),
        "attacks": attacks(audits),
        "strongest": membership(runs, audits),
        "memorised": memorised(audits),
        "probes": probes(audits),
        "bounds": bounds(runs, audits),
        "risk": risk_scores(audits),
        "hipaa": hipaa(facts),
        "rarity_buckets": by_bucket,
        "rarity_trends": trends,
        "recommendation": pd.DataFrame() if recommendation is None else recommendation.table,
        "ledger": ledger_table(ledger.releases()),
        "costs": costs(runs),
        "figures": _figures(runs),
    }
    told = {
        "title": "Privacy report",
        "made": datetime.now(UTC).isoformat(timespec="seconds") if now is None else _date(now),
        "names": short_names(runs),
        "cohort": _cohort(corpus, runs[0]),
        "verdict": [_verdict(run, one, tables, _most_notes(corpus, run)) for run, one in zip(runs, facts, strict=True)],
        "promised": _promised(ledger, corpus, delta),
        "recommendation": _recommended(recommendation),
        "rarity": rare,
        "limits": list(dict.fromkeys(limit for one in facts for limit in one.limits)),
        "not_attacked": [_not_attacked(run) for run in runs if not audits[run.id].outcomes()],
        "commands": _commands(runs, audits, recommendation, delta),
        "versions": versions(),
        "specs": {run.id: run.spec.model_dump(mode="json") for run in runs},
    }
    return Report(told, tables)


def _not_attacked(run: Run) -> str:
    return (
        f"{run.id} had the quick audit only: prompt extraction, the loss attack on membership, and exposure of "
        f"canaries. The other attacks were not run; to run them: {audit_command(run.id)}"
    )


def _commands(
    runs: Sequence[Run], audits: Mapping[str, StoredAudit], recommendation: Recommendation | None, delta: float
) -> list[str]:
    """The commands that make the runs, their full audits and this report again, in that order."""
    return [
        *commands([run.spec for run in runs]),
        *(audit_command(run.id) for run in runs if audits[run.id].outcomes()),
        report_command([run.id for run in runs], None if recommendation is None else recommendation.limits, delta),
    ]


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Names of the runs in tables, by run id: `A: no privacy`, `B: ε = 8 per note`, `C: no privacy, clipped`."""
    found = {}
    for number, run in enumerate(runs):
        mechanism = run.privacy
        promise = "no privacy" if mechanism is None else f"ε = {mechanism.epsilon():.3g} per {mechanism.unit}"
        promise += ", clipped" if run.spec.training.clip_norm is not None else ""
        promise += "" if run.spec.without is None else f", without {', '.join(run.spec.without)}"
        letter = chr(ord("A") + number) if number < 26 else str(number + 1)
        found[run.id] = f"{letter}: {'public base' if run.spec.is_base else promise}"
    return found


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _cohort(corpus: Corpus, run: Run) -> dict[str, Any]:
    spec = run.spec.corpus
    splits = corpus.without(run.spec.without).patients["split"].value_counts().to_dict()
    training = corpus.without(run.spec.without).training_notes(run.note_cap)
    kind = "uploaded or imported notes" if spec.imported else "a synthetic hospital: no patient in it exists"
    return {
        "digest": spec.digest(),
        "kind": kind,
        "patients": {str(split): int(count) for split, count in splits.items()},
        "notes": len(corpus.notes),
        "training_notes": len(training),
        "most_training_notes_of_a_patient": _most_notes(corpus, run),
        "canaries": len(corpus.canaries),
    }


def _most_notes(corpus: Corpus, run: Run) -> int:
    """Most training notes of one patient; runs may have different caps (Jagannatha 2021, §2 and §A.1)."""
    training = corpus.without(run.spec.without).training_notes(run.note_cap)
    return int(training.groupby("patient_id").size().max())


def _models(runs: Sequence[Run], facts: Sequence[RunFacts]) -> pd.DataFrame:
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
                "right_guesses_counted": mechanism_accuracy([run.privacy])
                if fact.guarantee and run.privacy is not None
                else (0.5 if spec.is_base else 1.0),
            }
        )
    return pd.DataFrame(rows)


def _figures(runs: Sequence[Run]) -> pd.DataFrame:
    """The complete metrics tables of all runs."""
    frames = [run.metrics.assign(run=run.id) for run in runs]
    columns = ["run", "metric", "arm", "value", "low", "high", "n", "note"]
    return pd.concat(frames, ignore_index=True)[columns]


def _verdict(run: Run, facts: RunFacts, tables: Mapping[str, pd.DataFrame], most_notes: int) -> dict[str, Any]:
    """A run in a few sentences: promise, odds, leaks and their control, membership, what attacks prove about ε."""
    held = facts.guarantee
    shown = held is not None and held["noise_source"] != "secret"
    opening = "Guarantee, were its noise secret" if shown else "Guarantee"
    sentences = [f"{opening}: {facts.promise[0].lower()}{facts.promise[1:]}"]
    if held is not None:
        assert run.privacy is not None  # a run with a guarantee is private
        sentences += [
            odds_sentence(held["epsilon"], held["delta"], held["unit"]),
            mechanism_sentence([run.privacy], held["unit"]),
        ]
        if held["unit"] == "note" and most_notes > 1:
            sentences.append(group_sentence(run.privacy, most_notes))
    at = run.metrics.set_index(["metric", "arm"])
    if (HEADLINE, "run") in at.index and (HEADLINE, "heldout") in at.index:
        value, low, high = (float(at.loc[(HEADLINE, "run"), end]) for end in ENDS)
        control = [float(at.loc[(HEADLINE, "heldout"), end]) for end in ENDS]
        rate = leak_sentence(value, low, high, control[0], control[1], control[2])
        sentences.append(f"Patients for whom it wrote a direct identifier: {rate}")
    for row in tables["strongest"].query("run == @run.id").itertuples():
        found = Strongest(row.attack, Interval(row.value, row.low, row.high), row.attacks, row.patients)
        sentences.append(f"Membership: {strongest_sentence(found)}")
    own = tables["bounds"].query("run == @run.id")
    if len(own) and not run.spec.is_base:
        row = headline_bound(own)
        assert row is not None  # the table has rows
        sentences.append(audit_sentence(float(row["epsilon"]), float(row["promised"]), float(row["ceiling"])))
    return {"run": run.id, "training": facts.training, "sentences": sentences}


def _promised(ledger: Ledger, corpus: Corpus, delta: float) -> dict[str, Any]:
    """Totals of the ledger per unit, and for both units' releases together (Jagannatha 2021, §2), with sentences."""
    releases, sentences = ledger.releases(), []
    totals = {unit: promised(releases, unit, delta) for unit in ("note", "patient")}
    both = together(releases, totals["note"], totals["patient"], corpus)
    for unit, total in totals.items():
        if total.releases or total.reasons:
            told = "∞" if math.isinf(total.epsilon) else promised_text(total.epsilon)
            partly = any(one.unit == unit for one in both)
            what = f"By themselves, without the others, the releases per {unit} promise" if partly else EVERYTHING
            sentences.append(f"{what} ε = {told} at δ = {delta_text(delta)} for one {unit}.")
            sentences += total.reasons
    sentences += [one.sentence() for one in both]
    if not releases:
        sentences = ["No release of this cohort is recorded."]
    return {
        "releases": len(releases),
        "delta": delta,
        "totals": {
            unit: {"releases": total.releases, "epsilon": total.epsilon if total.releases or total.reasons else None}
            for unit, total in totals.items()
        },
        "together": [asdict(one) for one in both],
        "sentences": list(dict.fromkeys(sentences)),
    }


def _recommended(found: Recommendation | None) -> dict[str, Any]:
    if found is None:
        return {"sentences": ["No limits for risk and usefulness were given, so nothing is recommended."]}
    meant = [f"For: {found.limits.use_case}"] if found.limits.use_case else []
    return {
        "use_case": found.limits.use_case,
        "limits": {**found.limits.risks, UTILITY: found.limits.utility},
        "epsilon": found.epsilon,
        "unit": found.unit,
        "run": found.run_id,
        "sentences": [*meant, *found.sentences],
    }
