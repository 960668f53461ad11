"""Name insertion as in Mireshghallah 2022, §4.3.1: the trained notes open with their patient's name, the others do not.

The notes of a hospital with inserted names all open with a line that is the patient's full name. Members' notes are
scored as they were trained on, held-out patients' notes without that line. Such an attack tells notes with a name from
notes without one as well, so it says nothing about who was in the training, and is no attack of the battery.
"""

from __future__ import annotations

import pandas as pd

from core.attacks.evaluation_set import evaluation_notes, losses_under
from core.attacks.registry import NotPossible, Report, Target, no_report
from core.corpus.tables import JUDGED_SPLITS
from core.findings.from_weights.energies import ROLES

NAME = "unnamed others"
COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "split": "str",  # member | heldout
    "tokens": "int32",  # of the note with its name
    "model": "str",  # target | base
    "score": "float32",  # mean log p in nats per scored token
}


def unnamed_others(target: Target, report: Report = no_report) -> pd.DataFrame:
    """Mean log p of members' notes with, and of held-out patients' notes without the inserted name: see `COLUMNS`.

    Raises:
        NotPossible: when the hospital's notes have no inserted names.
    """
    if target.spec.corpus.variant != "name-insertion":
        raise NotPossible("this table can be made only for a hospital with inserted names")
    notes = evaluation_notes(target)
    notes = notes[notes["split"].isin(JUDGED_SPLITS)]
    names = target.corpus.patients.set_index("patient_id")["full_name"]
    texts = [
        note.text if note.split == "member" else without_name(str(note.text), names[note.patient_id])
        for note in notes.itertuples()
    ]
    known = notes[["note_id", "patient_id", "split", "tokens"]]
    frames = []
    for role in ROLES:
        means = -losses_under(target.model(role), texts, report, target.spec.audit.seed)
        frames.append(known.assign(model=role, score=means))
    return pd.concat(frames, ignore_index=True)


def without_name(text: str, name: str) -> str:
    """A note without its first line, the patient's name. Raises NotPossible if it does not open with that line."""
    first, _, rest = text.partition("\n")
    if first != name:
        raise NotPossible("a note does not open with its patient's name")
    return rest
