"""From a spec to a finished run, and from a run to its audit; figures made again from stored tables.

A `RunSpec` enters `training_run.execute`; a folder in the workspace leaves, whole or not at all.
"""
