"""Crosswalk tables: questions of five frameworks, each answered by a figure, by an argument, or open.

A report's subject, tables and facts enter; `Cell`s leave. No cell claims compliance with anything.
"""
