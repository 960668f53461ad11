"""SIGKILL at fixed moments of each stage, and that the checks of `python -m core bench kills` can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.faults import kills
from bench.faults._stages import Stage
from bench.faults.kills import Found, Reference, killed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
MOMENTS = [("file", 0.15), ("file", 0.7), ("time", 0.5)]
# Of a cohort that is written in place, the files are incomplete only from the second to the fifth tenth.
TENTHS = [("file", tenth / 10) for tenth in range(1, 10)]
IN_PLACE = "cohort in place"


def whole(found: Found) -> None:
    assert (found.half_written, found.failed, found.differs, found.endings) == ([], [], [], 1)


STAGES = ("cohort", "training, attacks, publishing", "audit", "ledger", "import", "upload")
COURSE = f"""
import json, sys, traceback
from dataclasses import asdict
from pathlib import Path
from bench.faults import kills
from tests.bench.faults.small_stages import cohort_in_place, small_stages

place, smoke, told = Path(sys.argv[1]), Path(sys.argv[2]), {{}}
kills._import_program()
stages = small_stages(smoke) | {{{IN_PLACE!r}: kills.Stage({IN_PLACE!r}, cohort_in_place)}}
for at, (name, stage) in enumerate(stages.items()):
    found = kills.Found()
    try:
        known = kills.reference(stage, place / f"known-{{at}}")
        moments = {TENTHS!r} if name.startswith("cohort") else {MOMENTS!r}
        kills.killed(stage, known, place / f"store-{{at}}", moments, found)
        told[name] = asdict(found)
    except Exception:
        told[name] = traceback.format_exc()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def killed_stages(smoke_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of every stage, in a process of its own: this one has threads, which a fork does not copy.

    One process does all stages, in forks: it imports the program once, and computes nothing itself.
    """
    command = [sys.executable, "-c", COURSE, str(tmp_path_factory.mktemp("kills")), str(smoke_workspace)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told) == {*STAGES, IN_PLACE}, "every stage is judged below"
    return told


@pytest.mark.timeout(3_600)  # the first of them waits for all stages
@pytest.mark.parametrize("name", STAGES)
def test_what_was_killed_is_done_to_its_end_once_and_as_if_nothing_had_happened(
    killed_stages: dict[str, Any], name: str
) -> None:
    assert isinstance(killed_stages[name], dict), killed_stages[name]
    found = Found(**killed_stages[name])
    whole(found)
    assert found.kills >= 2


@pytest.mark.timeout(3_600)
def test_a_cohort_that_is_written_in_place_is_noticed(killed_stages: dict[str, Any]) -> None:
    """And not beside its place, and renamed: the same kills as of the cohort above, which is whole."""
    assert isinstance(killed_stages[IN_PLACE], dict), killed_stages[IN_PLACE]
    found = Found(**killed_stages[IN_PLACE])
    assert any("notes.parquet is missing" in one for one in found.half_written) and not found.failed


def test_the_moments_are_those_that_were_asked_for(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        for name in "abcd":
            (root / name).write_text(name)

    (tmp_path / "store").mkdir()
    code, _, _ = kills.child(work, tmp_path / "store", at_file=3)
    assert code == -signal.SIGKILL and sorted(os.listdir(tmp_path / "store")) == ["a", "b"]
    code, _, said = kills.child(work, tmp_path / "store", at_file=0)
    assert (code, said) == (0, "4")
    code, seconds, _ = kills.child(lambda root: signal.pause(), tmp_path / "store", after=0.05)
    assert code == -signal.SIGKILL and seconds >= 0.05


def test_what_differs_or_fails_is_found(tmp_path: Path) -> None:
    def half(root: Path) -> None:
        (root / "imported").mkdir(exist_ok=True)
        (root / "imported" / "notes.parquet").write_bytes(b"half")
        (root / "imported" / "more").write_bytes(b"")

    (tmp_path / "before").mkdir()
    known = Reference(tmp_path / "before", {"imported/notes.parquet": "another", "imported/gone": "x"}, 1.0, 3)
    found = Found()
    killed(Stage("import", half), known, tmp_path / "store", [("file", 0.9)], found)
    assert found.kills == 1 and any("half-written" in one for one in found.half_written)
    assert [one.rpartition(": ")[2] for one in found.differs] == [
        "imported/gone",
        "imported/more",
        "imported/notes.parquet",
    ]

    def failing(root: Path) -> None:
        raise ValueError("no")

    found = Found()
    killed(Stage("import", failing), known, tmp_path / "other", [], found)
    assert "ValueError: no" in found.failed[0] and not found.endings
