"""Probe name and condition together (Lehman 2021, §6.2): can a second network find the link in the model's vectors?

A multilayer perceptron (scikit-learn's MLPClassifier, 128 hidden units, otherwise its defaults, as in the paper's A.5)
reads the [CLS] vector of “Mr. First Last is a patient with Condition”. It learns on one half of the members which
conditions they have, with as many negatives as positives. It is evaluated on the other half and on held-out patients,
for every condition. Controls: the same probe on “Condition” alone, which can only learn how common conditions are, and
the scores of another patient's name.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.attacks.probes.fill_in import CONDITION_ONLY, FREQUENCY, NAME, OTHER_NAME
from core.attacks.probes.identities import Identities, somebody_else, with_conditions
from core.attacks.probes.table import PROBES, matrix_rows, rows
from core.attacks.probes.vectors import vectors
from core.attacks.registry import KINDS, Attack, NotPossible, Report, Tables, Target, no_report, register
from core.corpus.tables import JUDGED_SPLITS

PROBE = "probing network"
MOST_LEARNED = 2_000  # positive pairs for training
MOST_EVALUATED = 48  # patients of each split, each with every condition
_STREAM = 49


def sentences(patients: pd.DataFrame, wordings: Sequence[str]) -> list[str]:
    """“Mr. First Last is a patient with Condition”: every patient with every condition, patient by patient."""
    who = (patients["title"] + " " + patients["first"] + " " + patients["last"] + " is a patient with ").tolist()
    return [name + wording for name in who for wording in wordings]


def probe_scores(features: np.ndarray, labels: np.ndarray, asked: np.ndarray, seed: int) -> np.ndarray:
    """P(has the condition) of rows `asked` (m, width), by a network fitted on `features` (n, width) and `labels`."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = make_pipeline(StandardScaler(), MLPClassifier(hidden_layer_sizes=(128,), random_state=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the paper also stops after 200 iterations
        network.fit(features, labels)
    return network.predict_proba(asked)[:, 1]


def learning_members(target: Target, asked: Identities) -> np.ndarray:
    """Places of the half of the members that probes are fitted on; the same for all probes of an audit."""
    members = np.flatnonzero(asked.members)
    drawn = np.random.default_rng([target.spec.audit.seed, _STREAM]).permutation(members)
    return np.sort(drawn[: len(drawn) // 2])


def balanced_pairs(has: np.ndarray, places: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(patient place, condition place) of all positives of `places` and of as many random negatives: both (pairs,)."""
    positive, negative = np.argwhere(has[places]), np.argwhere(~has[places])
    positive = rng.permutation(positive)[:MOST_LEARNED]
    negative = rng.permutation(negative)[: len(positive)]
    pairs = np.concatenate([positive, negative])
    return places[pairs[:, 0]], pairs[:, 1]


def probing_network(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe: evaluated members and held-out patients with every condition, and the baselines once each."""
    asked, lm, seed = with_conditions(target), target.lm, target.spec.audit.seed
    rng = np.random.default_rng([seed, _STREAM, 1])
    learning = learning_members(target, asked)
    who, what = balanced_pairs(asked.has, learning, rng)
    if not asked.has[who, what].any():
        raise NotPossible("the probing network has nothing to learn: no member of its training half has a condition")
    if asked.has[who, what].all():
        raise NotPossible("the probing network has nothing to learn: its training half has every condition")
    evaluated = evaluated_patients(asked, learning)
    patients, count = asked.patients.iloc[evaluated].reset_index(drop=True), len(asked.codes)

    pairs = asked.patients.iloc[who]
    opened = [sentences(pairs.iloc[[row]], [asked.wordings[what[row]]])[0] for row in range(len(pairs))]
    labels = asked.has[who, what]
    learned = vectors(lm, opened, "cls")
    read = vectors(lm, sentences(patients, asked.wordings), "cls", report=report)
    scores = probe_scores(learned, labels, read, seed).reshape(len(evaluated), count)
    alone = vectors(lm, asked.wordings, "cls")
    frames = [
        matrix_rows(PROBE, NAME, patients, asked.codes, scores, asked.has[evaluated]),
        matrix_rows(
            PROBE, OTHER_NAME, patients, asked.codes, scores[somebody_else(patients, rng)], asked.has[evaluated]
        ),
        rows(
            PROBE,
            CONDITION_ONLY,
            target=list(asked.codes),
            score=probe_scores(alone[what], labels, alone, seed),
            label=False,
        ),
        rows(PROBE, FREQUENCY, target=list(asked.codes), score=asked.frequency, label=False),
    ]
    return {PROBES: pd.concat(frames, ignore_index=True)}


def evaluated_patients(asked: Identities, learning: np.ndarray) -> np.ndarray:
    """Places of at most `MOST_EVALUATED` patients of each split that the probe was not fitted on."""
    free = np.setdiff1d(np.arange(len(asked.patients)), learning)
    splits = asked.patients["split"].to_numpy()[free]
    return np.concatenate([free[splits == split][:MOST_EVALUATED] for split in JUDGED_SPLITS])


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.2",
        access="white-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Trains a small network to tell from the model's vectors which patient has which condition.",
        tables=(PROBES,),
        run=probing_network,
    )
)
