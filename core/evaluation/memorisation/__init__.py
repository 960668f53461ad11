"""What a model repeats: extracted identifiers, verbatim notes, canary exposure, and what predicts them.

Input: tables of generations, hits, ranks and losses. Output: rates with intervals and controls.
"""
