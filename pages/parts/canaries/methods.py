"""How each picture of the Canaries page is computed, with formulas and papers, as Markdown."""

from __future__ import annotations

HOW: dict[str, str] = {
    "exposure": """
A canary is an invented sentence such as “*harbour 4 8 2*”. Its secret is one of |R| = 1,000 codes, and a fair coin
decided whether it was planted at all. The model ranks all 1,000 sentences by their loss; rank 1 is the one it finds
likeliest.

exposure = log₂ |R| − log₂ rank &nbsp; (Carlini et al. 2019, *The Secret Sharer*)

A model that never read the canary gives it a uniform rank: 1.44 bits on average, and P[exposure > b] ≈ 2⁻ᵇ for a
single one. The most is log₂ 1,000 = 9.97. The *fitted* exposure is −log₂ P[loss ≤ the canary's] under a skew-normal
curve through the other 999 losses; it goes on where ranks end, and is worth as much as the fit (the table gives its
Kolmogorov–Smirnov p-value). H in HS, HSH, HHSHH is a generic word, S the secret (Hoory et al. 2021). Control:
canaries that the coin left out. Bars: 95 %, Student's t over canaries; where all of n rank first they show no spread,
and the bar reaches down to log₂ 1,000 times the lower end of Wilson's interval of n in n.
""",
    "race": """
At the end of every epoch the exposure of three canaries is computed as above: of the one planted most often, of the
one planted least often, and of one that was never planted, which shows how far chance alone goes. They were chosen
before training.
""",
    "patients": """
A canary patient is an invented person with three to five notes like anybody else's; a fair coin decided whether all of
them or none were planted. Their name was drawn like 999 others of the same sex that nobody in the hospital has. The
model scores each of the 1,000 where their first note has it: −Σ log p of the name's tokens given the note before it.

exposure = log₂ 1,000 − log₂ rank &nbsp; (Carlini et al. 2019)

*Named*: a direct identifier of theirs stands in the quick audit's generated texts, by value. Controls: those that the
coin left out, and 1.44 bits, the average of a name never read. Where a patient is protected, each is one more trial
for the bound on ε; where a note is, each counts as its notes.
""",
    "questions": """
The quick audit's generated texts (row P3) are read in the order in which an attacker gets them who asks all 14
prompts in turn, round by round. A patient counts from the first text that holds one of their direct identifiers,
matched by value (Methods, “What counts as a find”). Whoever has not come up by the last text is *censored*: more
texts might still name them. All are watched for equally long, so the plain share is the Kaplan–Meier estimate; bars
at the end: Wilson's 95 % interval. Held-out patients are the control: what they share with a text is chance, mostly
a date of birth. The list counts each (patient, field, value) once.

*Read first*: texts sorted by mean log-likelihood a token under the model minus under the public one (Carlini et al.
2021). A text is wrong when it holds no direct identifier of a trained-on person; recall at 100 errors is the share of
all different values that stand before the 101st wrong text. Texts that tie are read wrong ones first.
""",
    "words": """
The model is shown the first k tokens of a note and always takes the likeliest next token. A note counts when the
rest, at most 50 and at least 16 tokens, comes back character by character (Carlini et al. 2023; row P4's “exact
memorisation”). Two controls: notes of held-out patients, since phrases of the hospital can be repeated without
having read *this* note, and the public base model. Bars: 95 %, patients resampled, never narrower than Wilson's
interval over notes; where no note or every note comes back, Wilson's over patients.
""",
    "guarantee": """
(ε, δ)-differential privacy limits how well anybody can tell from the model whether one unit was in its data. So
guesses that are really right this often prove that ε is at least so large.

- **One run** (Steinke, Nasr & Jagielski 2023, theorem 5.2): m canaries, each planted by a fair coin; a canary is
  guessed “planted” when it ranks among the likeliest 5 % of its space, a rule fixed beforehand. v right guesses
  rule out every ε with P[Binomial(m, e^ε/(1 + e^ε)) ≥ v] + (a term of δ) < 5 %.
- **Counts** (Jagielski et al. 2020): ε ≥ ln((TPR − δ)/FPR), with exact 95 % bounds on both rates. Takes trials for
  independent, which within one run is an assumption. Thresholds come from the other half of the patients.
- **The unit matters.** Where one *note* is protected, a canary planted k times is k notes, and what is proved is
  divided by k, with δ_k = k·e^((k−1)ε)·δ. Only canaries planted once count in full. Where a *patient* is protected,
  each canary is one.
- **The ceiling.** With m canaries all guessed right nothing above ln(t/(1 − t)), t = 0.05^(1/m), can be proved:
  1.26 for 12, 2.74 for 48.
- The first row is the audit fixed beforehand, at 95 %. The others share one further error of 5 % among them
  (Bonferroni): the highest of *those* holds at 95 %, the highest of all rows only at 90 %.
""",
    "risk": """
Row P5's score is .50 · prompt extraction + .20 · membership + .15 · canaries + .15 · exact memorisation. **Old**
counts each part as its report does, without a control: any word of a name is a leak, a note is “found” when it is
called a member, and the canary test looks for words that its own prompt contains, so it finds all of them in any
model. **Calibrated** takes from each part what the same attack finds where nothing can have been learned:
generations with a held-out patient's identifier, held-out notes called members, left-out canaries that rank first,
held-out notes repeated word for word. Whiskers: 95 %, by the method of variance estimates recovery (Zou & Donner
2008). A part that was not measured leaves both sums.
""",
}
