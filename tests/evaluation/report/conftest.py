"""The runs that reports are about: a copy of the smallest ones, of which the private one has secret noise."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from core.evaluation.report import html
from core.runs.store import Workspace
from core.spec import RunSpec


def part(template: str, macro: str, *arguments: object) -> str:
    """One macro of a template, rendered: for example `part("attacks", "memorised", rows, names)`."""
    return str(getattr(html._templates.get_template(f"{template}.html.j2").module, macro)(*arguments))


@pytest.fixture(scope="module")
def root(
    smoke_workspace: Path,
    smoke_specs: Mapping[str, RunSpec],
    mark_secret: Callable[[Path, RunSpec], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The data folder of the copy, one for each module."""
    folder = tmp_path_factory.mktemp("secret") / "data"
    shutil.copytree(smoke_workspace, folder)
    mark_secret(folder, smoke_specs["dp"])
    return folder


@pytest.fixture(scope="module")
def workspace(root: Path) -> Workspace:
    """The copy as a workspace, without the shipped runs."""
    return Workspace(root, shared=())
