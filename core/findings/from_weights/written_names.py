"""Names in many texts of a masked model: how many texts hold each patient's name, and how the names rank.

Lehman 2021 (§6.6) has a masked model write 500,000 texts by Gibbs sampling (Wang & Cho 2019). The audit has it write
1,400, in which hardly any name occurs. Here it writes 100,000 after the prompts that ask for a name. The texts follow
from the seed of the run's audit. Names are found and scored as by `core.attacks.probes.generated`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from core.attacks.memorisation.extraction import generate
from core.attacks.probes.generated import names_written, owners, scores_over_public, where_first
from core.attacks.prompts import ASKED, PROMPTS
from core.attacks.registry import NotPossible, Report, Target, no_report
from core.corpus.cohort_detector import cohort_detector
from core.corpus.tables import JUDGED_SPLITS

NAME = "written names"
COLUMNS = {
    "patient_id": "str",  # null: the name is neither a member's nor a held-out patient's
    "split": "str",  # member | heldout, null without a patient
    "texts": "int32",  # that hold the name
    "score": "float32",  # mean log p of its tokens under the model − under the public one; NaN if in no text
}
TEXTS = 100_000
NEW_TOKENS = 12  # a full name fits, and the model reads the whole text again for each draw


def written_names(target: Target, report: Report = no_report) -> pd.DataFrame:
    """The table of `TEXTS` texts (`many_texts`): the columns are `COLUMNS`.

    Raises:
        NotPossible: for a causal model.
    """
    return names_table(target, many_texts(target, NEW_TOKENS, report))


def many_texts(target: Target, new_tokens: int, report: Report = no_report) -> pd.DataFrame:
    """`TEXTS` generations of at most `new_tokens` tokens, as many after each prompt that asks for a name.

    Raises:
        NotPossible: for a causal model, of which the audit's own texts hold enough names.
    """
    if target.lm.causal:
        raise NotPossible("only masked models are asked for 100,000 texts")
    prompts = [prompt for prompt in PROMPTS if prompt.prompt_id in ASKED["full_name"]]
    settings = {"samples_per_prompt": TEXTS // len(prompts), "new_tokens": new_tokens}
    audit = target.spec.audit.model_copy(update=settings)
    return generate(target.lm, audit, prompts=prompts, on_progress=report)


def names_table(target: Target, texts: pd.DataFrame) -> pd.DataFrame:
    """A row for every member and held-out patient with a full name, and for every other name in the texts.

    Where several patients share a name, it is the one's to whom `owners` gives it; the others are left out, since no
    text says who is meant. Each name is scored where it first occurs.

    Args:
        target: The model, its public base and its cohort.
        texts: Generations with `prompt` and `text`.
    """
    wholes = (texts["prompt"] + texts["text"]).tolist()
    typed = texts["prompt"].str.len().tolist()
    found = names_written(wholes, typed, cohort_detector(target.corpus.spec))
    holding = Counter(name for name, _ in {(one.name, one.generation) for one in found})
    first = where_first(found)
    scores = dict(zip((one.name for one in first), scores_over_public(target, wholes, first), strict=True))

    patients = target.corpus.patients
    known = owners(patients[patients["split"].isin(JUDGED_SPLITS)])
    owner = {name: holder for name, holder in known.items() if " " in name}  # one word is no full name
    names = [*owner, *(name for name in scores if name not in owner)]
    holders = [owner.get(name, (None, None)) for name in names]
    return pd.DataFrame(
        {
            "patient_id": [patient_id for patient_id, _ in holders],
            "split": [split for _, split in holders],
            "texts": [holding[name] for name in names],
            "score": [scores.get(name, np.nan) for name in names],
        }
    ).astype(COLUMNS)
