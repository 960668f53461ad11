"""What every other package may use: durable files, whole folders, sources of randomness, number formats.

Also the only places that import Opacus and transformers. Nothing here knows models, notes or runs.
"""
