"""What a widget is given so that its value stands in the page's link."""

from __future__ import annotations

from typing import Literal, TypedDict


class Kept(TypedDict):
    """Keyword arguments of a widget; a TypedDict, so that a type checker knows which arguments `**KEEP` gives."""

    bind: Literal["query-params"]


KEEP: Kept = {"bind": "query-params"}
