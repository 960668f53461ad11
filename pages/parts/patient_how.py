"""How the figures of the Patients page are computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW = """
**Rarity.** The probability of a patient's set of ICD codes, each code taken as independent of the others:
p(c) = Π p(cᵢ) over the codes held · Π (1 − p(cⱼ)) over all other codes, with p(c) the share of patients of the cohort
who hold a code (Jagannatha et al. 2021, eq. 4–5). It is computed as a sum of logarithms. An admission has those codes
of its patient that one of its notes names; admissions whose notes name none have no profile.

**Buckets.** log p runs from the rarest patient (0) to the most common (1) and is cut into equal ranges: as many, up to
100, as leave at least 10 patients in three quarters of the buckets that hold anybody. Buckets with fewer than 10
patients are dropped: they would say more about single people than about rarity. Scores play no part in this.

**Privacy leakage** = share of members caught − share of held-out patients wrongly accused, in the same bucket, so that
rare patients are compared with rare patients (eq. 2). An attack says “member” when the mean score of the patient's
notes is above the mean score of all training notes; fitted attacks say it at log-odds above 0. **Score percentile**
needs no threshold: the share of held-out patients who score less than the patient, ties ½; a blind attack gets 0.5.

**Intervals**: 95 %, over patients. Leakage: Newcombe's difference of two Wilson intervals (1998, method 10), with the
effective number of admissions where a patient has several (Franco et al. 2019). Percentiles: Student's t.
**Rank correlation**: Spearman's ρ of log p and the figure over the buckets shown, with the p-value of a permutation
test. Below 0 means that rarer profiles leak more, as the paper found on MIMIC-III. Each bucket counts once, however
many patients it holds. Looking at many attacks and runs finds a small p somewhere by chance.

**Extracted** fields are those that the run's 14 prompts made it write: for members leaks and linked leaks, for
held-out patients coincidences, which are the control.
"""
