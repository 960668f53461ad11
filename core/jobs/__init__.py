"""Training and audits in the background: a queue, worker processes, limits per user, and checks of uploads.

Input: a spec or a run's id. Output: a `Job` whose progress anyone may watch.
"""
