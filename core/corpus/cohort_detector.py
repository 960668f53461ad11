"""The detector of identifiers that a cohort's figures use: that of its import, or the shapes.

docs/methods/detector.md says which figures these are, and why synthetic cohorts keep the shapes.
"""

from __future__ import annotations

from core.phi.detector.engine import SHAPES, Detector, rules, shapes
from core.spec import CorpusSpec

_WITH_TAGGER = " + "  # in the name of every detector with the tagger, of any version


def cohort_detector(spec: CorpusSpec | None) -> Detector:
    """What searches texts about this cohort: the shapes for a synthetic one, else what searched its notes.

    Where the tagger of names cannot be used, or its memory is not free, the rules search alone, and `lacks` says why. A
    version of the rules that is no longer there is replaced by today's. The detector's name says what searched.
    """
    if spec is None or spec.detector is None or spec.detector == SHAPES:
        return shapes()
    if _WITH_TAGGER not in spec.detector:
        return rules()
    from core.corpus.importing.memory import best_that_fits

    return best_that_fits()
