"""Whole canary patients: fictional people whose 3 to 5 notes are all inserted or all left out, by a fair coin.

Their secret is the full name, drawn from 1,000 unused names of the same sex (`core.corpus.synthetic.canaries`). The
model ranks all 1,000 by the loss of the name where it stands in the patient's first note, given the text before it.
This is exposure by enumeration (Carlini et al. 2019) of a secret in a realistic note instead of in a sentence of random
words. The table also counts what the model wrote about them without being asked: their direct identifiers in the
generated texts of the run's quick audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.attacks.exposure import exposure, ranks
from core.attacks.probes.cloze import cloze_scores
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, register, register_table
from core.corpus.canary_forms import PATIENT
from core.corpus.synthetic.canaries import canary_notes, name_space_of
from core.models.build import LanguageModel
from core.phi.fields import DIRECT

TABLE = "canary_patients"
COLUMNS = {
    "canary_id": "str",
    "inserted": "bool",
    "notes": "int32",  # that they have, inserted or not
    "loss": "float64",  # nats of the name, given the note before it
    "rank": "int32",
    "reference_size": "int32",
    "exposure": "float64",  # bits
    "values_written": "int32",  # their direct identifiers in the generated texts, each counted once
    "texts": "int32",  # generated texts that contain at least one
}
CONTEXT = 400  # characters read before the name


def name_losses(lm: LanguageModel, before: str, names: Sequence[str]) -> np.ndarray:
    """−Σ log p in nats of the tokens of each name after `before`: (names,).

    GPT-2: given all the text before. Masked kinds: all tokens of the name hidden at once, with a full stop after it.
    """
    backend, end = lm.tokenizer.backend_tokenizer, "" if lm.causal else "."
    texts, places = [], []
    for name in names:
        encoding = backend.encode(before + name + end, add_special_tokens=False)
        stop = len(before) + len(name)
        texts.append(encoding.ids)
        places.append([at for at, (left, right) in enumerate(encoding.offsets) if len(before) < right and left < stop])
    return -cloze_scores(lm, texts, places) * np.array([len(one) for one in places])


def exposed(lm: LanguageModel, row: dict) -> tuple[float, int, int, float]:
    """Loss, rank, |R| and exposure in bits of a canary patient's name; `row` is from the cohort's canaries table."""
    start = int(row["secret_start"])
    names = name_space_of(row["secret"])
    losses = name_losses(lm, row["text"][max(0, start - CONTEXT) : start], names)
    own = names.index(row["secret"])
    references = np.delete(losses, own)
    rank, size = ranks(losses[[own]], references)
    return float(losses[own]), int(rank[0]), size, float(exposure(losses[[own]], references)[0])


def written(hits: pd.DataFrame, canary: str) -> tuple[int, int]:
    """The number of a canary patient's direct identifiers in the texts of the `hits` table, and of texts with any."""
    own = hits[(hits["patient_id"] == canary) & (hits["rule"] == "value") & hits["field"].isin(DIRECT)]
    return len(own[["field", "value"]].drop_duplicates()), own["generation_id"].nunique()


def canary_patients(target: Target, report: Report) -> Tables:
    """A row for every canary patient of the cohort, inserted or not; no rows if the cohort has none."""
    canaries = target.corpus.canaries
    people = canaries[canaries["form"] == PATIENT]
    notes = Counter(note.patient_id for note in canary_notes(target.spec.corpus, people.assign(inserted=True)))
    hits = target.tables("hits")
    rows = []
    for number, row in enumerate(people.to_dict("records"), start=1):
        name = row["canary_id"]
        rows.append((name, row["inserted"], notes[name], *exposed(target.lm, row), *written(hits, name)))
        report(number, len(people))
    return {TABLE: pd.DataFrame(rows, columns=list(COLUMNS))}


register_table(TABLE, COLUMNS)
register(
    Attack(
        name="canary patients",
        source="Hoory 2021, §5.2; Carlini 2019",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Ranks a fictional patient's name among 1,000 at its place in their note, and counts what leaked.",
        tables=(TABLE,),
        run=canary_patients,
    )
)
