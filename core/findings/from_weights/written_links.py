"""Names and their conditions in many texts of a masked model: is a patient's own condition beside the name?

As `core.findings.from_weights.written_names`, with longer texts, in which there is room for a condition after the name
(Lehman 2021, §6.6 and table 9). Names, conditions and chance are those of `core.attacks.probes.generated`.
"""

from __future__ import annotations

import pandas as pd

from core.attacks.probes.generated import ONE_TEXT, Conditions, names_written, pair_rows
from core.attacks.registry import Report, Target, no_report
from core.corpus.cohort_detector import cohort_detector
from core.corpus.icd_codes import condition_words
from core.corpus.tables import JUDGED_SPLITS
from core.findings.from_weights import written_names
from core.findings.from_weights.written_names import many_texts, names_table

NAME = "written links"
COLUMNS = {
    **written_names.COLUMNS,
    "paired": "int32",  # texts that hold the name and a condition
    "right": "int32",  # of these, texts with a condition that the patient has
    "chance": "float32",  # sum over these of the share of the split's other patients who have one of the conditions
}
NEW_TOKENS = 24  # the most that a masked model writes in an audit


def written_links(target: Target, report: Report = no_report) -> pd.DataFrame:
    """The table of 100,000 texts of 24 tokens: the columns are `COLUMNS`.

    Raises:
        NotPossible: for a causal model.
    """
    return links_table(target, many_texts(target, NEW_TOKENS, report))


def links_table(target: Target, texts: pd.DataFrame) -> pd.DataFrame:
    """The rows of `names_table`, each with its patient's texts that hold a condition as well; 0 for other names.

    Args:
        target: The model, its public base and its cohort.
        texts: Generations with `prompt` and `text`.
    """
    names = names_table(target, texts)
    wholes = (texts["prompt"] + texts["text"]).tolist()
    typed = texts["prompt"].str.len().tolist()
    found = names_written(wholes, typed, cohort_detector(target.corpus.spec))
    people = target.corpus.patients[target.corpus.patients["split"].isin(JUDGED_SPLITS)]
    pairs = pair_rows(wholes, typed, found, people, Conditions(list(condition_words(target.corpus).items())))
    if pairs is None:
        return names.assign(paired=0, right=0, chance=0.0).astype(COLUMNS)
    by_patient = pairs[pairs["bin"] == ONE_TEXT].groupby("patient_id")
    sums = by_patient.agg(paired=("label", "size"), right=("label", "sum"), chance=("score", "sum"))
    return names.merge(sums, how="left", on="patient_id").fillna({"paired": 0, "right": 0, "chance": 0}).astype(COLUMNS)
