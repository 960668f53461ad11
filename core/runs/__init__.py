"""Finished runs on disk: their files, tables, events, audits and queries over all of them.

The pipeline writes here; evaluation and pages read. `store.Workspace` is the way in, and knows what a viewer may see.
"""
