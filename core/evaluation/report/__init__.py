"""The report for a privacy board, and every export: facts become tables, tables become HTML, JSON and CSV.

Runs of one cohort enter; a `Report` leaves, which renders itself without scripts or requests.
"""
