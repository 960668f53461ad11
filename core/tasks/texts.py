"""Where generated and real texts lie in the public model's space: clusters for the distance of Pillutla et al. 2021.

Texts are turned into vectors by the public base model, and the vectors into clusters by k-means. Only the counts of the
clusters are stored; `core.evaluation.utility.distance` makes the figure of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from core.attacks.probes.vectors import vectors
from core.models.build import LanguageModel
from core.models.encoding import decode, encode
from core.models.generation.generate import sample

GENERATED, CEILING = "texts", "texts, two halves of patients"
LEFT, RIGHT = "compared", "reference"
TOKENS = 48  # of each text, generated or real
MOST_TEXTS = 200  # of each kind
FEWEST_TEXTS = 8
EXPLAINED = 0.9  # share of the variance that is kept before clustering (Pillutla et al. 2021, appendix C)
TEXTS_PER_CLUSTER = 10

Stop = Callable[[], bool]


def own_texts(lm: LanguageModel, count: int, seed: int, *, should_stop: Stop | None = None) -> list[str]:
    """`count` texts of at most `TOKENS` tokens, drawn from the model itself: no prompt, temperature 1, nothing cut off.

    Args:
        lm: a causal model.
        count: number of texts.
        seed: of the draws; each text has its own.
        should_stop: asked after every token.
    """
    seeds = np.random.SeedSequence([seed, 0]).generate_state(count, np.uint32).tolist()
    return sample(
        lm,
        [""] * count,
        new_tokens=TOKENS,
        temperature=1.0,
        top_k=len(lm.tokenizer),
        top_p=1.0,
        seeds=seeds,
        should_stop=should_stop,
    )


def cluster_counts(
    base: LanguageModel,
    compared: Sequence[str],
    units: Sequence[str | None],
    reference: pd.DataFrame,
    task: str,
    seed: int,
) -> pd.DataFrame:
    """Counts of texts by cluster: columns task, kind, patient_id, cluster, trials.

    Both sides are cut to `TOKENS` tokens and clustered together: vectors are the means of the base model's last hidden
    states, reduced to the main components with `EXPLAINED` of the variance and scaled to length 1, in one cluster for
    `TEXTS_PER_CLUSTER` texts of the smaller side (at least 2).

    Args:
        base: the public base model.
        compared: texts of one side.
        units: the patient of each, or None.
        reference: held-out notes, the other side: columns text and patient_id.
        task: `GENERATED` or `CEILING`.
        seed: of k-means.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import normalize

    texts = [*compared, *reference["text"]]
    found = vectors(base, _cut(base, texts), "mean")
    reduced = normalize(PCA(EXPLAINED, svd_solver="full").fit_transform(found.astype(np.float64)))
    clusters = max(2, round(min(len(compared), len(reference)) / TEXTS_PER_CLUSTER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a model that repeats itself has fewer distinct vectors
        label = KMeans(clusters, n_init=5, random_state=seed).fit_predict(reduced)
    frame = pd.DataFrame(
        {
            "task": task,
            "kind": [LEFT] * len(compared) + [RIGHT] * len(reference),
            "patient_id": [*units, *reference["patient_id"]],
            "cluster": label,
            "trials": 1,
        }
    )
    keys = ["task", "kind", "patient_id", "cluster"]
    return frame.groupby(keys, dropna=False, sort=True, as_index=False).sum()


def _cut(lm: LanguageModel, texts: Sequence[str]) -> list[str]:
    """The texts, cut to `TOKENS` tokens of the model."""
    return [decode(lm, ids[:TOKENS]) for ids in encode(lm, texts)]
