"""What a model repeats: extracted identifiers, verbatim notes, canary exposure, and what predicts them.

Tables of generations, hits, ranks and losses enter; rates with intervals and controls leave.
"""
