"""Figures of what a model is good for, from the table `utility`, the generated texts and the cohort.

docs/methods/utility.md has the formulas.
"""
