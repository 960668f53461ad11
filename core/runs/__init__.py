"""Finished runs on disk: their files, tables, events, audits, and queries over all of them.

The pipeline writes here; evaluation and pages read. Start from `store.Workspace`, which also decides what a viewer may
see.
"""
