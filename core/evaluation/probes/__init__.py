"""The identity probes' figures: values, intervals, blind guesses, verdicts, and how they are put into words.

The table `probes` of an audit enters; a table of figures and one card a probe leave.
"""
