"""Cohorts of clinical notes: synthetic ones, uploaded ones, and what defences do to them.

A `CorpusSpec` or files enter; a `Corpus` of patients, notes and canaries leaves (`tables`).
"""
