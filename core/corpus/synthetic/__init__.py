"""The synthetic hospital: patients with unique identifiers, their notes, and canaries.

Takes a `CorpusSpec`; returns a `Corpus`. The same spec always gives the same bytes. Wording and conditions are data
(`wording.toml`, `conditions.toml`, `rare_codes.csv`).
"""
