"""Cohorts of clinical notes: synthetic cohorts, uploaded cohorts, and defences applied to either.

Takes a `CorpusSpec` or files; returns a `Corpus` of patients, notes and canaries (`tables`).
"""
