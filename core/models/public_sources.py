"""Readers of public text files for pretraining: PubMedQA JSON, IOB token files (detokenised) and plain text.

A plain text file is cut at its section headings, because the notes of a hospital are as short as one section of a
report, and a model must have learned how such short texts begin and end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.corpus.text_documents import documents, mended

SENTENCES_A_DOCUMENT = 8  # IOB files mark sentences but not abstracts
HELDOUT_SHARE = 0.05

_NO_SPACE_BEFORE = set(".,;:?!)]}%'")
_NO_SPACE_AFTER = set("([{'")
_GLUE = set("-/")
_SECTION = re.compile(r"\n(?=[A-Z][A-Z /&,()-]{2,60}:)")  # a line that begins with a heading in capitals


@dataclass(frozen=True)
class TextFile:
    """A file of public text, and in how many epochs it is read: the first ones (None: in all of them).

    Text that resembles what the model is made for is read in all epochs, so that pretraining ends with it.
    """

    path: Path
    epochs: int | None = None

    @classmethod
    def parse(cls, argument: str) -> TextFile:
        """`FILE` or `FILE@EPOCHS`. Raises ValueError if the part after the last @ is no number above 0."""
        path, at, epochs = argument.rpartition("@")
        if not at or "/" in epochs or "." in epochs:  # an @ of the path itself
            return cls(Path(argument))
        if not epochs.isdecimal() or int(epochs) < 1:
            raise ValueError(f"{argument}: after @ comes the number of epochs, 1 or more, not “{epochs}”")
        return cls(Path(path), int(epochs))

    @property
    def name(self) -> str:
        """The last two parts of the path, for a model card."""
        return "/".join(self.path.parts[-2:])

    def is_read_in(self, epoch: int) -> bool:
        """True if the file is read in this epoch, counted from 0."""
        return self.epochs is None or epoch < self.epochs


def read_documents(path: Path) -> list[str]:
    """Documents of one public text file, in file order.

    `.json` is PubMedQA (question, contexts and long answer of each abstract), `.tsv` has one `token<TAB>tag` a line
    with blank lines between sentences, `.txt` is prose with blank lines between documents.

    Raises:
        ValueError: for other or unreadable files, and for files without text.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"The text file {path} does not exist.")
    readers = {".json": _read_pubmedqa, ".tsv": _read_iob, ".txt": _read_plain}
    if path.suffix not in readers:
        raise ValueError(f"{path} has an unknown type: public text is read from .json, .tsv and .txt files.")
    try:
        documents = readers[path.suffix](path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as a {path.suffix} file of public text: {error}") from error
    if not documents:
        raise ValueError(f"{path} contains no text.")
    return documents


def split_documents(documents: Sequence[str]) -> tuple[list[str], list[str]]:
    """Training documents, and the last 5 % (at least one) as held-out documents, so that neighbours stay together."""
    heldout = max(1, round(HELDOUT_SHARE * len(documents)))
    return list(documents[:-heldout]), list(documents[-heldout:])


def public_words(texts: Iterable[str]) -> list[str]:
    """Distinct lower-cased words (letters only) that occur at least twice, sorted."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in re.findall(r"[^\W\d_]+", text.lower()):
            counts[word] = counts.get(word, 0) + 1
    return sorted(word for word, count in counts.items() if count > 1 and word.isalpha())  # `m²` is not a word


def detokenize(tokens: Sequence[str]) -> str:
    """Join tokens that were split at every punctuation mark: `6 . 9 mg / kg ( n = 4 ) .` → `6.9 mg/kg (n = 4).`"""
    text, open_quote = "", False
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else ""
        glued = (
            not text
            or token in _NO_SPACE_BEFORE
            or before in _NO_SPACE_AFTER
            or _is_number_joint(tokens, place - 1)
            or (token in _GLUE and text[-1].isalnum())
            or (before in _GLUE and token[0].isalnum() and len(text) > 1 and text[-2].isalnum())
        )
        if token == '"':  # noqa: S105
            glued, open_quote = open_quote, not open_quote
        elif before == '"':
            glued = open_quote
        text += token if glued else " " + token
    return text


def _is_number_joint(tokens: Sequence[str], place: int) -> bool:
    """True for the point of `6 . 9` and the comma of `1 , 000`, where the next token belongs to the same number."""
    if not 0 < place < len(tokens) - 1 or not (tokens[place - 1].isdigit() and tokens[place + 1].isdigit()):
        return False
    return tokens[place] == "." or (tokens[place] == "," and len(tokens[place + 1]) == 3)


def _read_pubmedqa(content: str) -> list[str]:
    return [
        "\n".join([entry["QUESTION"], *entry["CONTEXTS"], entry["LONG_ANSWER"]])
        for entry in json.loads(content).values()
    ]


def _read_iob(content: str) -> list[str]:
    sentences = [detokenize(tokens) for tokens in _iob_sentences(content)]
    starts = range(0, len(sentences), SENTENCES_A_DOCUMENT)
    documents = [" ".join(sentences[start : start + SENTENCES_A_DOCUMENT]) for start in starts]
    return [re.sub(r"(?<=\d)\. (?=\d)", ".", document) for document in documents]  # NCBI ends sentences inside `0 . 86`


def _iob_sentences(content: str) -> Iterator[list[str]]:
    tokens: list[str] = []
    for line in content.splitlines():
        if line.strip():
            tokens.append(line.split("\t")[0])
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _read_plain(content: str) -> list[str]:
    blocks = (mended(document) for _, document in documents(content.splitlines()))
    return [section.strip() for block in blocks for section in _SECTION.split(block) if section.strip()]
