"""Figures from tables: each with its interval, its sample size and its controls.

The tables of runs and audits enter; metrics, comparisons and reports leave. Nothing here trains or attacks a model.
"""
