"""Fixtures that every folder of tests may use.

`smoke_workspace` is a data folder (`Path`) with a cohort of the `smoke` preset and three finished GPT-2 runs, made
by the real pipeline once per session: `smoke_specs["base"]` (the public base model, the control), `["plain"]` (without
privacy) and `["dp"]` (ε = 8). Open it with `Workspace(smoke_workspace, shared=())`. Treat it as read-only: copy it
(`shutil.copytree`) where a test writes. The app finds it when `PHILAB_DATA` is set to it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two cores are shared with a browser and a worker process
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test reaches out

from collections.abc import Callable
from pathlib import Path

import pytest

from core.pipeline import execute
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, PrivacySpec, RunSpec, TrainingSpec

SMOKE_AUDIT = AuditSpec(samples_per_prompt=4, new_tokens=24, mask_draws=1, bootstrap=50)


def _smoke_spec(*, epsilon: float | None = None, epochs: int = 2, seed: int = 0) -> RunSpec:
    return RunSpec(
        corpus=CORPUS_PRESETS["smoke"],
        privacy=PrivacySpec(target_epsilon=epsilon, delta=1e-3),
        training=TrainingSpec(epochs=epochs, batch_size=16, max_tokens=128, seed=seed),
        audit=SMOKE_AUDIT,
    )


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
def smoke_workspace(tmp_path_factory: pytest.TempPathFactory, smoke_specs: dict[str, RunSpec]) -> Path:
    """A data folder with three finished runs; see this file's docstring."""
    root = tmp_path_factory.mktemp("smoke") / "data"
    workspace = Workspace(root, shared=())
    for spec in smoke_specs.values():
        execute(spec, workspace)
    return root
