"""DP-SGD's gradients: per-example norms without per-example gradients, clipping by unit, Gaussian noise.

A batch enters; the clipped, noised sum of its units' gradients leaves.
"""
