"""Import of users' notes into a `Corpus`: CSV, Parquet, or a MIMIC-III folder.

Takes files and column names; returns a cohort in memory, or writes one to a folder in batches. Every error is a
`BadNotes` that names its row and column. `importer` is the entry point.
"""
