"""DP-SGD's gradients: per-example norms without per-example gradients, clipping by unit, Gaussian noise.

Takes a batch; returns the clipped, noised sum of its units' gradients.
"""
