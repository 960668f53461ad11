"""How the figures of the Patients page are computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW = """
**Why attacks disagree.** A high score can mean that a note was trained on, or that it is easy for any model. The *loss*
mixes both. Notes of rarer patients are harder to predict, trained on or not: in the shipped GPT-2 run without
privacy, rarity and score have ρ −0.28 among held-out patients. One threshold for everybody then catches fewer of the
rarer members, and since it accuses no held-out patient at any rarity, nothing corrects that: by such rates rarer
patients seem to leak *less* (ρ −0.77 of rarity and leakage over 16 buckets). A *ratio* to another model takes off what
that model predicts. But if that model knows rare profiles badly, as one trained on 90 patients of the population does,
ratios of rarer patients are higher, trained on or not (ρ +0.26 among held-out patients of the run at ε = 8, which leaks
next to nothing), and rarer patients seem to leak *more* (ρ +0.69). Both say how scores go with rarity, and neither says
what membership adds. So this page compares members with held-out patients of like rarity, and starts with the ratio to
the public model. By that, no shipped run shows a trend under any attack.

**Rarity.** The probability of a patient's set of ICD codes, each code taken as independent of the others:
p(c) = Π p(cᵢ) over the codes held · Π (1 − p(cⱼ)) over all other codes, with p(c) the share of patients of the cohort
who hold a code (Jagannatha et al. 2021, eq. 4–5). It is mostly a count of codes (rank correlation of ln p and their
number: −0.84 in the classroom hospital). An admission has those codes of its patient that one of its notes names.

**Buckets** hold about equally many patients: as many buckets, up to 6, as leave 20 members and 20 held-out patients in
each. Scores play no part in where a bucket ends.

**AUC of a bucket**: how often a member scores above a held-out patient of the same bucket, ties ½; 0.5 is blind.
A patient's score is the mean of their notes' scores. What rarity, number of codes and length of notes say of the scores
of both sides alike is taken out first, by least squares. The interval is DeLong's (1988) on the logit scale, with
patients as clusters (Obuchowski 1997). The line shows how high held-out patients score among all held-out patients.

**Test.** The change of the AUC along the line through the buckets, from the most common to the rarest. Members exchange
their places among held-out patients of like rarity with each other, and held-out patients theirs among members, 999
times; p is the share of exchanges with a change at least as large, each divided by its standard error. Holm's (1979)
correction covers all attacks of the run that could be tested. Above an AUC of 0.98 nothing is tested: nearly every
member is recognised, and hardly anything is left to rise.

**Model.** Score on membership, rarity, number of codes, log length, and membership times each of them: least squares
over patients. Its figure is membership × rarity, the interval that of resampled patients. It asks about rare codes at
the same number of codes, where the test asks about rare profiles as they are.

**Extracted** fields are those that the run's 14 prompts made it write: for members leaks and linked leaks, for
held-out patients coincidences, which are the control.
"""
