"""The privacy guarantee beside the evidence: lower bounds on ε that attacks prove, and ε as odds.

Attack results and mechanisms enter; bounds, verdicts and odds leave.
"""
