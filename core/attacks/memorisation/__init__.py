"""Attacks that make a model repeat its training notes: extraction, prefixes, canaries, and prompts that evade filters.

A `Target` enters; tables of generations, hits, ranks and exposures leave.
"""
