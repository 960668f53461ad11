"""Fixtures that every folder of tests may use.

`smoke_workspace` is a data folder (`Path`) with a cohort of the `smoke` preset and three finished GPT-2 runs, made
by the real pipeline: `smoke_specs["base"]` (the public base model, the control), `["plain"]` (without privacy) and
`["dp"]` (ε = 8). Open it with `Workspace(smoke_workspace, shared=())`. Treat it as read-only: copy it
(`shutil.copytree`) where a test writes. The app finds it when `PHILAB_DATA` is set to it.

`make test` runs the tests in several processes. What takes long to make is made once for all of them (`made_once`).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two cores are shared with a browser and a worker process
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same numbers on every machine
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test reaches out

os.environ["PHILAB_SHIPPED"] = os.devnull  # pages are tested with runs that the tests make, not with the shipped ones

import functools
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from core.pipeline.training_run import execute
from core.runs.run import PRIVACY_FILE, read_privacy
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from tests.few_claims import few_claims

pytest_plugins = ["tests.running"]

# No test is about time: on two slow cores one example may take long, and the first of them imports much.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

MAIN = sys.modules["__main__"]

MadeOnce = Callable[[str, Callable[[Path], None]], Path]
SHARED: set[Path] = set()  # folders that several modules read, in this process

SMOKE_AUDIT = AuditSpec(samples_per_prompt=4, new_tokens=24, mask_draws=1, bootstrap=50)


def _smoke_spec(*, epsilon: float | None = None, epochs: int = 2, seed: int = 0) -> RunSpec:
    return RunSpec(
        corpus=CORPUS_PRESETS["smoke"],
        model=ModelSpec(size="micro"),
        privacy=PrivacySpec(target_epsilon=epsilon, delta=1e-3),
        training=TrainingSpec(epochs=epochs, batch_size=16, max_tokens=128, seed=seed),
        audit=SMOKE_AUDIT,
    )


@pytest.fixture(autouse=True)
def _own_main_module() -> None:
    """Streamlit's AppTest leaves its page as `__main__`, and a process that a later test spawns would run that page."""
    sys.modules["__main__"] = MAIN


@pytest.fixture(scope="module")
def asks_few_claims() -> Iterator[None]:
    """Runs that this module's tests make are asked about as few claims as those of `made_once`."""
    with few_claims():
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """`made_once(name, make)`: this process's copy of a folder that `make(folder)` filled in one of the processes.

    The first process that asks for `name` makes the folder, and the others wait for it. Each gets its own copy, so that
    no test sees what another process wrote. Its runs are asked about few claims (`tests.few_claims`).
    """
    own = tmp_path_factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def copy(name: str, make: Callable[[Path], None]) -> Path:
        original = common / f"{name}-original"
        done = common / f"{name}-done"
        with FileLock(common / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(original, ignore_errors=True)  # a process that failed left a part
                original.mkdir()
                with few_claims():
                    make(original)
                done.touch()
        made = shutil.copytree(original, tmp_path_factory.mktemp(name) / "data")
        SHARED.add(made)
        return made

    return copy


@pytest.fixture(autouse=True, scope="module")
def no_cluster_outlives_its_module() -> Iterator[None]:
    """A job engine and its cluster are kept until their process ends, and take 1.5 % of a core and 0.5 GB meanwhile.

    Those of a folder that several modules read stay: starting one takes seconds.
    """
    yield
    if (engines := sys.modules.get("core.jobs.engine")) is not None:
        for (_, root), engine in list(engines.Engine._engines.items()):
            if root not in SHARED:
                engine.close()


@pytest.fixture(scope="session", autouse=True)
def components_looked_for_once() -> Iterator[None]:
    """Streamlit's `AppTest` reads the metadata of every installed package for each app that is opened: 0.2 s of CPU.

    Packages do not change while tests run, so one look is enough. Streamlit is patched only where tests imported it.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "streamlit" in sys.modules:
            scanner = importlib.import_module("streamlit.components.v2.manifest_scanner")
            patch.setattr(scanner, "scan_component_manifests", functools.cache(scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="session")
def smoke_spec() -> Callable[..., RunSpec]:
    """Makes the spec of a run that takes seconds: `smoke_spec(epsilon=None, epochs=2, seed=0)`; its control exists."""
    return _smoke_spec


@pytest.fixture(scope="session")
def smoke_specs() -> dict[str, RunSpec]:
    """The specs of the runs in `smoke_workspace`: `base`, `plain` and `dp`."""
    plain = _smoke_spec()
    return {"base": plain.base_spec(), "plain": plain, "dp": _smoke_spec(epsilon=8.0)}


@pytest.fixture(scope="session")
def smoke_workspace(made_once: MadeOnce, smoke_specs: dict[str, RunSpec]) -> Path:
    """A data folder with three finished runs; see this file's docstring."""

    def make(root: Path) -> None:
        for spec in smoke_specs.values():
            execute(spec, Workspace(root, shared=()))

    return made_once("smoke", make)


@pytest.fixture(scope="session")
def mark_secret() -> Callable[[Path, RunSpec], None]:
    """Has a copied run say that its noise came from a secret key, as the ledger asks: `mark_secret(root, spec)`."""

    def mark(root: Path, spec: RunSpec) -> None:
        path = root / "runs" / spec.run_id / PRIVACY_FILE
        secret = read_privacy(path.parent).model_copy(update={"noise_source": "secret"})
        path.write_text(secret.to_json(), encoding="utf-8")

    return mark


def _leaky(root: Path, audit: AuditSpec) -> None:
    """Two runs made by the real pipeline on three patients: one without privacy that knows them by heart, and ε = 8."""
    corpus = CorpusSpec(
        patients=4,
        population=0,
        notes_per_patient=1,
        naming_rate=1.0,
        generic_rate=0.0,
        copy_forward=0.0,
        canaries=0,
        canary_patients=0,
    )
    for privacy, epochs in ((PrivacySpec(), 25), (PrivacySpec(target_epsilon=8.0, delta=1e-2), 1)):
        training = TrainingSpec(epochs=epochs, batch_size=3, learning_rate=4e-3, max_tokens=64)
        execute(RunSpec(corpus=corpus, privacy=privacy, training=training, audit=audit), Workspace(root, shared=()))


@pytest.fixture(scope="session")
def leaky_workspace(made_once: MadeOnce) -> Path:
    """A data folder whose model without privacy knows its three patients by heart, beside one trained with ε = 8.

    After `Patient:` the first goes on with a patient's full name. Read-only.
    """
    audit = AuditSpec(samples_per_prompt=1, new_tokens=16, mask_draws=1, bootstrap=10)
    return made_once("leaky", lambda root: _leaky(root, audit))


@pytest.fixture(scope="session")
def recorded_workspace(made_once: MadeOnce) -> Path:
    """The runs of `leaky_workspace` with as many recorded attempts a prompt, and as long ones, as Home shows."""
    audit = AuditSpec(samples_per_prompt=8, mask_draws=1, bootstrap=10)
    return made_once("recorded", lambda root: _leaky(root, audit))
