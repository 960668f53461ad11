"""How well membership attacks separate members from others, by note, admission and patient.

Input: tables of scores. Output: AUC, TPR at low FPR, curves and the strongest attack, each with its interval.
"""
