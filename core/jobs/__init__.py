"""Training and audits in the background: a queue, worker processes, limits a user, and checks of uploads.

A spec or a run's id enters; a `Job` whose progress anybody may watch leaves.
"""
