"""Public name for reading notes; the code is in `core.corpus.importing.importer`."""

from core.corpus.importing.importer import read_notes

__all__ = ["read_notes"]
