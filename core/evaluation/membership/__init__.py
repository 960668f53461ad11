"""How well membership attacks tell members from others, by note, admission and patient.

Tables of scores enter; AUC, TPR at low FPR, curves and the strongest attack leave, each with its interval.
"""
