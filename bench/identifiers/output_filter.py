"""Which detector the output filter needs: `python -m core bench output-filter --json`.

The answers that a full audit of a shipped run without privacy stored (1,400 to the 14 prompts, 200 to each reworded
prompt) go through the filter with each engine, alone and with the list of known values. Printed are the leaks that
pass, the same names replaced by ones on no list, false alarms in harmless texts and among the ordinary words of the
answers, and processor milliseconds a text. With `--rounds`, the run's model writes more answers to the 14 prompts, by
further seeds. docs/methods/defences.md has the figures.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bench.identifiers._filter_engines import Timed, ordinary_words, renamed, unlisted_names, words_lost
from core.attacks.memorisation.extraction import generate, index_of, value_hits
from core.attacks.memorisation.filter_evasion import REWORDED
from core.corpus.tables import Corpus
from core.evaluation.defences.filter_evasion import USUAL, filter_evasion
from core.evaluation.defences.filtering import false_alarms, harmless_texts
from core.phi.detector.engine import Detector, best, rules, shapes
from core.phi.output_filter import BlockList, OutputFilter
from core.runs.run import Run
from core.runs.store import Workspace

RUN = "gpt2-804b3c7f558b"  # 3,000 notes, no privacy, shipped with weights and a full audit


def main(json: bool = False, rounds: int = 1) -> None:
    """Print the figures of each engine as one JSON object, or a line a figure."""
    workspace = Workspace()
    run = workspace.run(RUN)
    corpus = workspace.corpus(run.spec.corpus, store=False)
    reworded = workspace.audit(run.id).table(REWORDED)
    found = measure(answers(run, rounds), reworded[reworded["model"] == "target"], corpus, _engines())
    if json:
        print(json_format.dumps(found, indent=1))
        return
    for name, of_filter in found.items():
        print(name, *(f"  {key}: {value}" for key, value in of_filter.items()), sep="\n")


def _engines() -> Iterator[Detector]:
    yield shapes()
    yield rules()
    if best().tags:
        yield best()


def answers(run: Run, rounds: int) -> pd.DataFrame:
    """The run's stored answers to the 14 prompts, and as many for each further round, by the audit's seed + round."""
    parts, audit = [run.table("generations")], run.spec.audit
    if rounds > 1:
        lm = run.model()
        parts += [generate(lm, audit.model_copy(update={"seed": audit.seed + more})) for more in range(1, rounds)]
    return pd.concat(parts, ignore_index=True).assign(generation_id=lambda table: range(len(table)))


def measure(
    generations: pd.DataFrame, reworded: pd.DataFrame, corpus: Corpus, engines: Iterator[Detector]
) -> dict[str, dict[str, Any]]:
    """By filter: shares with value, low, high and n, and for an engine alone also its milliseconds a text."""
    known = BlockList.of(corpus.patients)
    timed = [Timed(one.name, one.lacks) for one in engines]
    through: dict[str, OutputFilter] = {}
    for engine in timed:
        through |= {engine.name: OutputFilter(engine), f"{engine.name} and known values": OutputFilter(engine, known)}
        engine.load()
        Detector.find(engine, "Maria Keller")  # the lists are read now
    found: dict[str, dict[str, Any]] = {name: {} for name in through}
    leaks = filter_evasion(reworded, generations, corpus, through)
    for row in leaks[(leaks["arm"] == "run") & leaks["filter"].isin(list(through))].itertuples():
        group = "leaks, the 14 prompts" if row.wording == USUAL else f"leaks, {row.wording}"
        found[row.filter][group] = _shown(row)
    for engine in timed:
        spent = 1_000 * np.array(list(engine.seconds.values()))
        found[engine.name]["milliseconds"] = {"mean": float(spent.mean()), "most": float(spent.max()), "n": len(spent)}
    hits = value_hits(generations, index_of(corpus))
    engines_alone = {engine.name: through[engine.name] for engine in timed}
    tables = {
        "names on no list": unlisted_names(renamed(generations, hits), engines_alone),
        "ordinary words lost": words_lost(generations, ordinary_words(corpus), engines_alone),
    }
    alarms = false_alarms(harmless_texts(corpus), engines_alone)
    tables |= {f"false alarms, {kind}": rows for kind, rows in alarms.groupby("texts", sort=False)}
    for figure, rows in tables.items():
        for row in rows.itertuples():
            found[row.filter][figure] = _shown(row)
    return found


def _shown(row: Any) -> dict[str, float]:
    return {"value": float(row.value), "low": float(row.low), "high": float(row.high), "n": int(row.n)}
