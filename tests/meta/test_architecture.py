"""docs/reference/ against the code: every column, event and state that it lists, and every name in any document."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from core.jobs.work import JobState
from core.pipeline.quick_audit import ATTACKS, READS
from core.runs.events import Event, State
from core.runs.tables import ADDED, OPTIONAL, SCHEMAS
from core.training.events import EpochEvent, InStepEvent, StepEvent

ROOT = Path(__file__).resolve().parents[2]
TABLES, EVENTS = (
    (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in ("tables", "events")
)


def resolved(path: str, name: str) -> Any:
    """The object a dotted name stands for in the module of that file."""
    found: Any = importlib.import_module(".".join(Path(path).with_suffix("").parts))
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return found


def test_names_that_texts_refer_to_exist():
    """`core.runs.store.Workspace` in a docstring or a document stands for something, wherever it moved."""
    folders = [ROOT / folder for folder in ("core", "bench", "pages")]
    texts = [*(path for folder in folders for path in folder.rglob("*.py")), *(ROOT / "docs").rglob("*.md")]
    missing = []
    for path in [*texts, *ROOT.glob("*.md")]:
        for name in set(re.findall(r"\bcore(?:\.[A-Za-z_]\w*)+", path.read_text(encoding="utf-8"))):
            if not exists(name):
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert missing == []
    assert exists("core.runs.store.Workspace.find") and not exists("core.runs.store.Nothing")


def exists(name: str) -> bool:
    """Is there a module of this dotted name, or something in one?"""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:end])
        if place.with_suffix(".py").is_file() or place.is_dir():
            try:
                resolved(str(place.with_suffix(".py").relative_to(ROOT)), ".".join(parts[end:]))
            except AttributeError:
                return False
            return True
    return False


def test_tables_have_the_columns_that_are_written_down():
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", TABLES.split("## Tables of a run")[1], flags=re.MULTILINE)
    written = {
        table: [column.strip() for column in re.sub(r" \([^()]*\)", "", columns).split(",")]
        for table, columns in rows
        if table != "table"
    }
    assert written == {table: schema.names for table, schema in (SCHEMAS | OPTIONAL | ADDED).items()}


def test_events_have_the_keys_that_are_written_down():
    rows = dict(re.findall(r"^\| `(\w+)`.* \| (.+) \|$", EVENTS, flags=re.MULTILINE))
    written = {event: set(re.findall(r"`(\w+)`", re.sub(r"\([^()]*\)", "", row))) for event, row in rows.items()}
    kinds = {get_args(get_type_hints(kind)["event"])[0]: get_type_hints(kind) for kind in get_args(Event)}
    assert {event: set(kind) - {"event", "time"} for event, kind in kinds.items()} == written | {
        "progress": written["progress"] | {"attack"}  # described within a bracket
    }
    for event, kind in (("step", StepEvent), ("progress_in_step", InStepEvent), ("epoch", EpochEvent)):
        assert [*kinds[event]][2:] == [field.name for field in fields(kind)], event
    stages = re.findall(r"`([\w :]+)`", rows["stage"].split("(")[1].split(")")[0])
    audits = [attack.stage for attack in ATTACKS]
    assert stages == ["corpus", "base control", "vocabulary", "training", *audits, READS.stage, "saving"]


def test_states_are_those_of_the_code():
    states = re.search(r'"state": "([\w|]+)"', EVENTS).group(1).split("|")
    assert states == list(get_args(State))
    assert set(get_args(JobState)) - set(states) == {"interrupted"} and "`interrupted`" in EVENTS
