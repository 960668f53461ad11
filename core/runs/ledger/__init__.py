"""Releases of a cohort: an append-only ledger, its totals by unit, and the cost of one more release.

Input: runs, as drafts. Output: entries and composed ε.
"""
