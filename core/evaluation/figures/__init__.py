"""One record a figure: what it is called, how it is written, bounded, judged, made and cited, and where it appears.

`record` is the form, `audit` holds the figures of a run's metrics table, `limited` those that only “Which ε?” uses.
Everybody reads them through `core.evaluation.registry`.
"""
