"""Runs that differ only in ε and seed: their trade-off curve, a reader's limits, and the recommended ε.

Runs and their metrics enter; points, costs and a recommendation leave.
"""
