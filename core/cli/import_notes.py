"""`python -m core corpus --from PATH`: imports your own notes and reports what they contain."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import BadInput, answer, say

if TYPE_CHECKING:
    from core.corpus.importing.importer import Seen

SAY_SECONDS = 2.0


def write_imported(source: Path, out: Path, *, seed: int, given: dict[str, Any], as_json: bool) -> None:
    """Import `source` to the new folder `out` and print what it contains. Nothing is written if it cannot be used."""
    from core.corpus.importing.importer import import_notes

    options = {name: value for name, value in given.items() if value is not None}
    options["columns"] = dict(map(_pair, options.get("columns", ())))
    with new_folder(out, private=True) as beside:
        seen = import_notes(source, beside, seed=seed, on_progress=teller(), **options)
    answer({"folder": str(out), **seen.model_dump(mode="json")}, _text(out, seen), as_json=as_json)


def _pair(given: str) -> tuple[str, str]:
    role, equals, name = given.partition("=")
    if not equals or not role.strip():
        raise BadInput(f"--column: “{given}” does not have the form ROLE=NAME, for example note=TEXT.")
    return role.strip(), name.strip()


def teller() -> Callable[[str, int, int], None]:
    """A callback that prints the progress every two seconds."""
    said = time.monotonic()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAY_SECONDS:
            said = time.monotonic()
            say(f"  {what}: {done / max(1, total):.0%}")

    return tell


def _text(out: Path, seen: Seen) -> str:
    where = {"table": "from the given table", "surrogates": "surrogates", "notes": "found in the notes by the detector"}
    lines = [
        f"{out}: {seen.patients:,} patients, {seen.notes:,} notes, {seen.canaries:,} canaries",
        f"  copies: {seen.copies:,} exact, {seen.near_copies:,} including near copies; {seen.removed:,} removed"
        f"{'; the ε of a model covers only the notes that are left' if seen.removed else ''}",
        f"  left out: {seen.blank:,} blank, {seen.marked_wrong:,} marked as errors",
        f"  identifiers: {where[seen.records]}; {seen.without_identifier:,} of {seen.patients:,} patients without any",
        f"  {seen.notes_with_phi:,} notes contain identifying information; detector: {seen.detector}",
        *([f"  {seen.detector_lacks}"] if seen.detector_lacks else []),
        *(f"  {remark}" for remark in seen.remarks),
        f"To train on it: python -m core train --corpus {out}",
    ]
    return "\n".join(lines)


@contextmanager
def new_folder(out: Path, *, private: bool) -> Iterator[Path]:
    """A folder to write to, renamed to `out` (absent or empty) at the end, so that `out` is always complete."""
    from core.common.files import settle
    from core.common.folders import building
    from core.runs.integrity.disk import full_disk_as_sentence

    with full_disk_as_sentence("the cohort", out.parent), building(out.parent, private=private) as beside:
        yield beside
        if out.exists():
            out.rmdir()
        settle(beside)
        beside.rename(out)
