"""Of whose notes a folder is: the cohort that a run is about, and the mark of what was uploaded on a page.

Whatever was made from an upload is deleted with it, also when a file of it is damaged. So a run says in three places
which cohort it is about: in its spec, in its checksums and, if the cohort was uploaded, in a mark. Notes that a command
brought have no mark, and nothing that lacks one is ever deleted by age.
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

UPLOADED = "uploaded"  # the mark: empty in the folder of a cohort, the cohort's digest in that of a run on it


def mark_cohort(folder: Path) -> None:
    """Mark a cohort's folder as uploaded."""
    create(folder / UPLOADED)


def mark_run(folder: Path, digest: str) -> None:
    """Mark a run's folder as made from the upload of that digest."""
    replace_text(folder / UPLOADED, digest)


def marked_cohort(folder: Path) -> str | None:
    """The digest in the mark of a run's folder, empty where that cannot be read. None: it has no mark."""
    try:
        marked = (folder / UPLOADED).read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    return marked if DIGEST.fullmatch(marked) else ""


def cohort_of(folder: Path) -> tuple[str, bool] | None:
    """(digest, imported?) of the cohort that a run's folder is about. None: nobody can say.

    Asked in this order: a spec whose digest the folder is named by, so that nothing in it has changed; the checksums;
    the mark; and what can be read of a spec that is damaged or of a newer version.
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
    """The cohort that a run's spec names, and whether the spec is certainly the one that was written."""
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
    """The cohort of settings that this version cannot use."""
    try:
        corpus = json.loads(text)["corpus"]
        return digest_of(corpus), corpus.get("imported") is not None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
