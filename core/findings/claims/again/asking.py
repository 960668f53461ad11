"""Asks a paper's claim again elsewhere: what the paper says stays, and what was run here is new."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from core.findings.claim import Claim
from core.findings.claims import hoory, jagannatha, jagannatha_noise, lehman, mireshghallah, privai, privai_attempts

_FILES = (hoory, jagannatha, jagannatha_noise, lehman, mireshghallah, privai, privai_attempts)
_ASKED = {claim.id: claim for claim in chain.from_iterable(file.CLAIMS for file in _FILES)}


def asked_again(of: str, new_id: str, where: str, before: str, **run: Any) -> Claim:
    """The claim `of` under a new id: with its paper's figure and place, its quantity and its rule.

    Args:
        of: The id of the claim that was asked first.
        new_id: The new claim's id.
        where: Where it is asked now, for the title: `public reports`.
        before: Where it was asked first: `about synthetic notes`.
        **run: The fields of `Claim` that are not as before: at least measure, needs, sizes and differs. Explanations of
            verdicts belong to one run, so without `why` there are none.
    """
    first = _ASKED[of]
    known = {"title": f"{first.title} ({where})", "says": f"{first.says} {of} asks this {before}.", "why": {}}
    return replace(first, id=new_id, again=of, **(known | run))
