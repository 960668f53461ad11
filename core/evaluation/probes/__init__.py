"""Figures of the identity probes: values, intervals, blind guesses, verdicts, and sentences about them.

Input: the table `probes` of an audit. Output: a table of figures, and one card per probe.
"""
