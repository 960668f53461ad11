"""What the model writes after every epoch: one text, always after the same prompt and with the same seed.

With DP-SGD the guarantee covers the weights after every step, so it covers the texts too, which are computed from
weights and public settings alone. It does not cover their marks: those are found by comparing the texts with the
patients' data (docs/methods/training.md, "A text after every epoch").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from core.attacks.memorisation.extraction import MASKED_NEW_TOKENS, index_of
from core.attacks.prompts import PROMPTS
from core.corpus.tables import Corpus
from core.models.generation import MASKED_SWEEPS
from core.phi.leaks import find
from core.runs.events import Sample
from core.spec import AuditSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

PROMPT = PROMPTS[0].text  # chosen before any run, so that no text is picked because it leaks
SEED = 0
NEW_TOKENS = 32

Writer = Callable[["LanguageModel"], Sample]


def writer(corpus: Corpus, audit: AuditSpec) -> Writer:
    """A function that lets a model write: prompt, seed, text, and the spans of PHI in it as mappings.

    A causal model samples at most `NEW_TOKENS` tokens. A masked one writes at most as many as in the audit, by Gibbs
    sampling. Temperature, top-k and top-p are the audit's. The draws do not touch the training's randomness.
    """
    index = index_of(corpus)

    def write(lm: LanguageModel) -> Sample:
        text = _text(lm, audit)
        spans = [asdict(span) for span in find(text, index, PROMPT)]
        return {"prompt": PROMPT, "seed": SEED, "text": text, "spans": spans}

    return write


def _text(lm: LanguageModel, audit: AuditSpec) -> str:
    from core.models.generation.generate import gibbs, sample

    if lm.causal:
        (text,) = sample(
            lm,
            [PROMPT],
            new_tokens=NEW_TOKENS,
            temperature=audit.temperature,
            top_k=audit.top_k,
            top_p=audit.top_p,
            seeds=[SEED],
        )
    else:
        (text,) = gibbs(
            lm,
            [PROMPT],
            new_tokens=MASKED_NEW_TOKENS,
            sweeps=MASKED_SWEEPS,
            temperature=audit.temperature,
            top_k=audit.top_k,
            seeds=[SEED],
        )
    return text
