"""Training with and without DP: batches, per-example clipping, noise, accounting.

A model, samples and a `TrainingSpec` enter `trainer`; weights, events and a `Mechanism` leave.
"""
