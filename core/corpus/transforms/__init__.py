"""Changes to training notes before a model is trained on them: deduplication and scrubbing.

Takes a frame of notes and a `DefenceSpec`; returns the defended notes.
"""
