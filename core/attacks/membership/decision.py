"""How membership attacks turn scores into decisions, and their names in words. Nothing here loads torch.

An attack fitted on labelled examples says “member” at log-odds above 0. Every other attack says it at a score above the
mean score of the training notes (Jagannatha 2021, §4.1.1).
"""

from __future__ import annotations

LOSS = "loss"
RATIO = "ratio base"  # likelihood ratio to the public base model: what training changed, not what is easy to predict
PUBLIC_LOSS = "public loss"  # not an attack: how well the model still predicts public text, kept in the same table
LIRA = "lira"
ATTENTION, GRADIENTS = "attention", "gradient norms"
OWN_THRESHOLDS = {ATTENTION: 0.0, GRADIENTS: 0.0}  # attacks with their own threshold; the others use the training mean
IN_WORDS = {  # for sentences; in brackets the name that tables and menus have
    LOSS: "the loss attack",
    RATIO: "the likelihood ratio to the public model (ratio base)",
    "ratio population": "the likelihood ratio to one reference model (ratio population)",
    "zlib": "the loss relative to the compressed size (zlib)",
    "min-k 20 %": "the loss of the most surprising tokens (min-k 20\u00a0%)",
    "min-k++ 20 %": "the loss of the most surprising tokens, standardised (min-k++ 20\u00a0%)",
    "neighbourhood": "the loss relative to that of slightly changed notes (neighbourhood)",
    "rmia": "the likelihood ratio to several reference models (RMIA)",
    LIRA: "the likelihood ratio by shadow models (LiRA)",
    "normalised energy": "the loss with one token hidden at a time (normalised energy)",
    "normalised ratio base": "the likelihood ratio with one token hidden at a time (normalised ratio base)",
    ATTENTION: "the concentration of the model's attention (attention)",
    GRADIENTS: "the size of a note's gradient (gradient norms)",
}


def in_words(attack: str) -> str:
    """A membership attack in a sentence: `the loss attack`; of a name that is not known here, `the attack “x”`."""
    return IN_WORDS.get(attack, f"the attack “{attack}”")
