"""How each chart of the Membership page is computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW: dict[str, str] = {
    "roc": """
An attack gives every note a score; a higher score means that the note is more likely a training note. As the threshold
moves down from the highest score, the curve counts how many **members** (training notes) and how many **held-out**
notes (of patients who were not in the training data) are called members. For an admission or a patient, the score is
the mean over its notes (Jagannatha et al. 2021).

Bands: 95 %, whole patients drawn with replacement, separately for members and held-out patients; the threshold is
chosen again in each resample. On log axes, look at the left end: how many are caught when hardly anyone may be accused
(Carlini et al. 2022). Left of 1/(number of held-out notes), nothing can be known.

The green line is the most that (ε, δ)-differential privacy allows:
TPR ≤ e^ε · FPR + δ, and its mirror 1 − FPR ≤ e^ε · (1 − TPR) + δ (Kairouz et al. 2015).
A guarantee per note is weaker for a whole patient: ε for all k notes is computed exactly, often more than k·ε.
The line bounds the average over runs: in one run, a curve may lie above it by chance, within its band. For notes
with a guarantee per note, the line does not bound the curve drawn here: the guarantee compares one note in with the
same note out, all others unchanged, and here a patient's notes are in or out together. The audit of ε on the
Canaries page uses the right unit.
""",
    "threshold": """
Everything at or right of the threshold is called a member. It starts at the attack's own threshold: the mean score of
the training notes (S-BBA, Jagannatha et al. 2021), or log-odds 0 for attacks that learn from examples. An attacker who
does not know the training notes sets it with notes of the disjoint **population** instead, so that 10 % or 1 % of those
are accused (Mireshghallah et al. 2022).

Privacy leakage = share of members called members − share of those held out called members: 0 for random guessing.
Short notes are those with at most as many tokens as the median note.
""",
    "overlap": """
The score of a patient is the mean of their notes' scores. Each attack accuses the patients above its own threshold: the
lowest one at which it accuses the chosen share of the held-out patients. So all attacks make the same number of
mistakes, and their catches are comparable. Intervals: 95 %, patients resampled, each group separately; the thresholds
are chosen again in each resample. One attack accuses the chosen share of the held-out patients by construction, so
this share has no interval; that of several attacks together does. Patients that one of the attacks did not score are
left out, and so are attacks that scored only some patients.

**lira** (Carlini et al. 2022) trains shadow models, each without three tenths of the patients, and compares a note's
loss with its losses under the models that read it and under those that did not. Attacking each shadow model by all the
others says how often a patient is caught, not in one run but in many. With fewer of the shadow models, with two
disjoint halves of them, and against runs of other seeds, the same attack shows how much depends on them.
""",
    "attacks": """
AUC = P[score of a member > score of a non-member] + ½ P[equal]. 0.5 is random guessing; an attack can fall below it by
chance. Bars: 95 %, patients resampled.

**Grey-box** attacks see the probabilities that the model assigns to tokens, **white-box** attacks its weights too.
loss: − mean loss (Yeom et al. 2018). ratio: loss under a reference − loss (Mireshghallah et al. 2022); the reference
is the public base model, or one trained on patients of the disjoint population. zlib: nats per compressed byte
(Carlini et al. 2021). Min-K %, Min-K %++: the least likely 20 % of tokens (Shi et al. 2024; Zhang et al. 2025).
neighbourhood: how much the loss rises when a few words are changed (Mattern et al. 2023). rmia: share of population
notes that look less like members, relative to several reference models (Zarifzadeh et al. 2024). attention, gradient
norms: a logistic regression fitted on 20 % of the patients and evaluated on the others (Jagannatha et al. 2021).
All formulas: docs/methods/membership.md.
""",
}
