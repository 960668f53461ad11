"""Which notes a folder is about: the cohort of a run, and the mark of cohorts uploaded on a page.

Everything made from an upload is deleted with it, even if one of its files is damaged. So a run names its cohort in
three places: in its spec, in its checksums and, if the cohort was uploaded, in a mark. Notes imported by command have
no mark, and nothing without a mark is ever deleted because of its age.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.common.files import create, replace_text
from core.runs.integrity.checksums import Checksums
from core.runs.integrity.upkeep import DIGEST
from core.spec.parts import digest_of
from core.spec.schema import SpecUnreadable
from core.spec.schema import read as read_settings

UPLOADED = "uploaded"  # name of the mark: empty in a cohort's folder, the cohort's digest in the folder of a run on it


def mark_cohort(folder: Path) -> None:
    """Mark a cohort's folder as uploaded."""
    create(folder / UPLOADED)


def mark_run(folder: Path, digest: str) -> None:
    """Mark a run's folder as made from the upload with that digest."""
    replace_text(folder / UPLOADED, digest)


def marked_cohort(folder: Path) -> str | None:
    """The digest in the mark of a run's folder, empty if it cannot be read. None if the folder has no mark."""
    try:
        marked = (folder / UPLOADED).read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    return marked if DIGEST.fullmatch(marked) else ""


def cohort_of(folder: Path) -> tuple[str, bool] | None:
    """(digest, imported?) of the cohort of a run's folder; None if it cannot be determined.

    The sources are, in this order: a spec whose digest is the folder's name, so that nothing in it has changed; the
    checksums; the mark; and the readable part of a spec that is damaged or from a newer version.
    """
    by_spec, certain = _by_spec(folder)
    if certain:
        return by_spec
    taken = Checksums.read(folder)
    if taken is not None:
        return taken.corpus, taken.imported
    marked = marked_cohort(folder)
    return (marked, True) if marked else by_spec


def _by_spec(folder: Path) -> tuple[tuple[str, bool] | None, bool]:
    """The cohort that a run's spec names, and whether the spec is certainly unchanged."""
    try:
        text = (folder / "spec.json").read_text(encoding="utf-8")
        stored = read_settings(text)
    except (OSError, UnicodeDecodeError):
        return None, False
    except SpecUnreadable:
        return _by_settings(text), False
    corpus, run_id = stored.spec.corpus, folder.name.split(".")[0]  # `verify --repair` adds the time after a dot
    return (corpus.digest(), corpus.imported is not None), run_id in (stored.run_id, stored.spec.run_id)


def _by_settings(text: str) -> tuple[str, bool] | None:
    """The cohort in settings that this version cannot use."""
    try:
        corpus = json.loads(text)["corpus"]
        return digest_of(corpus), corpus.get("imported") is not None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
