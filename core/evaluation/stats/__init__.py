"""Statistics that know nothing of models: ROC curves, intervals of proportions and means, bootstrap over patients.

Counts and scores enter; values with 95 % intervals leave.
"""
