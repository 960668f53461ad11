"""The privacy guarantee beside the evidence: lower bounds on ε that attacks prove, and ε as odds.

Input: attack results and mechanisms. Output: bounds, verdicts and odds.
"""
