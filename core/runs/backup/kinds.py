"""What an archive may hold: the kinds of items, the files that each may have, and names that follow from content.

An item is one folder of the data folder, `runs/gpt2-3f2a9c01d4e7` for example. Everything else stays out: work in
progress with its keys, ended sign-ins, damaged files, and files that no part of the program writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from core.runs.events import CANCEL_FILE, STATUS_FILE
from core.runs.integrity.whole import json_problem, table_problem, weights_problem
from core.runs.run import RUN_ID
from core.spec import CorpusSpec
from core.spec.schema import SpecTooNew, SpecUnreadable
from core.spec.schema import read as read_settings

Kind = Literal["uploads", "corpora", "runs", "audits", "references", "ledger"]
# In the order of an import: a record before its cohort, a run before its audit.
KINDS: tuple[Kind, ...] = get_args(Kind)
RECORD = "record.json"  # the one file of an item of the kind `uploads`

_DIGEST, _RUN, _FILE = r"[0-9a-f]{12}", RUN_ID.pattern, r"[A-Za-z0-9_][\w.+-]*"
_SAVED = rf"{_FILE}\.(?:json|txt|safetensors)"  # of a folder written by `save_pretrained`
_AUDIT = rf"attacks\.json|events\.jsonl|tables/{_FILE}/{_FILE}\.parquet"
_NAMES: dict[Kind, str] = {
    "uploads": _DIGEST,
    "corpora": _DIGEST,
    "runs": _RUN,
    "audits": _RUN,
    "references": rf"(?:{_DIGEST}/)?(?:shadows-)?{_RUN}",
    "ledger": _DIGEST,
}
_FILES: dict[Kind, str] = {
    "uploads": re.escape(RECORD),
    "corpora": r"spec\.json|checksums\.json|uploaded|(?:patients|notes|canaries|diagnoses)\.parquet",
    "runs": r"(?:spec|status|checksums|privacy|vocabulary|figures-only|trained-by)\.json|events\.jsonl|README\.md"
    rf"|uploaded|model/{_SAVED}|tables/{_FILE}\.parquet",
    "audits": rf"{_AUDIT}|prove/(?:{_AUDIT})|forget/{_DIGEST}/(?:{_AUDIT}|models/{_FILE}/{_SAVED})",
    "references": _SAVED,
    "ledger": r"[0-9]{4,}\.json|head",
}
_WEIGHTS: dict[Kind, str] = {"runs": r"model/.*", "audits": r"forget/[^/]*/models/.*"}


class WrongIdentity(ValueError):
    """What an item says about itself does not give its name. The message is the rest of a sentence about the item."""


def is_name(kind: Kind, name: str) -> bool:
    """Whether an item of this kind can have the name."""
    return re.fullmatch(_NAMES[kind], name, re.ASCII) is not None


def is_known(kind: Kind, file: str) -> bool:
    """Whether an item of this kind can have a file at this path. Such a path never leaves the item's folder."""
    return re.fullmatch(_FILES[kind], file, re.ASCII) is not None


def is_weights(kind: Kind, name: str, file: str) -> bool:
    """Whether a file belongs to a model, so that an archive without weights lacks it. Figures never need it."""
    if kind == "references":
        return not name.rpartition("/")[2].startswith("shadows-")  # of a shadow model only its scores are kept
    return kind in _WEIGHTS and re.fullmatch(_WEIGHTS[kind], file) is not None


def files_of(kind: Kind, folder: Path) -> tuple[list[str], list[str]]:
    """(files that belong to the item in `folder`, files that no item of this kind has), sorted.

    Hidden files and the state of a job in progress are neither. A link counts as unknown.
    """
    passing = {CANCEL_FILE, STATUS_FILE} if kind == "audits" else {CANCEL_FILE}
    known: list[str] = []
    unknown: list[str] = []
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder)
        if any(part.startswith(".") for part in file.parts) or str(file) in passing:
            continue
        if path.is_symlink():
            unknown.append(str(file))
        elif path.is_file():
            (known if is_known(kind, str(file)) else unknown).append(str(file))
    return known, unknown


def check_identity(kind: Kind, name: str, files: set[str], read: Callable[[str], bytes]) -> None:
    """Compare an item's name with the one that follows from its settings, before any of it is written.

    Audits and reference models have no settings of their own.

    Args:
        kind: The item's kind.
        name: Its name in the archive.
        files: Its files.
        read: Gives the content of one of them.

    Raises:
        WrongIdentity: The settings are those of another item, or cannot be read.
    """
    source = {"uploads": RECORD, "corpora": "spec.json", "runs": "spec.json", "ledger": "0001.json"}.get(kind)
    if source is None:
        return
    if source not in files:
        raise WrongIdentity(f"has no file {source}")
    try:
        text = read(source).decode("utf-8")
        derived = _derived(kind, text)
    except SpecTooNew as error:
        raise WrongIdentity(str(error)) from None
    except (SpecUnreadable, ValidationError, UnicodeDecodeError, ValueError, KeyError, TypeError, RecursionError):
        raise WrongIdentity(f"has a file {source} that cannot be used") from None
    if name not in derived:
        raise WrongIdentity(f"has the settings of {derived[0]} in its file {source}")


def _derived(kind: Kind, text: str) -> tuple[str, ...]:
    """The names that these settings give: of a run, that of the settings as stored, and that of today's."""
    if kind == "runs":
        stored = read_settings(text)
        return stored.run_id, stored.spec.run_id
    spec = text if kind == "corpora" else json.dumps(json.loads(text)["corpus" if kind == "ledger" else "spec"])
    return (CorpusSpec.model_validate_json(spec).digest(),)


def content_problem(path: Path) -> str | None:
    """Why a file is not what its name says, or None. A table, a model or JSON is read; nothing is unpickled."""
    match path.suffix:
        case ".parquet":
            return table_problem(path, to_the_end=True)
        case ".safetensors":
            return weights_problem(path)
        case ".json":
            return json_problem(path)
    try:
        path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "is not text"
    return None
