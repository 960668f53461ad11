"""Statistics of the claims: each reads tables of stored runs and gives figures with 95 % intervals.

Figures of one run come from its tables. Differences between attacks or runs on the same patients resample these
patients for both sides together. Runs with figures only have no patients to resample, so their intervals are combined.
"""
