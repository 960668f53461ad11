"""Notes that users bring become a `Corpus`: CSV, Parquet, or a folder shaped like MIMIC-III.

Files and column names enter; a cohort leaves, in memory or written to a folder in batches. Every fault is a `BadNotes`
that names its row and column. `importer` is the way in.
"""
