"""Defences side by side: DP, deduplication, scrubbing, output filters, and prompts that evade filters.

Input: runs and generations. Output: one row per defence and risk, with its control.
"""
