"""`pip install .`: the wheel that workers install has all that a training needs, and nothing of the app."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from core.jobs.workers import fact_finder
from core.spec import RunSpec

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DATA_FILES = (".csv", ".gz", ".j2", ".css", ".json", ".toml", ".txt")
TRAIN = """
import json, os, sys
import core
from core.jobs.workers import fact_finder
from core.pipeline.training_run import execute
from core.runs.store import Workspace, data_folder
from core.spec import RunSpec
run = execute(RunSpec.model_validate_json(sys.argv[1]), Workspace("data", shared=()))
facts = fact_finder()(os.getcwd(), "none")
told = {"core": core.__file__, "code": facts["code"], "bases": facts["bases"], "run": run.id}
print(json.dumps(told | {"data": str(data_folder())}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools leaves folders beside the source."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "core", source / "core", ignore=unwanted)
    shutil.copytree(ROOT / "pages", source / "pages", ignore=unwanted)
    shutil.copytree(ROOT / "assets" / "base", source / "assets" / "base")
    (source / "assets" / "demo" / "runs").mkdir(parents=True)
    (source / "assets" / "demo" / "runs" / "spec.json").write_text("{}")
    for name in ("pyproject.toml", "setup.py", "requirements.txt"):
        shutil.copy(ROOT / name, source)
    pip("wheel", source, "--wheel-dir", out)
    (made,) = out.glob("*.whl")
    return made


def pip(command: str, *arguments: object) -> None:
    offline = ["--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
    isolation = ["--no-build-isolation"] if command == "wheel" else []
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pip", command, *map(str, arguments), *offline, *isolation], check=True
    )


def test_it_has_the_package_its_data_and_the_base_models_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        inside = {name for name in opened.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in opened.namelist() if name.endswith("METADATA"))
        needs = opened.read(metadata).decode()
    wanted = {path for path in (ROOT / "core").rglob("*") if path.suffix in (".py", *DATA_FILES)}
    bases = {path for path in (ROOT / "assets" / "base").rglob("*") if path.is_file()}
    assert inside == {str(path.relative_to(ROOT)) for path in wanted} | {
        f"core/{path.relative_to(ROOT)}" for path in bases
    }
    pinned = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    assert all(f"Requires-Dist: {line}" in needs for line in pinned)


def test_it_trains_outside_the_checkout_as_in_it(
    wheel: Path, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    site, place = tmp_path / "site", tmp_path / "place"
    place.mkdir()
    pip("install", wheel, "--target", site)
    spec = smoke_specs["dp"]
    base = smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "runs" / base, place / "data" / "runs" / base)  # its control; the cohort is built
    environment = {name: value for name, value in os.environ.items() if name != "PHILAB_DATA"}
    told = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-c", TRAIN, spec.model_dump_json()],
        cwd=place,
        env={**environment, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(told.stdout.splitlines()[-1])
    assert Path(said["core"]).is_relative_to(site) and said["data"] == str(place / "data")
    here = fact_finder()(str(ROOT), "none")
    assert here["bases"] and (said["code"], said["bases"]) == (here["code"], here["bases"]), "the wheel fits a checkout"
    weights = Path("runs", said["run"], "model", "model.safetensors")
    assert (place / "data" / weights).read_bytes() == (smoke_workspace / weights).read_bytes()
