"""From a spec to a finished run, and from a run to its audit; also figures computed again from stored tables.

Input: a `RunSpec`, to `training_run.execute`. Output: a folder in the workspace, complete or not at all.
"""
