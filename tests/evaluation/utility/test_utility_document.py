"""What private training reaches (docs/methods/utility-results.md and entities.md) is what the shipped runs say."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.evaluation.summary import RunTables
from core.evaluation.sweep.beside import noiseless
from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.sweep.tradeoff import points
from core.evaluation.utility.summary import sentence_figures
from core.runs import queries
from core.runs.store import Workspace
from core.runs.tables import table_version
from core.spec import CLINICAL, CORPUS_PRESETS

ROOT = Path(__file__).resolve().parents[3]
SECTION = "## What private training reaches"
NOTES = {3010: "2,925", 12040: "11,815", 48160: "48,030"}  # expected number of training notes → the hospital's own
GPT2 = (("known_words", "text_similarity", "nli_accuracy"), ("facts_fit", "facts_fit_shuffled"))
NOTHING = (pd.DataFrame(),)
DISTILBERT = ("entity_f1", "nli_accuracy", "known_words", "facts_fit", "facts_fit_shuffled")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("nothing"), shared=(ROOT / "assets" / "demo",))


@pytest.fixture(scope="module")
def curves(workspace):
    """(kind, notes) → points and metrics of the sweep from `clinical` with most runs of each size."""
    found: dict[tuple[str, str], tuple[pd.DataFrame, pd.DataFrame]] = {}
    for sweep in sweeps_of(workspace.runs()):  # most runs first
        place = (sweep.model.kind, NOTES[sweep.corpus.training_notes])
        if sweep.model.base == CLINICAL and place not in found:
            metrics = queries.metrics(workspace, frozenset(sweep.run_ids))
            found[place] = points(metrics), metrics
    return found


def number(value: float) -> str:
    """`.917`, `0`, `1`."""
    return f"{value:.0f}" if value in (0.0, 1.0) else f"{value:.3f}".removeprefix("0")


def cell(curve: pd.DataFrame, metric: str, arm: str, epsilon: float) -> str:
    rows = curve[(curve["metric"] == metric) & (curve["arm"] == arm) & (curve["epsilon"] == epsilon)]
    if rows.empty:
        return ""
    one = rows.iloc[0]
    return f"{number(one['value'])} ({number(one['low'])}–{number(one['high'])})"


def sentences(metrics: pd.DataFrame, arm: str, epsilon: float) -> str:
    rows = metrics[(metrics["metric"] == "facts_fit") & (metrics["arm"] == arm) & (metrics["epsilon"] == epsilon)]
    counts = [f"{count}" for count in rows.sort_values("seed")["n"]]
    return ", ".join(counts if arm == "run" else sorted(set(counts)))


def rows_of_document() -> set[tuple[str, ...]]:
    text = (ROOT / "docs" / "methods" / "utility-results.md").read_text(encoding="utf-8")
    section = text.split(SECTION)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {tuple(part.strip() for part in line.strip("|").split("|")) for line in lines}


def row_without_noise(workspace: Workspace) -> tuple[str, ...]:
    """DistilBERT's clipped training without noise at the largest size: the control of its run at ε = 3."""
    every = [run for run in workspace.runs() if run.spec.model.kind == "distilbert" and run.spec.model.base == CLINICAL]
    large = [run for run in every if NOTES.get(run.spec.corpus.training_notes) == "48,030"]
    (control,) = noiseless([run for run in large if run.spec.privacy.target_epsilon == 3.0], large)
    metrics = queries.metrics(workspace, frozenset({control.id}))
    cells = (cell(points(metrics), one, "run", math.inf) for one in DISTILBERT)
    return ("48,030", "as ε = 3, without noise", *cells, sentences(metrics, "run", math.inf))


def test_every_row_of_the_tables_follows_from_the_shipped_runs(curves, workspace):
    made = {row_without_noise(workspace)}
    for (kind, notes), (curve, metrics) in curves.items():
        arms = [("base", "base", math.inf), ("ε = 1", "run", 1.0), ("∞", "run", math.inf)]
        arms += [("held-out notes", "heldout", math.inf)] if kind == "gpt2" else [("ε = 3", "run", 3.0)]
        arms.append(("ε = 8", "run", 8.0))
        for name, arm, epsilon in arms:
            count = sentences(metrics, arm, epsilon)
            if kind == "distilbert":
                made.add((notes, name, *(cell(curve, one, arm, epsilon) for one in DISTILBERT), count))
                continue
            first, second = (tuple(cell(curve, one, arm, epsilon) for one in group) for group in GPT2)
            made |= {(notes, name, *first), (notes, name, *second, count)}
    shown = {row for row in rows_of_document() if "(" in "".join(row)}
    assert shown == made and len(shown) == 2 * 5 * 3 + 5 * 3 + 1


def test_the_shuffled_facts_that_can_be_dealt_again_are_those_of_the_document(workspace):
    """Dealt without repeats, where texts are shipped: no private run at ε ≤ 1,000 is above, and ε = 10,000 still is."""
    text = " ".join((ROOT / "docs" / "methods" / "utility-results.md").read_text(encoding="utf-8").split())
    above, corpus = {}, build(CORPUS_PRESETS["smoke"])  # its held-out notes are the other control, not asked here
    for run in workspace.runs():
        spec = run.spec
        of_sweep = spec.model.kind == "gpt2" and spec.model.base == CLINICAL and not spec.is_base
        if not of_sweep or NOTES.get(spec.corpus.training_notes) != "11,815" or run.figures_only:
            continue
        tables = RunTables(*NOTHING, run.table("generations"), *NOTHING * 2, corpus, spec.audit, *NOTHING)
        rows = {(row.metric, row.arm): row for row in sentence_figures(tables)}
        fits, shuffled = rows["facts_fit", "run"], rows["facts_fit_shuffled", "run"]
        stored = run.metrics[run.metrics["metric"] == "facts_fit_shuffled"].set_index("arm").loc["run", "value"]
        newer = table_version(run.folder / "tables", "metrics") >= 5  # dealt without repeats when it was made
        same = shuffled.value == pytest.approx(stored, rel=1e-12)  # another processor sums in another order
        assert same if newer else not same and shuffled.value < stored
        above[run.id] = (spec.privacy.target_epsilon or math.inf, fits.low > shuffled.high)
        if run.id in ("gpt2-0a31e8681aba", "gpt2-1ea4fd58ffd0"):  # ε = 8 and without privacy, seed 0
            assert f"{number(shuffled.value)} instead of {number(stored)}" in text
    private = [found for found in above.values() if math.isfinite(found[0])]
    assert len(private) >= 8 and {epsilon for epsilon, found in private if found} == {10_000.0}


def test_at_no_size_do_private_facts_fit_better_than_shuffled_ones(curves):
    """The claim below the tables: the intervals do not part in the model's favour, but they do without privacy."""
    for (kind, _), (curve, _) in curves.items():
        ends = curve[curve["arm"] == "run"].set_index(["metric", "epsilon"])
        better = {
            epsilon: ends.loc[("facts_fit", epsilon), "low"] > ends.loc[("facts_fit_shuffled", epsilon), "high"]
            for epsilon in (1.0, 8.0, math.inf)
            if ("facts_fit", epsilon) in ends.index
        }
        assert not any(found for epsilon, found in better.items() if math.isfinite(epsilon))
        assert better[math.inf] == (kind == "gpt2")


def test_only_the_largest_hospital_and_the_largest_epsilon_find_entities_above_the_base(curves):
    """Beside ε = 1, 3 and 8 the document has no table: what it says of the other ε, and of words and sentences."""
    chapters = [ROOT / "docs" / "methods" / f"{name}.md" for name in ("utility-results", "entities")]
    text = " ".join(" ".join(path.read_text(encoding="utf-8") for path in chapters).split())
    above, words = set(), {"more": set(), "fewer": set()}
    for (kind, notes), (curve, _) in curves.items():
        if kind != "distilbert":
            continue
        ends = curve.set_index(["metric", "epsilon", "arm"])
        for epsilon in sorted(set(curve.loc[curve["epsilon"] < math.inf, "epsilon"])):
            f1, base = (ends.loc[("entity_f1", epsilon, arm)] for arm in ("run", "base"))
            above |= {(notes, epsilon)} if f1["value"] > base["high"] else set()
            known, public = (ends.loc[("known_words", epsilon, arm)] for arm in ("run", "base"))
            words["more"] |= {(notes, epsilon)} if known["low"] > public["high"] else set()
            words["fewer"] |= {(notes, epsilon)} if known["high"] < public["low"] else set()
    assert above == {("2,925", 10_000.0), ("48,030", 8.0)}
    assert words["more"] == {("48,030", 3.0), ("48,030", 8.0), ("11,815", 8.0), ("2,925", 1_000.0), ("2,925", 10_000.0)}
    assert words["fewer"] == {("2,925", 0.5), ("2,925", 3.0), ("2,925", 8.0), ("2,925", 30.0), ("11,815", 1.0)}
    one = cell(curves["distilbert", "2,925"][0], "entity_f1", "run", 10_000.0)
    assert f"no figure up to ε = 1,000 is above the base's interval. At ε = 10,000 and 2,925 notes it is {one}" in text
    assert "on 2,925 from ε = 1,000 on" in text and "fewer on 2,925 at ε = 0.5, 3, 8 and 30" in text
