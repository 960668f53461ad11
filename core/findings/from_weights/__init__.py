"""Tables that claims read and that no attack of the battery writes. They are computed from a run's weights.

They are kept apart from the run's audit, so an attack that only a claim makes is never among those of which the app
shows the strongest. `tables` has the list, and stores and reads them.
"""
