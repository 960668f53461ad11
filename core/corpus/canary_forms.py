"""The forms of canaries (`core.corpus.synthetic.canaries` draws them)."""

from __future__ import annotations

FORMS = ("HS", "HSH", "HHSHH")  # sentences of ordinary words H with a secret S (Hoory 2021, §5.2)
PATIENT = "patient"  # a whole synthetic patient
RANDOM = "random"  # a line of random words
RANDOM_WORDS = 24  # words of such a line
