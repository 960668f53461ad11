"""Defences side by side: DP, deduplication, scrubbing, output filters, and prompts that evade filters.

Runs and generations enter; one row a defence and risk leaves, with its control.
"""
