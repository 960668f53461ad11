"""The synthetic hospital: patients whose details nobody else has, their notes, and planted canaries.

A `CorpusSpec` enters and a `Corpus` leaves; the same spec always gives the same bytes. Wording and conditions are data
(`wording.toml`, `conditions.toml`, `rare_codes.csv`).
"""
