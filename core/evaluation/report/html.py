"""A report as one HTML file: no script, no request to anywhere, and it prints well.

Every word that comes from a run, a ledger or a reader goes through `html.escape`; what is not escaped is written here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.evaluation.report import html_findings as findings
from core.evaluation.report import html_tables as shown
from core.evaluation.report.facts import Report
from core.evaluation.report.html_tables import escaped as _

STYLE = """
:root { color-scheme: light dark; --ink: #10202c; --soft: #56636f; --line: #cfd6de; --tint: #f2f4f7; --paper: #fff;
  --risk: #b34a00; --good: #00664a; }
@media (prefers-color-scheme: dark) { :root { --ink: #eef2f6; --soft: #a3afbb; --line: #3a4653; --tint: #1b242e;
  --paper: #10161d; --risk: #ff8a3d; --good: #2fc79b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 2rem; margin: 0 0 .2rem; } h2 { font-size: 1.3rem; margin: 2.4rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; overflow-wrap: anywhere; }
p, ul { margin: .4rem 0; max-width: 46rem; } li { margin: .25rem 0; } .soft { color: var(--soft); }
.verdict { border-left: 4px solid var(--risk); padding: .2rem 0 .2rem 1rem; margin: 1rem 0; }
.verdict.private { border-color: var(--good); }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; max-width: 46rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .value, .ends { white-space: nowrap; } .ends { color: var(--soft); }
.bad { color: var(--risk); font-weight: 600; }
.ok { color: var(--good); font-weight: 600; }
pre { background: var(--tint); padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; }
svg { display: block; } svg text { fill: var(--ink); font-size: 11px; }
@media print { :root { color-scheme: light; --ink: #000; --soft: #333; --line: #999; --tint: #f4f4f4; --paper: #fff;
    --risk: #8a3900; --good: #00513a; }
  body { max-width: none; padding: 0; font-size: 10pt; } h2, h3 { break-after: avoid; }
  tr, .verdict, pre { break-inside: avoid; } thead { display: table-header-group; } .scroll { overflow: visible; }
  table { font-size: 7.5pt; } @page { size: A4; margin: 16mm 14mm; } }
"""
NEW_LINE = "\n"
SPLITS = {
    "member": "whose notes were trained on",
    "heldout": "held out as the control",
    "population": "for the attacker to learn from",
    "canary": "invented and planted",
}
CONTROLS = (
    "Held out: the same count for patients whom no model has read. Base: the same attack on the public model before "
    "any training. Only what exceeds its control is evidence of memorising. All intervals are 95 %. Perplexity and "
    "membership figures have held-out patients on one side already, so that the base is their control."
)
HIPAA = (
    "Share of patients of whom a model wrote the identifier: members, and held-out patients as control. This says what "
    "was tested, and not that any law is complied with."
)


def render(report: Report) -> str:
    """The whole document."""
    facts, tables, names = report.facts, report.tables, report.facts["names"]
    sections = [
        f"<h1>{_(facts['title'])}</h1>",
        f'<p class="soft">Made {_(facts["made"])} by PHI Leak Lab. {_cohort_line(facts["cohort"])}</p>',
        _section("At a glance", findings.glance(tables["models"], tables["controls"], tables["strongest"], names)),
        _section("Verdict", _verdicts(facts, tables["models"])),
        _section(
            "Recommendation", _sentences(facts["recommendation"]["sentences"]), shown.limits(tables["recommendation"])
        ),
        _section(
            "What has been promised about this cohort",
            _sentences(facts["promised"]["sentences"]),
            shown.ledger(tables["ledger"]),
        ),
        _section("Models and guarantees", shown.models(tables["models"], names)),
        _section(
            "Attacks, each beside its controls",
            f"<p>{CONTROLS}</p>",
            shown.controls(tables["controls"], names),
            shown.attacks(tables["attacks"], names),
            findings.memorised(tables["memorised"], names),
            findings.probes(tables["probes"], names),
            shown.risk(tables["risk"], names),
            _sentences(facts["not_attacked"]),
        ),
        _section("Does the guarantee hold?", shown.bounds(tables["bounds"], names)),
        _section("HIPAA’s 18 identifiers", f"<p>{HIPAA}</p>", shown.hipaa(tables["hipaa"], names)),
        _section(
            "Rare diseases", findings.rarity(tables["rarity_buckets"], tables["rarity_trends"], facts["rarity"], names)
        ),
        _section("Cost", shown.costs(tables["costs"], names)),
        _section("Limits", _list(facts["limits"])),
        _section("To make it again", f"<pre>{_(NEW_LINE.join(facts['commands']))}</pre>", _versions(facts["versions"])),
    ]
    body = NEW_LINE.join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_(facts['title'])}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{_(title)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def _sentences(sentences: Sequence[str]) -> str:
    return "\n".join(f"<p>{_(sentence).replace(' %', '&nbsp;%')}</p>" for sentence in sentences)


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_(sentence)}</li>" for sentence in sentences) + "</ul>"


def _cohort_line(cohort: Mapping[str, Any]) -> str:
    held = cohort["patients"]
    patients = ", ".join(f"{held[split]:,} {told}" for split, told in SPLITS.items() if held.get(split))
    return _(
        f"Cohort {cohort['digest']}, {cohort['kind']}. Patients: {patients}. Of {cohort['notes']:,} notes "
        f"{cohort['training_notes']:,} were to be trained on, at most {cohort['most_training_notes_of_a_patient']} of "
        f"one patient. Planted canaries: {cohort['canaries']}, each put in by a fair coin."
    )


def _verdicts(facts: Mapping[str, Any], models: pd.DataFrame) -> str:
    epsilons = dict(zip(models["run"], models["epsilon"], strict=True))
    parts = []
    for one in facts["verdict"]:
        kind = "" if math.isinf(epsilons[one["run"]]) else " private"
        parts.append(
            f'<div class="verdict{kind}"><h3>{_(facts["names"][one["run"]])}</h3>'
            f'<p class="soft">{_(one["run"])}: {_(one["training"])}</p>{_sentences(one["sentences"])}</div>'
        )
    return "\n".join(parts)


def _versions(versions: Mapping[str, str]) -> str:
    told = "; ".join(f"{name} {number}" for name, number in versions.items())
    return f'<p class="soft">{_(f"This report was made with: {told}.")}</p>'
