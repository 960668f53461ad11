"""Attacks on a trained model: membership inference, memorisation, identity probes.

A `Target` (model, cohort, tables of its run) enters; tidy tables of scores, ranks and finds leave. No attack judges
its own figures: `core.evaluation` does, with intervals and controls. `registry` says what an attack is, `battery`
lists all.
"""
