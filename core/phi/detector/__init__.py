"""The detector of identifiers in free text: the shapes of `core.phi.shaped`, clinical rules, and a tagger of names.

`core.phi.detector.engine` is the entry point. The shapes alone stay what the attacks use, and the output filter by
default, so that figures of finished runs keep their meaning (docs/methods/detector.md).
"""
