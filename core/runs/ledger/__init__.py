"""What was released of a cohort: an append-only ledger, its totals by unit, and what one more release would cost.

Runs enter as drafts; entries and composed ε leave.
"""
