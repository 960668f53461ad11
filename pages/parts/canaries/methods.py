"""How each chart of the Canaries page is computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW: dict[str, str] = {
    "exposure": """
A canary is an invented sentence such as “*harbour 4 8 2*”. Its secret is one of |R| = 1,000 codes, and a fair coin
decided whether it was planted at all. All 1,000 sentences are ranked by the model's loss; rank 1 is the likeliest.

exposure = log₂ |R| − log₂ rank &nbsp; (Carlini et al. 2019, *The Secret Sharer*)

If the model was not trained on the canary, its rank is uniform: 1.44 bits on average, and P[exposure > b] ≈ 2⁻ᵇ for a
single canary. The maximum is log₂ 1,000 = 9.97. The *fitted* exposure is −log₂ P[loss ≤ the canary's] under a
skew-normal curve through the other 999 losses. It extends beyond the highest rank, and is only as good as the fit (the
table gives its Kolmogorov–Smirnov p-value). H in HS, HSH, HHSHH is a generic word, S the secret (Hoory et al. 2021).
Control: canaries that the coin left out. Bars: 95 %, Student's t over canaries. If all n canaries rank first, they show
no spread, and the bar reaches down to log₂ 1,000 times the lower end of Wilson's interval for n of n.
""",
    "race": """
After every epoch, the exposure of three canaries is computed as above: the one planted most often, the one planted
least often, and one that was never planted, which shows what chance alone gives. They were chosen before training.
""",
    "patients": """
A canary patient is an invented person with three to five ordinary notes; a fair coin decided whether all of them or
none were planted. Their name was drawn in the same way as 999 others of the same sex that nobody in the hospital has.
The model scores each of the 1,000 names at the place of the name in the patient's first note: −Σ log p of the name's
tokens given the text before it.

exposure = log₂ 1,000 − log₂ rank &nbsp; (Carlini et al. 2019)

*Named*: the quick audit's generated texts contain one of their direct identifiers, matched by value. Controls: the
canary patients that the coin left out, and 1.44 bits, the average for a name that the model was not trained on. If the
protected unit is a patient, each canary patient is one more trial for the bound on ε; if it is a note, each counts as
its number of notes.
""",
    "questions": """
The quick audit's generated texts (PrivAI-Leak report) are read in the order in which they reach an attacker who
uses all 14 prompts in turn, round by round. A patient counts from the first text that contains one of their direct
identifiers, matched by value (Methods, “What counts as a find”). A patient who does not appear by the last text is
*censored*: more texts might still name them. All patients are observed equally long, so the plain share is the
Kaplan–Meier estimate; bars at the end: Wilson's 95 % interval. Held-out patients are the control: any match with them
is chance, mostly a date of birth. The list counts each (patient, field, value) once.

*Most suspicious texts*: texts are sorted by mean log-likelihood per token under the model minus that under the public
model (Carlini et al. 2021). A text is wrong if it contains no direct identifier of a training patient; recall at 100
errors is the share of all distinct values that come before the 101st wrong text. Among texts with equal scores, wrong
ones come first.
""",
    "words": """
The model is shown the first k tokens of a note and continues with the likeliest next token each time. A note counts if
it repeats the rest, at most 50 and at least 16 tokens, character by character (Carlini et al. 2023; “exact
memorisation” in the PrivAI-Leak report). Two controls: notes of held-out patients, since a model can repeat the
hospital's phrases without having been trained on *this* note, and the public base model. Bars: 95 %, patients
resampled, never narrower than Wilson's interval over notes; if no note or every note is repeated, Wilson's over
patients.
""",
    "guarantee": """
(ε, δ)-differential privacy limits how well anyone can tell from the model whether one unit was in its training data.
So a high share of correct guesses proves a lower bound on ε.

- **One run** (Steinke, Nasr & Jagielski 2023, theorem 5.2): m canaries, each planted by a fair coin. A canary is
  guessed “planted” if it ranks among the likeliest 5 % of its space, a rule fixed beforehand. v correct guesses
  rule out every ε with P[Binomial(m, e^ε/(1 + e^ε)) ≥ v] + (a term of δ) < 5 %.
  With at least 100 canaries of random words, these are the audit: the best-ranked 10 % are guessed “planted”, and
  nothing is guessed about the others.
- **By the curve** (Mahloujifar et al. 2025): the same guesses, compared with the trade-off curve of Poisson-sampled
  Gaussian noise with the run's sample rate and steps. The bound is the ε of the smallest σ that they rule out. It
  proves more, because it does not allow for the worst mechanism with this (ε, δ). It is a second claim at 95 %.
- **Planted gradients** (white-box; Steinke et al. 2023, §6): an attacker who sees every step of a second run with
  planted gradients, not only the finished model. `python -m core prove RUN --canaries 5000` measures it and keeps
  the result apart from the bounds in the chart. Each of its two bounds holds at 95 %.
- **Counts** (Jagielski et al. 2020; Nasr et al. 2021): ε ≥ ln((TPR − δ)/FPR) and ε ≥ ln((1 − FPR − δ)/(1 − TPR)),
  with exact (Clopper–Pearson) bounds on the two rates that hold together at 95 %. Trials are taken as independent,
  which is an assumption within one run. Thresholds come from the other half of the patients.
- **The unit matters.** If the protected unit is one *note*, a canary planted k times is k notes, and the proved ε is
  divided by k, with δ_k = k·e^((k−1)ε)·δ. Only canaries planted once count in full. If the unit is a *patient*, each
  canary is one unit.
- **The ceiling.** Even if all m canaries are guessed correctly, nothing above ln(t/(1 − t)), t = 0.05^(1/m), can be
  proved, and slightly less with the δ of a run: at δ = 10⁻⁵, 1.25 for 12 canaries and 2.74 for 48.
- The first row is the audit fixed beforehand, at 95 %. The others share one further error of 5 % among them
  (Bonferroni): the highest of *those* holds at 95 %. The row by the run's curve, where there is one, is a further claim
  at 95 %. So the highest of all rows holds only at 85 %, or at 90 % without the row by the curve.
""",
    "risk": """
The score of the PrivAI-Leak report is .50 · prompt extraction + .20 · membership + .15 · canaries + .15 · word for
word. (The scores that it prints follow from other weights: .40, .30 for canaries and .10 for word for word.)
**As published** (“old” in the table) counts each part as that report does, without a control: any word of a name is a
leak, but each text is compared with the record of only one of 50 patients, so most leaks are missed; a note is “found”
if it is called a member; all canaries count as found, as in the report at every ε: its test matches single words, which
any model writes. **Calibrated** compares each text with all patients, and subtracts from each part what the same attack
finds where nothing can have been learned: generations with a held-out patient's identifier, held-out notes called
members, left-out canaries that rank first, held-out notes repeated word for word. Whiskers: 95 %, by the method of
variance estimates recovery (Zou & Donner 2008). A part that was not measured is left out of both sums.
""",
}
