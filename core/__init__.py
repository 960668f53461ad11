"""Trains language models on clinical notes with and without differential privacy, attacks them, and measures both.

Nothing here knows Streamlit. A spec (`core.spec`) enters the pipeline (`core.pipeline`); a run with its tables leaves
it (`core.runs`); `core.evaluation` turns tables into figures. Imports point one way only: see docs/ARCHITECTURE.md.
"""
