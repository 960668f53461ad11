"""`python -m core corpus --from PATH`: notes of one's own, and what was seen in them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import BadInput, answer, say

if TYPE_CHECKING:
    from core.corpus.importers import Imported

SAY_SECONDS = 2.0


def bring(source: Path, out: Path, *, seed: int, given: dict[str, Any], as_json: bool) -> None:
    """Import `source`, write it to the new folder `out`, and say what it holds. Nothing is written if it is bad."""
    from core.corpus.importers import import_notes

    options = {name: value for name, value in given.items() if value is not None}
    options["columns"] = dict(map(_pair, options.get("columns", ())))
    imported = import_notes(source, seed=seed, on_progress=_teller(), **options)
    with new_folder(out) as beside:
        imported.corpus.write(beside)
    spec = imported.corpus.spec
    answer(
        {"folder": str(out), "spec": spec.model_dump(mode="json"), **seen(imported)},
        _text(out, imported),
        as_json=as_json,
    )


def _pair(given: str) -> tuple[str, str]:
    role, equals, name = given.partition("=")
    if not equals or not name:
        raise BadInput(f"--column: “{given}” is not ROLE=NAME, for example note=TEXT.")
    return role.strip(), name.strip()


def _teller() -> Callable[[str, int, int], None]:
    """Says what is being done, every two seconds."""
    said = time.monotonic()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_SECONDS:
            said = time.monotonic()
            say(f"  {what}: {done / max(1, total):.0%}")

    return tell


def seen(imported: Imported) -> dict[str, Any]:
    """The counts of an import, as JSON."""
    corpus = imported.corpus
    own = corpus.notes[corpus.notes["split"] != "canary"]
    return {
        "patients": len(corpus.patients),
        "notes": len(own),
        "canaries": len(corpus.canaries),
        "rows": imported.rows,
        "blank": imported.blank,
        "marked_wrong": imported.marked_wrong,
        "copies": imported.copies.exact,
        "near_copies": imported.copies.near,
        "removed": imported.removed,
        "records": imported.records,
        "without_record": imported.without_record,
        "unknown_placeholders": imported.unknown_placeholders,
        "notes_with_phi": int(own["phi_spans"].map(len).gt(0).sum()),
    }


def _text(out: Path, imported: Imported) -> str:
    found = seen(imported)
    where = {"table": "from the table given", "surrogates": "surrogates", "notes": "read out of the notes by shape"}
    lines = [
        f"{out}: {found['patients']:,} patients, {found['notes']:,} notes, {found['canaries']:,} canaries",
        f"  copies: {found['copies']:,} word for word, {found['near_copies']:,} with near ones; "
        f"{found['removed']:,} left out",
        f"  left out: {found['blank']:,} blank, {found['marked_wrong']:,} marked as errors",
        f"  identifiers: {where[found['records']]}; {found['without_record']:,} patients without any",
        f"  {found['notes_with_phi']:,} notes hold something that identifies",
        f"Train on it: python -m core train --corpus {out}",
    ]
    return "\n".join(lines)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write into, renamed to `out` (absent or empty) at the end: what stands there is whole."""
    from core.runs.store import full_disk_as_sentence

    with full_disk_as_sentence("the cohort", out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        try:
            yield beside
            if out.exists():
                out.rmdir()
            beside.chmod(0o755)
            beside.rename(out)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
