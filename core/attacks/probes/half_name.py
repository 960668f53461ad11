"""Does half of a name reveal the rest (Lehman 2021, §6.5)? Last name after the first, and reversed.

The score is the mean log p of the hidden half's tokens in `[CLS] First [MASK]…[MASK] [SEP]`: minus the log of its
perplexity. Members are compared with held-out patients, whose names are drawn in the same way. There are two controls:
the public model on the same names, and the same half with another patient's other half, since a model may know a last
name without knowing whose it is. GPT-2 reads from the left, so it is asked for last names only.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.probes.cloze import cloze_scores
from core.attacks.probes.identities import identities, models_of
from core.attacks.probes.table import PROBES, rows
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, no_report, register
from core.models.build import LanguageModel
from core.models.encoding import encode

PROBE = "half a name"
OWN, OTHERS = "own other half", "another's other half"
LAST, FIRST = "last name", "first name"


def half_scores(lm: LanguageModel, patients: pd.DataFrame, hidden: str) -> np.ndarray:
    """Mean log p in nats of the `hidden` half (last or first name) of every name, given the other: (patients,)."""
    first = encode(lm, patients["first"].tolist())
    last = encode(lm, [f" {name}" if lm.causal else name for name in patients["last"]])
    texts = [[*one, *other] for one, other in zip(first, last, strict=True)]
    cut = [len(one) for one in first]
    if hidden == FIRST:
        return cloze_scores(lm, texts, [range(at) for at in cut])
    return cloze_scores(lm, texts, [range(at, len(text)) for at, text in zip(cut, texts, strict=True)])


def half_a_name(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe; `label` is true for members, `target` says which half was hidden."""
    asked = identities(target)
    frames = []
    for done, (role, lm) in enumerate(models_of(target)):
        for hidden, shown in ((LAST, "first"), (FIRST, "last")):
            if lm.causal and hidden == FIRST:
                continue
            mixed = asked.patients.assign(**{shown: asked.swapped[shown]})
            for method, patients in ((OWN, asked.patients), (OTHERS, mixed)):
                frames.append(
                    rows(
                        PROBE,
                        method,
                        model=role,
                        patient_id=patients["patient_id"],
                        split=patients["split"],
                        target=hidden,
                        score=half_scores(lm, patients, hidden),
                        label=asked.members,
                    )
                )
        report(done + 1, 2)
    return {PROBES: pd.concat(frames, ignore_index=True)}


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.5",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Hides half of a name and checks whether the model guesses it better for training patients.",
        tables=(PROBES,),
        run=half_a_name,
    )
)
