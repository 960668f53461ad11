"""The import floors of docs/ARCHITECTURE.md, and words that may not stand in the code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Lowest floor first. A module may import its own floor and those below. Longest matching prefix decides.
FLOORS: list[tuple[str, ...]] = [
    ("core.common", "core.spec", "core.phi"),
    ("core.models", "core.corpus"),
    ("core.attacks", "core.training"),
    ("core.tasks",),
    ("core.runs",),
    ("core.evaluation", "core.serving"),
    ("core.pipeline",),
    ("core.jobs",),
    ("core.demo",),
    ("core.findings",),
    ("pages",),
    ("app", "core.__main__", "core.cli", "bench"),
]
FLOOR_OF = {prefix: level for level, prefixes in enumerate(FLOORS) for prefix in prefixes}
FILES = sorted(
    path
    for path in [
        ROOT / "app.py",
        *(ROOT / "core").rglob("*.py"),
        *(ROOT / "pages").rglob("*.py"),
        *(ROOT / "bench").rglob("*.py"),
    ]
    if path.exists()
)


def module_of(path: Path) -> str:
    """`core/runs/store.py` → `core.runs.store`; a package is named by its folder."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor(module: str) -> int | None:
    """Level of a module of ours; None for everybody else's, and for the empty package `core` itself."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (level := FLOOR_OF.get(".".join(parts[:length]))) is not None:
            return level
    return None


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> set[str]:
    """Every module a file imports, wherever the import stands (in functions and under TYPE_CHECKING too)."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import one another, directly or through others."""
    reached = {module: set(found) for module, found in edges.items()}
    changed = True
    while changed:
        changed = False
        for found in reached.values():
            further = set().union(*(reached[module] for module in found)) - found
            found |= further
            changed |= bool(further)
    return [
        {other for other in found if module in reached[other]} for module, found in reached.items() if module in found
    ]


def test_no_modules_import_one_another_in_a_circle():
    """Imports inside functions and under TYPE_CHECKING count too."""
    modules = {module_of(path): path for path in FILES}
    edges = {
        module: {name for name in imports(path) - {module} if name in modules and modules[name].name != "__init__.py"}
        for module, path in modules.items()
    }
    assert circles(edges) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}] * 3


FOLDERS = sorted({path.parent for path in [*FILES, *(ROOT / "tests").rglob("*.py")]})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_folder_is_too_full_to_read(folder: Path) -> None:
    files = list(folder.glob("*.py"))
    assert len(files) <= (20 if folder in (ROOT / "pages", ROOT / "bench") else 15)  # a page or a benchmark is a file
    assert [path.name for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 400] == []


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=module_of)
def test_every_package_says_what_lives_in_it(path: Path) -> None:
    assert len(ast.get_docstring(parsed(path)) or "") > 40


def test_every_file_has_a_floor() -> None:
    assert len(FILES) > 20
    homeless = [str(path) for path in FILES if floor(module_of(path)) is None and path != ROOT / "core" / "__init__.py"]
    assert homeless == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = floor(module_of(path))
    upward = sorted(name for name in imports(path) if (level := floor(name)) is not None and level > (own or 0))
    assert upward == [], f"{path.relative_to(ROOT)} imports from a floor above its own"


BASE = {"spec", "phi", "common"}  # one box of the picture


def box_of(module: str) -> str | None:
    """The box of the architecture's picture that a module of ours is in; None for everybody else's."""
    if floor(module) is None:
        return None
    first, *rest = module.split(".")
    name = {"app": "pages", "core": rest[0] if rest else ""}.get(first, first)
    return "base" if name in BASE else {"__main__": "cli"}.get(name, name)


def test_the_picture_shows_every_import_and_no_other() -> None:
    """Every import follows arrows, and every arrow has an import."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = text.split("```mermaid", 1)[1].split("```", 1)[0]
    drawn: dict[str, set[str]] = {}
    for line in picture.splitlines():
        if " --> " in line:
            left, right = (end.split("[")[0].strip() for end in line.split(" --> "))
            drawn.setdefault(left, set()).add(right)
            drawn.setdefault(right, set())
    direct: dict[str, set[str]] = {box: set() for box in drawn}
    for path in FILES:
        own = box_of(module_of(path))
        if own is not None and own != "":
            direct[own] |= {box for box in map(box_of, imports(path)) if box} - {own}
    reached = {box: set(ends) for box, ends in drawn.items()}
    for _ in drawn:
        for ends in reached.values():
            ends |= set().union(*(reached[box] for box in ends))
    assert {(box, end) for box, ends in direct.items() for end in ends - reached[box]} == set()
    assert {(box, end) for box, ends in drawn.items() for end in ends - direct[box]} == set()


def test_the_floors_would_catch_an_upward_import() -> None:
    assert (
        floor("core.jobs.engine")
        > floor("core.pipeline.training_run")
        > floor("core.evaluation.stats.roc")
        > floor("core.runs")
    )
    assert floor("core.phi.leaks") < floor("core.corpus.tables") < floor("core.training.trainer")
    assert floor("numpy") is None


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.is_relative_to(ROOT / "core")], ids=lambda p: str(p.relative_to(ROOT))
)
def test_core_knows_no_streamlit(path: Path) -> None:
    assert not any(name.split(".")[0] == "streamlit" for name in imports(path))


@pytest.mark.parametrize(
    "path", [path for path in FILES if not path.is_relative_to(ROOT / "bench")], ids=lambda p: str(p.relative_to(ROOT))
)
def test_opacus_and_transformers_are_imported_in_one_place_each(path: Path) -> None:
    """Two threads of a server that import both at once see half-made modules: see core/common/opacus_parts.py."""
    for library in ("opacus", "transformers"):
        here = any(name.split(".")[0] == library for name in imports(path))
        assert here == (path == ROOT / f"core/common/{library}_parts.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_unpickles(path: Path) -> None:
    """Run folders and models may come from anybody: weights are safetensors, tables are Parquet."""
    assert not {"pickle", "cloudpickle", "dill", "joblib", "shelve"} & {name.split(".")[0] for name in imports(path)}
    calls = {ast.unparse(node.func) for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)}
    assert not {"torch.load", "pd.read_pickle", "np.load", "eval", "exec"} & calls


@pytest.mark.parametrize(
    "path", [path for path in FILES if not path.is_relative_to(ROOT / "core")], ids=lambda p: p.name
)
def test_pages_use_no_retired_or_unsafe_arguments(path: Path) -> None:
    keywords = {
        keyword.arg for node in ast.walk(parsed(path)) if isinstance(node, ast.Call) for keyword in node.keywords
    }
    assert not {"use_container_width", "unsafe_allow_html"} & keywords
