"""A few of the hostile inputs of `python -m core bench hostile`, and that its checks find what they look for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bench.faults import _store, hostile
from bench.faults._inputs import IMAGE, SCRIPT, WORDS, files
from core.runs.store import Workspace
from pages.parts.common import shell
from pages.parts.session import resources

pytestmark = pytest.mark.slow
FEW = {name: WORDS[name] for name in ("image", "zero byte", "SQL", "1e400") if name in WORDS}


@pytest.fixture
def served(monkeypatch, smoke_workspace: Path, tmp_path: Path) -> Path:
    data = shutil.copytree(smoke_workspace, tmp_path / "data")  # a link can build a cohort
    monkeypatch.setenv("PHILAB_DATA", str(data))
    resources.forget_process()
    return data


def whole(count: hostile.Count) -> None:
    assert count.inputs and (count.exceptions, count.markup, count.others_data) == ([], [], [])


def test_links_and_boxes(served) -> None:
    whole(hostile.links(shell.page_names(), WORDS, most_visits=1))
    whole(hostile.boxes(["playground", "glossary", "cohort"], FEW))


def test_files_and_commands(served, smoke_specs) -> None:
    every = list(files())
    whole(hostile.imports(every[::12]))
    whole(hostile.commands(served, FEW))
    whole(hostile.prompts(served, smoke_specs["plain"].run_id, FEW))
    assert len(every) > 200 and len({content for _, content in every}) > 190


def test_ids_of_another_owner(monkeypatch, tmp_path) -> None:
    root = tmp_path / "data"
    other = _store.upload_of(root, tmp_path / "made", "session-of-somebody-else")
    monkeypatch.setenv("PHILAB_DATA", str(root))
    resources.forget_process()
    found = hostile.others_ids(["playground", "cohort", "patients", "report"], other.id, other.spec.corpus.digest())
    whole(found)
    notes = Workspace(root, shared=()).corpus(other.spec.corpus).notes
    assert notes["text"].str.contains(_store.OTHERS_WORD).all(), "what was looked for is there"


def test_the_checks_find_an_exception_markup_and_anothers_data() -> None:
    def page() -> None:
        import streamlit as st

        st.html("<p><script>window.x</script></p>")
        st.markdown("Qzadasecret7261")
        raise ValueError("no")

    count = hostile.Count()
    hostile.look(AppTest.from_function(page, default_timeout=hostile.WAIT).run(), "page", count)
    assert len(count.exceptions) == len(count.markup) == len(count.others_data) == 1
    hostile.tried("page", count, lambda: 1 / 0)
    assert len(count.exceptions) == 2 and SCRIPT in WORDS.values() and IMAGE in WORDS.values()
