"""Runs that differ only in ε and seed: their trade-off curve, a reader's limits, and the recommended ε.

The input is runs and their metrics; the output is points, costs and a recommendation.
"""
