"""Words that the rules look up: names from many countries, cities, institutions, and words that are none of these."""

from __future__ import annotations

import importlib
import re
import tomllib
from functools import cache
from pathlib import Path

from faker.providers.address import Provider as Places
from faker.providers.address.en_US import Provider as Addresses

from core.phi.shaped_names import is_listed

# Faker's lists for languages in Latin script.
_LOCALES = (
    *("en_US", "en_GB", "en_IE", "en_IN", "en_NZ", "es_ES", "es_MX", "fr_FR", "de_DE", "it_IT", "nl_NL", "pt_BR"),
    *("pl_PL", "sv_SE", "da_DK", "no_NO", "fi_FI", "vi_VN", "tr_TR", "hu_HU", "cs_CZ", "id_ID", "yo_NG", "ig_NG"),
    *("zu_ZA", "sw", "de_AT", "de_CH", "es_AR", "es_CL", "es_CO", "es_CA", "fr_BE", "fr_CA", "fr_CH", "nl_BE", "pt_PT"),
    *("hr_HR", "sl_SI", "sk_SK", "et_EE", "lv_LV", "lt_LT", "ro_RO", "is_IS", "ga_IE", "az_AZ"),
    *("en_KE", "en_NG", "en_PK", "ha_NG"),
)
_FOLDER = Path(__file__).parent


@cache
def _lists() -> dict[str, str]:
    lists: dict[str, str] = tomllib.loads((_FOLDER / "words.toml").read_text(encoding="utf-8"))
    return lists


@cache
def words(name: str) -> frozenset[str]:
    """A list of words.toml, split at blanks, in lower case."""
    return frozenset(word.casefold() for word in _lists()[name].split())


@cache
def phrases(name: str) -> tuple[str, ...]:
    """A list of words.toml, split at semicolons, the longest first."""
    found = (" ".join(phrase.split()) for phrase in _lists()[name].split(";"))
    return tuple(sorted(filter(None, found), key=len, reverse=True))


@cache
def _names(kind: str) -> frozenset[str]:
    found: set[str] = set()
    for locale in _LOCALES:
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        for part in ("", "_male", "_female", "_unisex"):
            listed = getattr(provider, f"{kind}_names{part}", ())
            if not isinstance(listed, property):  # computed from the others
                found.update(name.casefold() for name in listed if len(name) > 1)
    return frozenset(found)


@cache
def _first_names() -> frozenset[str]:
    return _names("first") - words("no_first_name")


def is_first_name(word: str) -> bool:
    """Whether a word, or a part of a double name, is a first name somewhere, and not usually another word."""
    return is_listed(word, _first_names())


def is_last_name(word: str) -> bool:
    """Whether a word, or a part of a double name, is a last name somewhere."""
    return is_listed(word, _names("last"))


@cache
def cities() -> frozenset[str]:
    """Names of cities as written, from cities.txt."""
    lines = (_FOLDER / "cities.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(name.strip() for line in lines if not line.startswith("#") for name in line.split(";"))


@cache
def states() -> frozenset[str]:
    """Names and postal abbreviations of the states of the United States, which identify nobody by themselves."""
    return frozenset({*Addresses.states, *Addresses.states_abbr, "D.C.", "U.S.", "USA", "US"})


@cache
def countries() -> frozenset[str]:
    """Names of countries, which identify nobody by themselves."""
    return frozenset(
        {*Places.countries, "England", "Scotland", "Wales", "Russia", "South Korea", "North Korea", "UK", "Iran"}
    )


# Endings of the names of drugs, diseases, organisms and procedures.
_MEDICAL = re.compile(
    r"\w{2,}(?:mab|nib|pril|sartan|olol|statin|azole|cillin|mycin|micin|xaban|tidine|prazole|gliptin|gliflozin|glutide|"
    r"dipine|parin|cycline|floxacin|[aeo]vir|setron|triptan|pam|zolam|barbital|caine|dronate|fenac|profen|oxetine|thiazide|"
    r"semide|cept|mide|zine|pine|done|lukast|terol|sone|solone|onide|formin|glitazone|feron|platin|rubicin|trexate|taxel|"
    r"stim|poetin|kinra|tinib|ciclib|parib|virus|coccus|itis|osis|emia|aemia|oma|pathy|ectomy|otomy|oscopy|plasty|gram)\Z",
    re.IGNORECASE,
)


def is_medical(word: str) -> bool:
    """Whether a capitalised word is a drug, a disease or a sign rather than somebody's name."""
    return bool(_MEDICAL.match(word)) or word.strip(".").casefold() in words("no_person")
