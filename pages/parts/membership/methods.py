"""How each picture of the Membership page is computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW: dict[str, str] = {
    "roc": """
An attack gives every note a score; higher means “more likely one of the notes the model was trained on”. Moving a
threshold from the highest score down, the curve counts how many **members** (training notes) and how many **others**
(notes of patients who were held out) are called members. For an admission or a patient the score is the mean over its
notes (Jagannatha et al. 2021).

Bands: 95 %, whole patients drawn with replacement, members and others each among themselves; the threshold is chosen
anew in each resample. On log axes the left end counts: how many are caught when hardly anybody may be accused
(Carlini et al. 2022). Left of 1/(number of others) nothing can be known.

The green line is what (ε, δ)-differential privacy allows at most:
TPR ≤ e^ε · FPR + δ, and its mirror 1 − FPR ≤ e^ε · (1 − TPR) + δ (Kairouz et al. 2015).
A promise per note says less about a whole patient: ε for all k notes is computed exactly, often more than k·ε.
It bounds what happens on average over trainings: in one run a curve may lie above it by chance, within its band. For
notes under a promise per note it is no bound on the curve drawn here: it compares one note in with the same note out,
all others as they are, and here a patient's notes are in or out together. The audit of ε on the page Canaries keeps to
the unit.
""",
    "threshold": """
Everything at or right of the threshold is called a member. It starts where the attack puts it by itself: at the mean
score of the training notes (S-BBA, Jagannatha et al. 2021), or at log-odds 0 for the attacks that learn from
examples. An attacker who does not know the training notes sets it with notes of the disjoint **population** instead, so
that 10 % or 1 % of those are accused (Mireshghallah et al. 2022).

Privacy leakage = share of members called members − share of others called members: 0 for a blind guess.
Short notes are those with at most as many tokens as the median note.
""",
    "attacks": """
AUC = P[score of a member > score of another] + ½ P[equal]. 0.5 is a blind guess, also where an attack points the wrong
way by chance. Bars: 95 %, patients resampled.

**Grey-box** attacks see the probabilities that the model gives to tokens, **white-box** ones its weights too.
loss: − mean loss (Yeom et al. 2018). ratio: loss under a reference − loss (Mireshghallah et al. 2022); the reference
is the public base model, or one trained on patients of the disjoint population. zlib: nats for each compressed byte
(Carlini et al. 2021). Min-K %, Min-K %++: the least likely 20 % of tokens (Shi et al. 2024; Zhang et al. 2025).
neighbourhood: how much worse the note gets with a few words changed (Mattern et al. 2023). rmia: share of population
notes that look less like members, beside several reference models (Zarifzadeh et al. 2024). attention, gradient
norms: a logistic regression fitted on 20 % of the patients and judged on the others (Jagannatha et al. 2021).
All formulas: docs/methods/membership.md.
""",
}
