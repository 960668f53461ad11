"""How membership attacks turn scores into decisions. Needs no model, so nothing here loads torch.

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
