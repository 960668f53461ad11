"""Every package that the app imports is in requirements.txt, and not there by way of another package."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = {"core", "pages"}
PARTS = {"pydantic_core": "pydantic"}  # packages of another one's makers, which pins them exactly


def listed(path: Path) -> set[str]:
    """Names of the packages in the list, in the spelling of the index."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {spelled(re.split(r"[=<>\[;@ ]", line)[0]) for line in lines if re.match(r"[A-Za-z]", line)}


def spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(paths: Iterable[Path]) -> dict[str, Path]:
    """Top-level modules that are neither ours nor Python's, each with one file that imports it."""
    found = {}
    for path in paths:
        for module in modules(ast.parse(path.read_text(encoding="utf-8"))):
            name = module.split(".")[0]
            if name not in OURS and name not in sys.stdlib_module_names:
                found[PARTS.get(name, name)] = path
    return found


def modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_every_package_that_is_imported_is_listed() -> None:
    """A package that only comes with another one can go with its next version."""
    there, lists = packages_distributions(), listed(ROOT / "requirements.txt")
    code = imported(
        [ROOT / "app.py", *(path for folder in ("core", "pages") for path in (ROOT / folder).rglob("*.py"))]
    )
    missing = [
        f"{name} ({path.relative_to(ROOT)})"
        for name, path in sorted(code.items())
        if not {spelled(one) for one in there.get(name, [name])} & lists
    ]
    assert missing == []
    assert len(code) > 10 and "torch" in code
