"""Evaluation after every epoch of training: the loss on held-out notes, and the exposure of three canaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.corpus.canary_forms import FORMS
from core.corpus.tables import Corpus
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel
    from core.training.events import EpochEvaluation

EVALUATION_NOTES = 48  # held-out notes on which the loss is tracked


def evaluator(corpus: Corpus, spec: RunSpec) -> Callable[[LanguageModel], EpochEvaluation]:
    """Evaluation of each epoch: the loss on a fixed sample of held-out notes, and the exposure of three canaries."""
    from core.attacks.exposure import canary_exposures
    from core.models.likelihood import perplexity
    from core.training.events import EpochEvaluation

    heldout = corpus.notes_of("heldout")["text"]
    texts = heldout.sample(min(EVALUATION_NOTES, len(heldout)), random_state=0).tolist()
    tracked = tracked_canaries(corpus.canaries)

    def evaluate(lm: LanguageModel) -> EpochEvaluation:
        found = canary_exposures(lm, tracked)
        return EpochEvaluation(
            eval_loss=float(np.log(perplexity(lm, texts, mask_draws=spec.audit.mask_draws, seed=spec.audit.seed))),
            canary_exposure=dict(zip(found["canary_id"], found["exposure"].astype(float), strict=True)),
        )

    return evaluate


def tracked_canaries(canaries: pd.DataFrame) -> pd.DataFrame:
    """The canaries to track during training: the most and the least often planted one, and one never planted."""
    sentences = canaries[canaries["form"].isin(FORMS)].sort_values(["insertions", "canary_id"])
    inserted = sentences["inserted"].astype(bool)  # of a cohort without canaries it has no type
    planted, absent = sentences[inserted], sentences[~inserted]
    return pd.concat([planted.tail(1), planted.iloc[:-1].head(1), absent.head(1)]).reset_index(drop=True)
