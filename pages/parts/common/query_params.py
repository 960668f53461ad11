"""What a widget is given so that its value stands in the page's link."""

from __future__ import annotations

from typing import Literal, TypedDict

from core.spec import CorpusSpec


class Kept(TypedDict, total=False):
    """Keyword arguments of a widget; a TypedDict, so that a type checker knows which arguments `**KEEP` gives."""

    bind: Literal["query-params"]


KEEP: Kept = {"bind": "query-params"}


def kept_unless_real(corpus: CorpusSpec | None) -> Kept:
    """KEEP for what is typed about a generated cohort; nothing for imported notes.

    Browsers keep addresses, and proxies write them to logs: no name, id or word of a real note may get there.
    """
    return KEEP if corpus is not None and corpus.imported is None else {}
