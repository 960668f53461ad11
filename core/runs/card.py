"""The model card of a run: `README.md`, with the front matter that model hubs read, written from core.runs.facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.common.files import replace_text
from core.common.formatting import figure_text
from core.runs.facts import RunFacts, run_facts
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.training.accounting.mechanism import Mechanism


CARD_FILE = "README.md"
SHARED = (  # of imported patients: which of them this concerns is in the notes, which a card does not read
    "A name, number or address that several patients have does not show which of them is meant. It counts for none of "
    "them, trained on or held out."
)


def write_card(
    folder: Path, spec: RunSpec, mechanism: Mechanism | None, metrics: pd.DataFrame, shown: Sequence[str]
) -> None:
    """Write `folder/README.md`: what was trained on what, what is promised, and what the quick audit found.

    `shown` are the keys of the figures on the card (`core.evaluation.registry.on_card`).
    """
    facts = run_facts(folder.name, spec, mechanism, metrics)
    left_out = [] if spec.corpus.imported is None else [SHARED]
    held = " The file privacy.json describes the mechanism." if mechanism is not None else ""
    sections = [
        _front_matter(spec),
        f"# {facts.run_id}\n\n{facts.about}",
        f"## Training\n\n{facts.training}",
        f"## Privacy\n\n{facts.promise}{held}",
        "## Quick audit\n\n" + "\n\n".join([*left_out, _figures(metrics[metrics["metric"].isin(shown)])]),
        "## HIPAA's 18 identifiers\n\n" + _hipaa(facts),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in facts.limits),
        "## Spec\n\n```json\n" + spec.model_dump_json(indent=2) + "\n```",
    ]
    replace_text(folder / CARD_FILE, "\n\n".join(sections) + "\n")


def _front_matter(spec: RunSpec) -> str:
    task = "text-generation" if spec.model.kind == "gpt2" else "fill-mask"
    kind, licence = ("private-notes", "other") if spec.corpus.imported else ("synthetic", "apache-2.0")
    return f"---\nlicense: {licence}\nlanguage: en\npipeline_tag: {task}\ntags: [{kind}, privacy-audit]\n---"


def _figures(metrics: pd.DataFrame) -> str:
    lines = ["| figure | of | value | 95 % interval | n |", "|---|---|---|---|---|"]
    for row in metrics.to_dict("records"):
        interval = "none" if math.isnan(row["low"]) else f"{figure_text(row['low'])} to {figure_text(row['high'])}"
        lines.append(f"| {row['metric']} | {row['arm']} | {figure_text(row['value'])} | {interval} | {row['n']} |")
    return "\n".join(lines)


def _hipaa(facts: RunFacts) -> str:
    lines = [
        "Share of member patients for whom the model wrote the identifier, and of held-out patients as the control.",
        "",
        "| | identifier | tested | members | held out | what |",
        "|---|---|---|---|---|---|",
    ]
    for row in facts.hipaa:
        found = [_interval(row, ""), _interval(row, "control_")]
        cells = f"| {row['tested']} | {found[0]} | {found[1]} | {row['note']} |"
        lines.append(f"| {row['number']} | {row['identifier']} {cells}")
    return "\n".join(lines)


def _interval(row: dict[str, Any], prefix: str) -> str:
    value = row.get("control" if prefix else "value")
    if value is None:
        return ""
    low, high = figure_text(row[f"{prefix}low"]), figure_text(row[f"{prefix}high"])
    return f"{figure_text(value)} ({low} to {high})"
