"""docs/ARCHITECTURE.md against the code: every file, name, parameter, default, column, state and metric it promises."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from core.evaluation.wording import EXPLANATIONS
from core.jobs.engine import JobState
from core.pipeline.quick_audit import ATTACKS, READS
from core.runs.events import State
from core.runs.tables import SCHEMAS
from core.training.events import EpochEvent, InStepEvent, StepEvent

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
PROMISE = re.compile(r"([A-Za-z_][\w.]*)(\([^()]*(?:\(\d*,?\)[^()]*)*\))?")


def promises(document: str) -> dict[str, list[tuple[str, str | None]]]:
    """Path of a file → the names the code block promises of it, each with its parameter list if it has one."""
    block = document.split("```python\n")[1].split("```")[0]
    block = re.sub(r"#.*", "", block)
    found: dict[str, list[tuple[str, str | None]]] = {}
    path = ""
    for part in re.split(r"\n(?=\S)", block):
        path, _, names = part.partition("\n")
        path = path.strip()
        if path:
            assert path not in found, f"{path} stands there twice"
            found[path] = [(match.group(1), match.group(2)) for match in PROMISE.finditer(names)]
    return found


PROMISES = promises(DOCUMENT)
NAMES = [(path, name, arguments) for path, names in PROMISES.items() for name, arguments in names]


def differences(actual: Any, arguments: str) -> Iterator[str]:
    """What a promised parameter list, such as `(lm, texts, *, seed=0)`, says otherwise than the code."""
    promised = ast.parse(f"def promised{arguments}: ...").body[0].args
    names = [argument.arg for argument in [*promised.args, *promised.kwonlyargs]]
    parameters = {name: each for name, each in inspect.signature(actual).parameters.items() if name != "self"}
    own = {name: each for name, each in parameters.items() if each.kind is not each.VAR_POSITIONAL}
    if names != list(own):
        yield f"parameters {list(own)}"
    if promised.vararg and promised.vararg.arg not in parameters:
        yield f"no *{promised.vararg.arg}"
    if not isinstance(actual, type):  # a spec or dataclass takes keywords anyway
        keywords = [name for name, each in own.items() if each.kind is each.KEYWORD_ONLY]
        if [argument.arg for argument in promised.kwonlyargs] != keywords:
            yield f"keyword-only {keywords}"
    defaults = dict(zip(names[len(promised.args) - len(promised.defaults) :], promised.defaults, strict=False))
    defaults |= {
        argument.arg: default
        for argument, default in zip(promised.kwonlyargs, promised.kw_defaults, strict=True)
        if default is not None
    }
    for name, default in defaults.items():
        if name in own and ast.literal_eval(default) != own[name].default:
            yield f"default of {name}: {own[name].default!r}"


def resolved(path: str, name: str) -> Any:
    """The object a dotted name stands for in the module of that file."""
    found: Any = importlib.import_module(".".join(Path(path).with_suffix("").parts))
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return found


def test_the_document_names_every_file_and_no_other():
    files = {
        str(path.relative_to(ROOT))
        for folder in ("core", "bench", "pages")
        for path in (ROOT / folder).rglob("*.py")
        if not path.name.startswith("_") or path.name == "__main__.py"
    }
    folders = tuple(path for path in PROMISES if path.endswith("/"))
    assert all((ROOT / folder).is_dir() for folder in folders)
    named = set(PROMISES) - set(folders) - {"app.py"}
    assert named - files == set(), "docs/ARCHITECTURE.md names files that are not there"
    unnamed = {path for path in files - named if not path.startswith(folders)}
    assert unnamed == set(), "give each of these a line in the code block of docs/ARCHITECTURE.md"
    assert len(NAMES) > 100


@pytest.mark.parametrize(("path", "name", "arguments"), NAMES, ids=[f"{path}:{name}" for path, name, _ in NAMES])
def test_a_promised_name_is_there_with_its_parameters(path: str, name: str, arguments: str | None):
    actual = resolved(path, name)
    if arguments is not None:
        assert list(differences(actual, arguments)) == []


def test_names_that_texts_refer_to_exist():
    """`core.runs.store.Workspace` in a docstring or a document stands for something, wherever it moved."""
    folders = [ROOT / folder for folder in ("core", "bench", "pages")]
    texts = [*(path for folder in folders for path in folder.rglob("*.py")), *(ROOT / "docs").glob("*.md")]
    missing = []
    for path in [*texts, ROOT / "README.md"]:
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


def test_a_wrong_promise_would_be_found():
    def actual(lm, texts, *, seed=0): ...

    assert list(differences(actual, "(lm, texts, *, seed=0)")) == []
    assert list(differences(actual, "(lm, text, *, seed=0)"))
    assert list(differences(actual, "(lm, texts, seed=0)"))
    assert list(differences(actual, "(lm, texts, *, seed=1)"))
    assert list(differences(actual, "(lm, texts)"))
    assert promises("```python\na.py  # (x)\n    f(a, b=(), *, c)  G.h()\n    K\nb.py\n```") == {
        "a.py": [("f", "(a, b=(), *, c)"), ("G.h", "()"), ("K", None)],
        "b.py": [],
    }


def test_tables_have_the_columns_that_are_written_down():
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", DOCUMENT.split("## Tables of a run")[1], flags=re.MULTILINE)
    written = {
        table: [column.strip() for column in re.sub(r" \([^()]*\)", "", columns).split(",")]
        for table, columns in rows
        if table in SCHEMAS
    }
    assert written == {table: schema.names for table, schema in SCHEMAS.items()}


def test_events_have_the_keys_that_are_written_down():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", DOCUMENT, flags=re.MULTILINE))
    for event, kind in (("step", StepEvent), ("progress_in_step", InStepEvent), ("epoch", EpochEvent)):
        written = re.findall(r"`(\w+)`", re.sub(r"\([^()]*\)", "", rows[event]))
        assert written == [field.name for field in fields(kind)], event
    stages = re.findall(r"`([\w :]+)`", rows["stage"].split("(")[1].split(")")[0])
    audits = [attack.stage for attack in ATTACKS]
    assert stages == ["corpus", "base control", "vocabulary", "training", *audits, READS.stage, "saving"]


def test_metrics_and_states_are_those_of_the_code():
    metrics = DOCUMENT.split("| metric | what |")[1]
    named = {
        name.partition(":")[0]
        for row in metrics.splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    assert named == set(EXPLANATIONS)
    states = re.search(r'"state": "([\w|]+)"', DOCUMENT).group(1).split("|")
    assert states == list(get_args(State))
    assert set(get_args(JobState)) - set(states) == {"interrupted"} and "`interrupted`" in DOCUMENT
