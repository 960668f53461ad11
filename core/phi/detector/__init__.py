"""The detector of identifiers in free text: the shapes of `core.phi.shaped`, clinical rules, and a tagger of names.

`core.phi.detector.engine` is the entry point. Attacks and output filters use the shapes alone for synthetic cohorts,
so that shipped figures keep their meaning, and otherwise the detector of the import (docs/methods/detector.md).
"""
