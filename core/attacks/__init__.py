"""Attacks on a trained model: membership inference, memorisation, identity probes.

Takes a `Target`: a trained model, its cohort and the tables of its run. Returns tidy tables of scores, ranks and hits.
Attacks compute no summary figures; `core.evaluation` does, with intervals and controls. `registry` defines what an
attack is; importing `battery` registers all of them.
"""
