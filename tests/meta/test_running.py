"""Which tests `make check` runs: a new test is among them unless a rule says otherwise. What all tests share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from tests.meta.test_makefile import commands
from tests.pages.visit import WAIT

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

@pytest.fixture
def made_once(): ...

@pytest.fixture
def trained(made_once): ...

@pytest.mark.slow
def test_marked(): ...

@pytest.mark.browser
def test_in_a_browser(): ...

def test_of_a_trained_run(trained): ...

def test_without_a_mark(tmp_path): ...
"""


TIMED = """
import pytest

def seconds(request):
    marker = request.node.get_closest_marker("timeout")
    return marker and marker.args[0]

def test_quick(request):
    assert seconds(request) is None

@pytest.mark.slow
def test_slow(request):
    assert seconds(request) == 1_800

@pytest.mark.slow
@pytest.mark.timeout(5)
def test_own(request):
    assert seconds(request) == 5
"""


def test_a_test_is_quick_unless_it_is_marked_or_needs_a_browser_or_a_trained_run(tmp_path: Path) -> None:
    path = tmp_path / "test_new.py"
    path.write_text(TESTS, encoding="utf-8")
    asked = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.running", "-p", "no:cacheprovider", "--collect-only"]
    command = [sys.executable, "-m", "pytest", *asked, "-m", "not slow", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    found = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert found == ["test_without_a_mark"], done.stdout + done.stderr


def test_a_slow_test_has_more_time_than_others_unless_it_names_its_own(tmp_path: Path) -> None:
    path = tmp_path / "test_new.py"
    path.write_text(TIMED, encoding="utf-8")
    asked = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.running", "-p", "no:cacheprovider"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pytest", *asked, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_leaves_out_the_slow_tests_and_nothing_else_does() -> None:
    assert '-m "not slow"' in commands("check")
    assert "not slow" not in commands("test") and "not slow" not in commands("coverage")


def test_two_apps_look_for_installed_components_at_most_once() -> None:
    def page() -> None:
        import streamlit as st

        st.write("a page")

    for _ in range(2):
        assert AppTest.from_function(page, default_timeout=WAIT).run().markdown[0].value == "a page"
    assert manifest_scanner.scan_component_manifests.cache_info().misses == 1
    assert manifest_scanner.scan_component_manifests.cache_info().hits >= 1


@pytest.mark.parametrize("visit", ("first", "second"))
def test_no_test_finds_the_page_of_an_earlier_one_as_main(visit: str) -> None:
    assert getattr(sys.modules["__main__"], "page", None) is None, visit

    def page() -> None:
        pass

    AppTest.from_function(page, default_timeout=WAIT).run()
    assert sys.modules["__main__"].page is not None
