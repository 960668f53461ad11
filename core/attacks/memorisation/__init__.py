"""Attacks that make a model repeat its training notes: extraction, prefixes, canaries, and prompts that evade filters.

Takes a `Target`; returns tables of generations, hits, ranks and exposures.
"""
