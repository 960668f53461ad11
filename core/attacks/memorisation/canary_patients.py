"""Whole canary patients: invented people, each put into the notes by a fair coin, with all of their 3 to 5 notes.

Their secret is the full name, drawn like 999 others of the same sex that nobody has
(`core.corpus.synthetic.canaries`). The model ranks all 1,000 by the loss of the name where their first note has it,
given what stands before: exposure by enumeration (Carlini et al. 2019, definition 6) of a secret in a real note
instead of in a sentence of random words. Beside it stands what was written of them unasked: their direct identifiers
in the texts of the run's quick audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.attacks.exposure import exposure, ranks
from core.attacks.probes.cloze import cloze_scores
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, register, register_table
from core.corpus.synthetic.canaries import canary_notes, name_space_of
from core.models.build import LanguageModel
from core.phi.fields import DIRECT

TABLE = "canary_patients"
COLUMNS = {
    "canary_id": "str",
    "inserted": "bool",
    "notes": "int32",  # that they have, planted or not
    "loss": "float64",  # nats of the name, given the note before it
    "rank": "int32",
    "reference_size": "int32",
    "exposure": "float64",  # bits
    "values_written": "int32",  # direct identifiers of theirs in the generated texts, each counted once
    "texts": "int32",  # how many of the generated texts hold one
}
CONTEXT = 400  # characters before the name that are read


def name_losses(lm: LanguageModel, before: str, names: Sequence[str]) -> np.ndarray:
    """−Σ log p in nats of the tokens of each name after `before`: (names,).

    GPT-2: given all before. Masked kinds: all tokens of the name hidden at once, a full stop behind it.
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
    """Loss, rank, |R| and exposure in bits of a canary patient's name; `row` is of the cohort's canaries table."""
    start = int(row["secret_start"])
    names = name_space_of(row["secret"])
    losses = name_losses(lm, row["text"][max(0, start - CONTEXT) : start], names)
    own = names.index(row["secret"])
    references = np.delete(losses, own)
    rank, size = ranks(losses[[own]], references)
    return float(losses[own]), int(rank[0]), size, float(exposure(losses[[own]], references)[0])


def written(hits: pd.DataFrame, canary: str) -> tuple[int, int]:
    """How many direct identifiers of a canary patient the texts of the `hits` table hold, and how many texts do."""
    own = hits[(hits["patient_id"] == canary) & (hits["rule"] == "value") & hits["field"].isin(DIRECT)]
    return len(own[["field", "value"]].drop_duplicates()), own["generation_id"].nunique()


def canary_patients(target: Target, report: Report) -> Tables:
    """A row for every canary patient of the cohort, planted or not; none where it has none."""
    canaries = target.corpus.canaries
    people = canaries[canaries["form"] == "patient"]
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
        row="H5",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Ranks an invented patient's name among a thousand where their note has it, and counts what leaked.",
        tables=(TABLE,),
        run=canary_patients,
    )
)
