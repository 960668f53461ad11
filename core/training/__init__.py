"""Training with and without DP: batches, per-example clipping, noise, accounting.

`trainer` takes a model, notes and a `TrainingSpec`; it returns weights, events and a `Mechanism`.
"""
