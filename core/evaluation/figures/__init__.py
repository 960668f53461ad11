"""One record per figure: name, number format, range, controls, formula, source, and where it appears.

`record` defines the form, `audit` holds the figures of a run's metrics table, and `limited` those that only “Which ε?”
uses. Other modules read them through `core.evaluation.registry`.
"""
