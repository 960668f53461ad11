"""What the planned sweep shows, as figures with their bars: `python -m core bench tradeoff --json`.

It reads the runs of `core.demo.plan` that exist (your own, the shipped ones, and those shipped for Findings) and trains
none; `make demo` makes them. Figures are means over the existing seeds, with 95 % intervals; null where runs are
missing, which is said on standard error.
"""

from __future__ import annotations

import json as json_format
import sys

import pandas as pd

from bench._tradeoff_table import LARGE, MIDDLE, SMALL, reached, tradeoff_table
from core.demo.plan import KINDS, SIZES, parts, reference_spec
from core.evaluation.across_sizes import BITS, bits_per_character
from core.evaluation.summary import RunTables
from core.findings.stored_runs import with_shipped
from core.runs.queries import metrics
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, ModelKind, RunSpec

NOTES = {"3k": SMALL, "12k": MIDDLE, "48k": LARGE}


def main(json: bool = False) -> None:
    """Print `{kind: {key: {value, low, high, bar}}}`, or a readable table with verdicts."""
    workspace = with_shipped(Workspace())
    table, lacking = tradeoff_table(*_measured(workspace), KINDS)
    for sentence in lacking:
        print(sentence, file=sys.stderr)
    if json:
        print(json_format.dumps(table, indent=2, ensure_ascii=False))
        return
    for kind, figures in table.items():
        for key, figure in figures.items():
            value = "–" if figure["value"] is None else f"{figure['value']:.3f}"
            print(f"{kind} {key}: {value}, bar {figure['bar']}, reached: {reached(key, figure)}")


def _measured(workspace: Workspace) -> tuple[dict[int, pd.DataFrame], dict[tuple[str, int], float]]:
    """The metrics of the planned runs by number of notes, and the bits per character of the reference base models."""
    planned = [spec for part in parts() for spec in part.specs]
    wanted = {spec.run_id for spec in planned if _of_the_recipe(spec)}
    rows = metrics(workspace)
    rows = rows[rows["run_id"].isin(wanted)]
    corpora = {NOTES[size]: CORPUS_PRESETS[preset].digest() for size, preset in SIZES.items()}
    by_size = {notes: rows[rows["corpus"] == corpus] for notes, corpus in corpora.items()}
    found: dict[tuple[str, int], float] = {}
    for size in SIZES:
        for kind in KINDS:
            bits = _reference_bits(workspace, size, kind)
            if bits is not None:
                found[kind, NOTES[size]] = bits
    return by_size, found


def _of_the_recipe(spec: RunSpec) -> bool:
    """Whether a run is one of the curve over ε: ε per note, on the notes as they are, and no control without noise.

    The plan also has defended runs, a run with ε per patient, and a grid of given σ. Their ε, or their lack of one, is
    another promise, or another training, under the same number.
    """
    usual = spec.defence is None and spec.privacy.unit == "note" and spec.privacy.noise_multiplier is None
    return usual and spec.training.clip_norm is None


def _reference_bits(workspace: Workspace, size: str, kind: ModelKind) -> float | None:
    """Bits per character of the reference base model on the held-out notes that are judged; None without its run."""
    run = workspace.find(reference_spec(size, kind))
    if run is None:
        return None
    stored = run.metrics
    rows = stored[(stored["metric"] == BITS) & (stored["arm"] == "run")]
    if len(rows):
        return float(rows["value"].iloc[0])
    names = ("scores", "generations", "hits", "canaries")  # a run of an older version has no such figure yet
    corpus = workspace.corpus(run.spec.corpus, store=False)
    tables = RunTables.of({name: run.table(name) for name in names}, corpus, run.spec.audit, run.spec.model.base)
    return next((row.value for row in bits_per_character(tables)), None)
