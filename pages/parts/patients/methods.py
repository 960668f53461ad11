"""How the figures of the Patients page are computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW = """
**Why attacks disagree.** A high score can mean that a note was trained on, or that it is easy for any model. The *loss*
mixes both. Notes of rarer patients are harder to predict, trained on or not: in the shipped GPT-2 run without privacy,
rarity and score have ρ −0.28 among held-out patients. A single threshold for all patients then catches fewer of the
rarer members. Since it accuses no held-out patient at any rarity, nothing corrects this: by such rates, rarer patients
seem to leak *less* (ρ −0.77 between rarity and leakage over 16 buckets; below 0, rarer patients leak less). A *ratio*
to another model removes what that model predicts. But if that model predicts rare profiles badly, as one trained on 90
patients of the population does, ratios of rarer patients are higher, trained on or not (ρ +0.26 among held-out patients
of the run at ε = 8, which leaks next to nothing), and rarer patients seem to leak *more* (ρ +0.69). Both show how
scores depend on rarity, and neither shows what membership adds. So this page compares members with held-out patients of
similar rarity, and starts with the ratio to the public model.

**Rarity.** The probability of a patient's set of ICD codes, with codes taken as independent:
p(c) = Π p(cᵢ) over the patient's codes · Π (1 − p(cⱼ)) over all other codes, where p(c) is the share of patients of the
cohort with a code (Jagannatha et al. 2021, eq. 4–5). It is mostly a count of codes (rank correlation of ln p and their
number: −0.84 in the classroom hospital). An admission has those codes of its patient that one of its notes names.

**Buckets** contain about equally many patients. There are as many buckets, up to 6, as leave 20 members and 20 held-out
patients in each. Bucket edges do not depend on scores.

**AUC of a bucket**: how often a member scores above a held-out patient of the same bucket, ties ½; 0.5 is random
guessing. A patient's score is the mean of their notes' scores. The part of the scores that rarity, number of codes and
length of notes predict equally for both groups is removed first, by least squares. The interval is DeLong's (1988) on
the logit scale, with patients as clusters (Obuchowski 1997).

**Test.** The statistic is the change of the AUC along the line through the buckets, from the most common to the rarest
profiles. Each member has a place among the held-out patients of similar rarity, and each held-out patient one among the
members. These places are permuted within each group 9,999 times, less often in a large cohort; p is the share of
permutations with a change at least as large, each divided by its standard error. A small p means that chance alone
rarely gives such a change. Holm's (1979) correction covers all attacks on the run that could be tested. Above an AUC of
0.98 nothing is tested: nearly every member is recognised, and the AUC can hardly rise.

**Model.** Score on membership, rarity, number of codes, log length, and membership times each of them: least squares
over patients. The reported figure is membership × rarity, with an interval from resampled patients. It measures rare
codes at the same number of codes; the test measures rare profiles as they are.

**Tries.** A try is one text after one of the prompts that ask for a field, drawn as in prompt extraction. The chance
that it begins with the patient's value, in any usual written form, is summed over every way in which tokens spell it
(Hayes et al. 2025). “One try in 300” is one over that chance; for a chance of p of at least one hit it takes
n = ln(1 − p)/ln(1 − chance) tries. Values that need a token outside of the sampler's top-k and top-p are never written.
The chance is computed, not estimated, so it has no interval.

**Extracted** fields are those that the run wrote after its 14 prompts: leaks and linked leaks for members, and
coincidences for held-out patients, which are the control.
"""
