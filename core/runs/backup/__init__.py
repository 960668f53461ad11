"""Backups of a data folder: one archive with a manifest and checksums, written and read as a whole.

Input: a workspace or an archive. Output: an archive, or items of one in the data folder, each complete or not at all.
"""
