"""Utilities that every other package may use: durable files, complete folders, sources of randomness, number formats.

This is also the only package that imports Opacus and transformers. Nothing here depends on models, notes or runs.
"""
