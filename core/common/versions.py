"""The versions of this program and of the packages that its numbers depend on, as they are installed here."""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from core.common.program import INSTALLED, PROGRAM

NAME = "PHI Leak Lab"
PACKAGES = ("torch", "transformers", "opacus", "numpy", "pandas", "scipy", "duckdb", "streamlit")
OF_TRAINING = ("torch", "transformers", "opacus", "numpy", "scipy")  # those that weights and their ε depend on
ACCELERATOR = "accelerator"  # the key of a GPU's name among versions
UNRECORDED: Mapping[str, str] = {}  # in the place of versions that were not written down


@cache
def program_version() -> str:
    """The version of this program."""
    if INSTALLED:
        return version("phi-leak-lab")
    return str(tomllib.loads((PROGRAM / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The program, Python, the platform and these packages by name; packages that are not installed are left out."""
    found = {NAME: program_version(), "Python": platform.python_version(), "platform": sys.platform}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def with_these(before: Sequence[Mapping[str, str]], accelerator: str | None = None) -> list[Mapping[str, str]]:
    """The versions that made something in turn, with those of a training here and now at the end, unless they are.

    `accelerator` is the name of the GPU of the training, which draws other noise for a seed than a CPU; None: no GPU.
    """
    now = versions(OF_TRAINING) | ({} if accelerator is None else {ACCELERATOR: accelerator})
    return [*before] if before and before[-1] == now else [*before, now]


def versions_text(found: Mapping[str, str]) -> str:
    """Versions in one line: `PHI Leak Lab 0.1.0, Python 3.12.3, linux, torch 2.9.1`."""
    return ", ".join(
        number if name in ("platform", ACCELERATOR) else f"{name} {number}" for name, number in found.items()
    )
