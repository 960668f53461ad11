"""What people want a model for, measured: heads fitted on a model's vectors, and the counts that figures are made of.

A head is fitted on notes of consenting population patients, never on those of members or held-out patients.
"""
