"""ICD codes: how they are written, and their descriptions in notes, in data sets and in the official lists.

A synthetic hospital's codes are all in its catalogue. Imported notes may use any code of ICD-10-CM or ICD-9-CM.
`icd9_codes.csv.gz` holds the 14,567 codes of ICD-9-CM version 32 (2015, the last one) with the long descriptions of the
Centers for Medicare & Medicaid Services, which are in the public domain. ICD-10-CM comes from simple-icd-10-cm.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from core.corpus.synthetic.conditions import catalogue, short_wording
from core.corpus.tables import Corpus

NINTH = Path(__file__).with_name("icd9_codes.csv.gz")
# Parts of official descriptions that nobody writes in a note: "Pneumonia, organism unspecified".
_SAYS_NOTHING = re.compile(
    r",? (?:\w+ )?unspecified(?: site| type| as to [^,]*)?(?=,|$)|, type II or unspecified type|, so stated"
    r"|, not (?:stated as uncontrolled|elsewhere classified|otherwise specified)|,? without mention of [^,]*"
    r"| without complications?$|,? \([^()]*\)|,? \[[^\[\]]*\]|^Unspecified ",
    re.IGNORECASE,
)
Revision = Literal["ICD-9", "ICD-10"]
MARKS = "*+!†#-"  # after a code
_SEPARATORS = re.compile(r"[\s,;|]+")
_ONLY_NINTH = re.compile(r"[0-9]{3}[0-9.]*|E[89][0-9]{2}\.?[0-9]?")
_ONLY_TENTH = re.compile(r"[A-DF-UW-Z][0-9][0-9A-Z][0-9A-Z.]*|[EV][0-9][0-9A-Z]\.[0-9A-Z]+")


def codes_in(cell: str) -> list[str]:
    """The distinct codes of a cell, upper case, in order; split at blanks, commas, semicolons and vertical bars.

    Marks that national editions add (“E11.9+”, “H36.0*”) are left out: with and without one it is the same disease.
    """
    codes = (code.rstrip(MARKS) for code in _SEPARATORS.split(cell.upper()))
    return list(dict.fromkeys(code for code in codes if code))


def revision_of(codes: Iterable[str]) -> Revision:
    """The revision of a whole column of codes: ICD-9 if more codes can only be ICD-9 than can only be ICD-10.

    A single code can be ambiguous (V10.1 exists in both revisions); a column rarely is.
    """
    ninth = tenth = 0
    for code in codes:
        ninth += _ONLY_NINTH.fullmatch(code) is not None
        tenth += _ONLY_TENTH.fullmatch(code) is not None
    return "ICD-9" if ninth > tenth else "ICD-10"


def dotted(code: str, revision: Revision) -> str:
    """The code with its dot: after three characters, or after four for external causes in ICD-9 (E878.8)."""
    plain = code.strip().upper().replace(".", "")
    head = 4 if revision == "ICD-9" and plain.startswith("E") else 3
    return f"{plain[:head]}.{plain[head:]}" if len(plain) > head else plain


def condition_words(corpus: Corpus) -> dict[str, str]:
    """The conditions of a cohort that probes may ask about, as code → words.

    For a synthetic hospital, everything it treats. For imported notes, the codes of their patients that have a
    description (`words_of`).
    """
    if corpus.spec is None or corpus.spec.imported is None:
        return catalogue().wordings
    held = {code for codes in corpus.patients["icd_codes"] for code in codes}
    described = corpus.diagnoses.dropna(subset="wording").drop_duplicates("code")
    return words_of(held, dict(zip(described["code"], described["wording"], strict=True)))


def words_of(codes: Collection[str], described: Mapping[str, str] | None = None) -> dict[str, str]:
    """Words for each of `codes` that has any: its imported description, else the catalogue's, else the official one.

    Official descriptions lose uninformative parts (“, unspecified”). If two codes would then have the same words, both
    keep the full description. The revision is decided over all codes together.
    """
    own = described or {}
    revision = revision_of(codes)
    known = catalogue().wordings if revision == "ICD-10" else {}
    found = {code: own.get(code) or known.get(code) for code in codes}
    long = {code: text for code in codes if found[code] is None and (text := _official(code, revision))}
    long |= {code: own[code] for code in codes if own.get(code)}
    short = {code: plain_words(text) for code, text in long.items()}
    shared = Counter([*short.values(), *(known[code] for code in codes if code in known and code not in long)])
    found |= {code: text if shared[text] == 1 else long[code] for code, text in short.items()}
    return {code: words for code in sorted(codes) if (words := found[code])}


def plain_words(description: str) -> str:
    """An official description as clinicians write it: “Unspecified essential hypertension” → essential hypertension."""
    text = " ".join(_SAYS_NOTHING.sub("", description).split())
    return short_wording(text or description)


def _official(code: str, revision: Revision) -> str | None:
    if revision == "ICD-9":
        return _ninth().get(code)
    import simple_icd_10_cm as icd  # takes about a second to load, and only imported codes need it

    return icd.get_description(code) if icd.is_valid_item(code) else None


@cache
def _ninth() -> dict[str, str]:
    return dict(_rows())


def _rows() -> Iterator[tuple[str, str]]:
    with gzip.open(NINTH, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["code"], row["description"]
