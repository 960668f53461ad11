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
    """`again` of the claim with the id `of`."""
    return again(_ASKED[of], new_id, where, before, **run)


def again(first: Claim, new_id: str, where: str, before: str, **run: Any) -> Claim:
    """The claim `first` under a new id: with its paper's figure and place, its quantity and its rule.

    Args:
        first: The claim that was asked first.
        new_id: The new claim's id.
        where: Where it is asked now, for the title: `public reports`.
        before: Where it was asked first: `about synthetic notes`.
        **run: The fields of `Claim` that are not as before: at least measure, needs, sizes and differs. Explanations of
            verdicts belong to one run, so without `why` there are none.
    """
    known = {"title": f"{first.title} ({where})", "says": f"{first.says} {first.id} asks this {before}.", "why": {}}
    return replace(first, id=new_id, again=first.id, **(known | run))
