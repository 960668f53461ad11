"""One probe for each condition (Lehman 2021, §6.2, table 5), which removes the shortcut through common conditions.

For a single condition the sentence “Mr. First Last is a patient with Condition” differs between patients only in the
name, so a network can tell them apart only by what the model knows of the name. It learns on the half of the members
that all probes are fitted on, with the rarer class repeated until both are equally large (A.6). It is evaluated on the
other half and on held-out patients, about whom nothing can be known: their AUC shows what sex and chance give. `bin` is
the paper's frequency bin: how many named members have the condition.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.probes.fill_in import NAME
from core.attacks.probes.identities import Identities, with_conditions
from core.attacks.probes.mlp import learning_members, probe_scores, sentences
from core.attacks.probes.table import PROBES, rows
from core.attacks.probes.vectors import vectors
from core.attacks.registry import KINDS, Attack, NotPossible, Report, Tables, Target, no_report, register

PROBE = "one probe a condition"
BINS = ((2, 5), (6, 10), (11, 20), (21, None))  # members who have the condition; None: no upper limit
CONDITIONS_A_BIN = 8  # the paper draws 50
_STREAM = 50


def bin_name(low: int, high: int | None) -> str:
    """“2–5”, “21 or more”."""
    return f"{low} or more" if high is None else f"{low}–{high}"


def chosen_conditions(asked: Identities, learning: np.ndarray, rng: np.random.Generator) -> list[tuple[int, str]]:
    """(condition place, bin): random conditions of each bin that some members of both halves have and some lack."""
    evaluated = np.setdiff1d(np.flatnonzero(asked.members), learning)
    both = np.ones(len(asked.codes), dtype=bool)
    for places in (learning, evaluated):
        having = asked.has[places].sum(0)
        both &= (having > 0) & (having < len(places))
    chosen = []
    for low, high in BINS:
        inside = both & (asked.frequency >= low) & (asked.frequency <= (high or np.inf))
        drawn = rng.permutation(np.flatnonzero(inside))[:CONDITIONS_A_BIN]
        chosen += [(int(place), bin_name(low, high)) for place in drawn]
    return chosen


def balanced(labels: np.ndarray) -> np.ndarray:
    """Rows to learn from, with those of the rarer class repeated until both classes are equally large: (rows,)."""
    yes, no = np.flatnonzero(labels), np.flatnonzero(~labels)
    most = max(len(yes), len(no))
    return np.concatenate([np.resize(yes, most), np.resize(no, most)])


def one_probe_a_condition(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe: evaluated members and held-out patients under each condition's own network."""
    asked, lm, seed = with_conditions(target), target.lm, target.spec.audit.seed
    learning = learning_members(target, asked)
    evaluated = np.setdiff1d(np.arange(len(asked.patients)), learning)
    chosen = chosen_conditions(asked, learning, np.random.default_rng([seed, _STREAM]))
    if not chosen:
        raise NotPossible("no condition occurs in both halves of the members, so there is no single condition to probe")
    patients = asked.patients.iloc[evaluated]
    frames = []
    for done, (condition, bin_) in enumerate(chosen):
        read = vectors(lm, sentences(asked.patients, [asked.wordings[condition]]), "cls")
        labels = asked.has[:, condition]
        learned = learning[balanced(labels[learning])]
        frames.append(
            rows(
                PROBE,
                NAME,
                patient_id=patients["patient_id"],
                split=patients["split"],
                target=asked.codes[condition],
                bin=bin_,
                score=probe_scores(read[learned], labels[learned], read[evaluated], seed),
                label=labels[evaluated],
            )
        )
        report(done + 1, len(chosen))
    return {PROBES: pd.concat(frames, ignore_index=True)}


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.2",
        access="white-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Trains one small network for each condition, so knowing which conditions are common does not help.",
        tables=(PROBES,),
        run=one_probe_a_condition,
    )
)
