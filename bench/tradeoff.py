"""Results of the classroom sweep, as figures with their targets: `python -m core bench tradeoff --json`.

It reads the existing runs of the demonstration sweep (your own and the shipped ones) and trains none; `make demo` makes
them. Figures are means over the existing seeds, with 95 % intervals.
"""

from __future__ import annotations

import json as json_format
import sys

from core.demo import demo_specs
from core.evaluation.sweep.tradeoff_table import reached, tradeoff_table
from core.runs.queries import metrics
from core.runs.store import Workspace


def main(json: bool = False) -> None:
    """Print `{kind: {key: {value, low, high, bar}}}`, or a readable table with verdicts."""
    specs = demo_specs()
    wanted = {spec.run_id for spec in [*specs, *(spec.base_spec() for spec in specs)]}
    rows = metrics(Workspace())
    table = {}
    for kind, of_kind in rows[rows["run_id"].isin(wanted)].groupby("kind"):
        try:
            table |= tradeoff_table(of_kind)
        except ValueError as error:
            print(f"{kind}: {error}", file=sys.stderr)
    if json:
        print(json_format.dumps(table, indent=2, ensure_ascii=False))
        return
    for kind, figures in table.items():
        for key, figure in figures.items():
            print(f"{kind} {key}: {figure['value']:.3f}, bar {figure['bar']}, reached: {reached(key, figure)}")
