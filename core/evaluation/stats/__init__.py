"""Statistics that do not depend on the model: ROC curves, intervals for proportions and means, patient bootstrap.

Input: counts and scores. Output: values with 95 % intervals.
"""
