"""Changes to training notes before a model reads them: deduplication and scrubbing.

A frame of notes and a `DefenceSpec` enter; the defended notes leave.
"""
