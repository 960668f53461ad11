"""How membership attacks decide, for whoever reads their scores: no model is needed, so nothing here loads torch.

An attack that is fitted on examples says “member” at log-odds above 0; every other one at a score above the mean score
of the training notes (row J4).
"""

from __future__ import annotations

LOSS = "loss"
RATIO = "ratio base"  # likelihood ratio to the public base model: what training changed, not what is easy to predict
PUBLIC_LOSS = "public loss"  # no attack: how well the model still reads public text, in the same table
ATTENTION, GRADIENTS = "attention", "gradient norms"
OWN_THRESHOLDS = {ATTENTION: 0.0, GRADIENTS: 0.0}  # attacks that decide by themselves; the others: the training mean
