"""Entities that a model and its public base model find in labelled sentences of real abstracts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from core.attacks.registry import Report, Target
from core.findings.from_weights.energies import ROLES

NAME = "abstract entities"
COLUMNS = {
    "corpus": "str",
    "model": "str",  # target | base
    "sentence": "int32",  # its number in the corpus's file
    "trials": "int16",  # entities that are there, of any type
    "predicted": "int16",  # that the head says
    "correct": "int16",  # of these, with both ends and the type right
}


def abstract_entities(target: Target, report: Report, folders: Mapping[str, Path]) -> pd.DataFrame:
    """Counts of entities for each corpus, model and judged sentence: the columns are `COLUMNS`.

    Args:
        target: The run. A head is fitted on its model, and another on the public base model.
        report: Called with the pairs of corpus and model that are done, and with their number.
        folders: The corpora by name, each with train.tsv and test.tsv (`core.tasks.abstracts.labelled_sentences`).
    """
    from core.tasks.abstracts import labelled_sentences, sentence_counts  # which the page Findings need not import

    frames: list[pd.DataFrame] = []
    for name, folder in folders.items():
        sentences = labelled_sentences(folder)
        for role in ROLES:
            report(len(frames), len(folders) * len(ROLES))
            counts = sentence_counts(target.model(role), *sentences)
            rows = counts.groupby("patient_id", sort=False)[["trials", "predicted", "correct"]].sum()
            rows = rows.rename_axis("sentence").reset_index()
            frames.append(rows.assign(sentence=rows["sentence"].astype(int), corpus=name, model=role))
    return pd.concat(frames, ignore_index=True)
