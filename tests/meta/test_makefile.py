"""Who can open the app: this computer alone, unless it is asked for a class. Which targets documents name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from pages.parts.session.instructor import SHORTEST_KEY

ROOT = Path(__file__).resolve().parents[2]


def commands(*arguments: str) -> str:
    """What make would run."""
    made = ["make", "--dry-run", "--old-file=.venv/.installed", *arguments]
    asked = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "PORT")}
    return subprocess.run(made, cwd=ROOT, env=asked, check=True, capture_output=True, text=True).stdout  # noqa: S603


@pytest.mark.parametrize("arguments", [(), ("run",)])
def test_run_serves_this_computer_alone(arguments: tuple[str, ...]) -> None:
    told = commands(*arguments)
    assert "--server.address localhost --server.port 8501" in told
    assert "http://localhost:8501" in told and "this computer alone" in told


def test_class_serves_the_network_and_says_so() -> None:
    told = commands("class", "PORT=8600")
    assert "--server.address 0.0.0.0 --server.port 8600" in told
    assert "everybody on this network" in told


def test_only_a_class_has_an_instructor_and_the_key_is_in_no_command() -> None:
    asked = ["make", "--dry-run", "--print-data-base", "--old-file=.venv/.installed"]
    told = commands("class", "PHILAB_INSTRUCTOR_KEY=typed-by-hand")
    assert "$PHILAB_INSTRUCTOR_KEY" in told and "typed-by-hand" not in told, "command lines can be read by everybody"
    database = subprocess.run([*asked, "class"], cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603
    keys = re.findall(r"^class: PHILAB_INSTRUCTOR_KEY := (\S+)$", database, flags=re.MULTILINE)
    assert keys and all(re.fullmatch(r"[0-9a-f]{4}(-[0-9a-f]{4}){4}", key) for key in keys), "80 bits, to be typed"


@pytest.mark.parametrize("target", ["run", "class"])
def test_overdue_uploads_are_deleted_before_anybody_visits(target: str) -> None:
    told = commands(target)
    assert 0 < told.index("-m core delete-upload --overdue") < told.index("-m streamlit run")


@pytest.mark.parametrize("key", ["x" * (SHORTEST_KEY - 1), "x" * SHORTEST_KEY, ""])
def test_a_class_does_not_begin_with_a_key_that_is_soon_guessed(key: str) -> None:
    asked = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    asked["PHILAB_INSTRUCTOR_KEY"] = key
    made = ["make", "--old-file=.venv/.installed", "class", "PY=true"]
    done = subprocess.run(made, cwd=ROOT, env=asked, check=False, capture_output=True, text=True)  # noqa: S603
    refused = 0 < len(key) < SHORTEST_KEY
    assert (done.returncode != 0) == refused == ("at least 12 characters" in done.stdout), done.stderr


@pytest.mark.parametrize(("types", "tests"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_every_test_passes_only_with_the_types_that_are_checked_beside(tmp_path: Path, types: int, tests: int) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *mypy*) echo what mypy says; exit {types};; *pytest*) exit {tests};; esac\n'
    )
    python.chmod(0o755)
    for name in ("chromium", "chromium-headless-shell", "nginx", "openssl"):  # nothing is to be installed
        (tmp_path / name).symlink_to(python)
    asked = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    asked["PATH"] = f"{tmp_path}:{asked['PATH']}"
    made = ["make", "--old-file=.venv/.installed-dev", "test", f"PY={python}"]
    done = subprocess.run(made, cwd=ROOT, env=asked, check=False, capture_output=True, text=True)  # noqa: S603
    assert (done.returncode == 0) == (types == tests == 0), done.stderr
    assert "what mypy says" in done.stdout


def test_streamlit_alone_serves_this_computer_alone_too() -> None:
    settings = (ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8")
    assert 'address = "localhost"' in settings


def test_the_list_of_targets_is_whole_and_documents_name_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE)
    assert re.findall(r"^# make (\S+)", makefile, flags=re.MULTILINE) == targets.split()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        named = re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(named) <= set(targets.split()), path.name
