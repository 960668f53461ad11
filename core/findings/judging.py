"""From stored runs to evidence and verdicts, and the stored evidence that the page and the document are made from.

`evidence.json` beside this file holds the evidence from the shipped runs. Verdicts are not stored: the rules give them
each time. `python -m core findings --write` measures it again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from core.common.files import make_folder, replace_text
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import best_of
from core.findings.claim import Claim, Evidence, Figure, Verdict
from core.findings.needs import Need, together
from core.findings.stored_runs import Missing, StoredRuns

FILE = Path(__file__).with_name("evidence.json")
FILE_IN_DATA = "findings.json"  # what `python -m core findings --run` measured, with the runs of this data folder
NOT_RUN: Literal["not run"] = "not run"


@dataclass(frozen=True)
class Finding:
    """A claim with its evidence; without evidence some of its runs are missing, or it cannot be measured yet.

    `missing` says what its measure did not find although its runs are there.
    """

    claim: Claim
    evidence: Evidence | None
    missing: str = ""

    @property
    def verdict(self) -> Verdict | Literal["not run"]:
        """What the claim's rule says of the evidence."""
        return NOT_RUN if self.evidence is None else self.claim.rule(self.evidence)

    @property
    def why(self) -> str:
        """The explanation that belongs to this verdict; may be empty."""
        return "" if self.verdict == NOT_RUN else self.claim.why.get(self.verdict, "")


def measured(claim: Claim, runs: StoredRuns) -> Evidence | None:
    """The claim's evidence from stored runs; None if something it needs is not there.

    Raises:
        Missing: The measure reads something that is not there and that the claim does not name as a need.
    """
    if claim.measure is None or runs.missing(claim.needs):
        return None
    return jointly(claim.measure(runs))


def jointly(figures: Sequence[Figure]) -> Evidence:
    """Figures with 95 % intervals of their own as evidence: each is widened so that all hold together (Bonferroni)."""
    widened = []
    for one in figures:
        own = Interval(one.value, one.low, one.high)
        others = 1 if one.joint else len(figures)
        found = best_of(own, others, least=-one.most, most=one.most, degrees=one.degrees)
        widened.append(Figure(one.label, found.value, found.low, found.high))
    return Evidence(tuple(widened))


def findings(claims: Iterable[Claim], runs: StoredRuns) -> list[Finding]:
    """Every claim with its evidence from stored runs. One that lacks something does not keep the others from it."""
    return [_finding(claim, runs) for claim in claims]


def _finding(claim: Claim, runs: StoredRuns) -> Finding:
    try:
        return Finding(claim, measured(claim, runs))
    except Missing as lacks:
        return Finding(claim, None, str(lacks))


def stored_findings(claims: Iterable[Claim], data: Path | None = None) -> list[Finding]:
    """Every claim with the stored evidence: from the data folder `data` where `--run` judged it there, else shipped."""
    found = read() | ({} if data is None else read(data / FILE_IN_DATA))
    return [Finding(claim, found.get(claim.id)) for claim in claims]


def read(file: Path = FILE) -> dict[str, Evidence]:
    """Stored evidence by the claim's id."""
    if not file.exists():
        return {}
    rows: Mapping[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return {name: Evidence(tuple(map(_figure, figures))) for name, figures in rows.items()}


def write(found: Iterable[Finding], file: Path = FILE) -> None:
    """Store the evidence of these findings; ends without an interval are null."""
    rows = {one.claim.id: [_row(figure) for figure in one.evidence.figures] for one in found if one.evidence}
    make_folder(file.parent)
    replace_text(file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _row(figure: Figure) -> dict[str, Any]:
    numbers = {key: round(value, 6) if math.isfinite(value) else None for key, value in _numbers(figure).items()}
    return {"label": figure.label, **numbers}


def _numbers(figure: Figure) -> dict[str, float]:
    return {key: value for key, value in asdict(figure).items() if key in ("value", "low", "high")}


def _figure(row: Mapping[str, Any]) -> Figure:
    value, low, high = (math.nan if row[key] is None else float(row[key]) for key in ("value", "low", "high"))
    return Figure(str(row["label"]), value, low, high)


def needed(claims: Iterable[Claim]) -> list[Need]:
    """What these claims need, one entry for each run, with all that any claim reads from it."""
    return together(need for claim in claims for need in claim.needs)
