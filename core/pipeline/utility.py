"""Utility of runs that are there already: measured with their weights, and stored beside their other tables.

`core.pipeline.quick_audit` measures it for new runs. Runs of earlier versions lack the table `utility`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_share
from core.pipeline.derived import rebuild
from core.pipeline.full_audit import alone, outdate_figures
from core.pipeline.quick_audit import USES
from core.runs.integrity.checksums import take
from core.runs.run import Run, RunBroken
from core.runs.store import Workspace
from core.runs.tables import UTILITY, write_table

if TYPE_CHECKING:
    from core.models.build import LanguageModel
    from core.tasks.entities import Tagged

LEARNED_SENTENCES, JUDGED_SENTENCES = 400, 1_000


@dataclass(frozen=True)
class Scored:
    """Entities found in labelled sentences. Intervals are over abstracts (`core.tasks.iob.abstract_of`)."""

    f1: Interval
    precision: float
    recall: float
    learned: int  # sentences that the head was fitted on
    judged: int
    entities: int


def measure(run: Run, workspace: Workspace) -> pd.DataFrame:
    """The table `utility` of a run, from its weights. Raises RunBroken if it has none."""
    if not run.has_model:
        raise RunBroken(f"Run {run.id} has tables but no weights (model/model.safetensors), so it cannot be measured.")
    corpus = workspace.corpus(run.spec.corpus, store=False).without(run.spec.without)
    (table,) = USES.make(run.model(), corpus, run.spec, lambda done, total: None, lambda: False)
    return table


def add(run: Run, workspace: Workspace) -> bool:
    """Measure a run of an earlier version, and its control first, store the table and make the figures again.

    Returns:
        Whether anything was done: not for a run that has the table.

    Raises:
        RunBroken: it has no weights, or it is a shipped run, which is read-only.
        ValueError: another process audits, refreshes or prunes it.
    """
    if not run.spec.is_base:
        base = workspace.control(run.spec)
        if base is not None and not base.shipped:
            add(base, workspace)
    if run.has_table(UTILITY):
        return False
    if run.shipped:
        raise RunBroken(f"Run {run.id} came with the software and is read-only: its utility cannot be stored.")
    table = measure(run, workspace)
    with alone(run, workspace):
        write_table(run.folder / "tables", UTILITY, table)
        outdate_figures(run, workspace)
        rebuild(run.folder, workspace)
        take(run.folder, run.spec.corpus)
    return True


def entity_score(
    lm: LanguageModel, folder: Path, *, learned: int = LEARNED_SENTENCES, judged: int = JUDGED_SENTENCES, seed: int = 0
) -> Scored:
    """Entities in labelled sentences of a folder with train.tsv and test.tsv (`core.tasks.iob`), such as BC5CDR's.

    Raises:
        FileNotFoundError, ValueError: a file is missing or cannot be read; the text is a sentence.
    """
    from core.tasks.iob import abstract_of

    known, asked = labelled_sentences(folder, learned=learned, judged=judged, seed=seed)
    counts = sentence_counts(lm, known, asked, seed=seed)
    trials, predicted, correct = (counts[name].to_numpy() for name in ("trials", "predicted", "correct"))
    f1 = patient_bootstrap(
        weighted_share(2 * correct, trials + predicted), abstract_of(counts["patient_id"]), seed=seed
    )
    precision = float(correct.sum() / predicted.sum()) if predicted.sum() else float("nan")
    recall = float(correct.sum() / trials.sum()) if trials.sum() else float("nan")
    return Scored(f1, precision, recall, len(known), len(asked), int(trials.sum()))


def labelled_sentences(
    folder: Path, *, learned: int = LEARNED_SENTENCES, judged: int = JUDGED_SENTENCES, seed: int = 0
) -> tuple[list[Tagged], list[Tagged]]:
    """At most `learned` sentences of train.tsv and at most `judged` of test.tsv, both drawn at random.

    Raises:
        FileNotFoundError, ValueError: a file is missing, cannot be read or holds no sentence of use.
    """
    from core.tasks.iob import JUDGE_FILE, LEARN_FILE, read_iob, types_of

    known = _drawn(read_iob(folder / LEARN_FILE), learned, seed)
    asked = _drawn(read_iob(folder / JUDGE_FILE), judged, seed)
    if not types_of(known) or not asked:
        raise ValueError(f"{folder}: {LEARN_FILE} needs sentences with entities, and {JUDGE_FILE} needs sentences")
    return known, asked


def sentence_counts(lm: LanguageModel, known: list[Tagged], asked: list[Tagged], *, seed: int = 0) -> pd.DataFrame:
    """Fit a head on the sentences `known` and count the entities it finds in those of `asked` (`entity_counts`).

    `patient_id` is the sentence's number in its file.
    """
    from core.tasks.entities import entity_counts
    from core.tasks.iob import types_of

    return entity_counts(lm, known, asked, types_of(known), seed=seed)


def _drawn(sentences: list[Tagged], most: int, seed: int) -> list[Tagged]:
    places = np.sort(np.random.default_rng(seed).permutation(len(sentences))[:most])
    return [sentences[place] for place in places]
