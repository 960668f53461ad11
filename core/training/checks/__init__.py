"""Checks of a private run's steps: do they do what its ε is computed from?

Takes a run's settings and notes; returns what was measured of sampling, clipping and noise, and whether it is right.
"""
