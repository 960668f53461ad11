"""Short and long samples of notes, as long as those of Mireshghallah 2022, §4.2: 10 to 20 and 21 to 60 tokens.

A sample is a run of consecutive sentences. One of each length is drawn from a note, so both lengths are about the same
notes and patients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import MASK_DRAWS, in_chunks
from core.attacks.registry import Report, Target, no_report
from core.findings.from_weights.energies import ROLES, notes_of_every_patient
from core.models.build import LanguageModel
from core.models.encoding import token_counts
from core.models.likelihood import log_likelihoods

NAME = "samples"
LENGTHS: Mapping[str, tuple[int, int]] = {"short": (10, 20), "long": (21, 60)}  # tokens, both ends included
NOTES_A_PATIENT = 5
_SENTENCE = re.compile(r"\S.*?(?:[.!?](?=\s|$)|$)", re.MULTILINE)
_STREAM = 73  # random-number stream, so that no other choice shares these draws
COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "split": "str",  # member | heldout
    "length": "str",  # short | long
    "tokens": "int32",
    "model": "str",  # target | base
    "score": "float32",  # mean log p in nats per scored token
}


def samples(target: Target, report: Report = no_report) -> pd.DataFrame:
    """Mean log p of one short and one long sample of each note that has both: the columns are `COLUMNS`."""
    drawn = drawn_samples(target)
    frames = []
    for role in ROLES:
        lm = target.model(role)
        means = in_chunks(drawn["text"].tolist(), partial(sample_means, lm), report, target.spec.audit.seed)
        frames.append(drawn.drop(columns="text").assign(model=role, score=means))
    return pd.concat(frames, ignore_index=True)


def drawn_samples(target: Target) -> pd.DataFrame:
    """The samples: note_id, patient_id, split, length, tokens and text, of the notes that have one of each length."""
    notes = notes_of_every_patient(target, NOTES_A_PATIENT)
    rng = np.random.default_rng([target.spec.audit.seed, _STREAM])
    found = []
    for note in notes.itertuples():
        runs = sentence_runs(str(note.text))
        counts = token_counts(target.lm, runs)
        fitting = {name: np.flatnonzero((counts >= low) & (counts <= high)) for name, (low, high) in LENGTHS.items()}
        if all(map(len, fitting.values())):
            for name, places in fitting.items():
                chosen = int(rng.choice(places))
                found.append((note.note_id, note.patient_id, note.split, name, int(counts[chosen]), runs[chosen]))
    return pd.DataFrame(found, columns=["note_id", "patient_id", "split", "length", "tokens", "text"])


def sentence_runs(text: str) -> list[str]:
    """Every run of consecutive sentences, as it is written. A sentence ends with . ! or ? before a space, or its line.

    Runs begin in the order of the text; the shortest comes first.
    """
    places = [match.span() for match in _SENTENCE.finditer(text)]
    return [text[start:end] for at, (start, _) in enumerate(places) for _, end in places[at:]]


def sample_means(lm: LanguageModel, texts: list[str], seed: int) -> list[float]:
    """Mean log p of each sample: of all its tokens without an end mark (causal), or of those that ten masks hide."""
    found = log_likelihoods(lm, texts, mask_draws=MASK_DRAWS, seed=seed)
    return [float((one[:-1] if lm.causal else one).mean()) for one in found]
