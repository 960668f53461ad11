"""Runs whose noise is secret: what leaves such a run, whether its noise can be drawn again, and where its key was."""

from __future__ import annotations

import base64
import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from core.cli.settings import noise_source
from core.common import versions
from core.common.errors import Cancelled
from core.common.randomness import PublicSeed
from core.models.build import load
from core.pipeline.training_run import execute
from core.runs import noise_key
from core.runs.events import read_events
from core.runs.run import PRIVACY_FILE, read_privacy, read_spec, read_trained_by
from core.runs.store import Workspace
from core.runs.tables import read_table
from core.spec import CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.events import EpochEvaluation
from core.training.gradients import clipping
from core.training.gradients.noise import add_gaussian
from core.training.sampling import Purpose
from core.training.trainer import train

pytestmark = pytest.mark.usefixtures("tiny_base_models")

Drawn = list[np.ndarray]  # the noise of each step


class _Killed(BaseException):
    """Stands in for a process that ends in the middle: no `except Exception` sees it."""


@pytest.fixture
def workspace(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """The smoke cohort and the finished control. Runs skip the evaluation after each epoch, which takes longest."""
    monkeypatch.setattr("core.pipeline.training_run.evaluator", lambda corpus, spec: lambda model: EpochEvaluation())
    shutil.copytree(smoke_workspace / "corpora", tmp_path / "corpora")
    base = smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "runs" / base, tmp_path / "runs" / base)
    return Workspace(tmp_path, shared=())


def spec_of(smoke_spec: Callable[..., RunSpec], **privacy: str) -> RunSpec:
    """A private run of a second: one note of each patient, and σ given instead of ε."""
    spec = smoke_spec(epsilon=8.0)
    asked = PrivacySpec(noise_multiplier=1.0, delta=1e-3, accountant="rdp", **privacy)
    training = spec.training.model_copy(update={"max_notes_per_patient": 1, "batch_size": 6})
    return spec.model_copy(update={"privacy": asked, "training": training})


@pytest.fixture
def public(smoke_spec: Callable[..., RunSpec]) -> RunSpec:
    return spec_of(smoke_spec)


@pytest.fixture
def secret(smoke_spec: Callable[..., RunSpec]) -> RunSpec:
    return spec_of(smoke_spec, noise_source="secret")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The noise of every step that is trained from now on."""
    kept: Drawn = []

    def recorded(values: torch.Tensor, deviation: float, rng: Any) -> None:
        before = values.clone()
        add_gaussian(values, deviation, rng)
        kept.append((values - before).numpy()[:1_000] / deviation)

    monkeypatch.setattr(clipping, "add_gaussian", recorded)
    return kept


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every key that is made from now on."""
    made: list[bytes] = []

    def new_key() -> bytes:
        made.append(np.random.default_rng([len(made), 99]).bytes(16))
        return made[-1]

    monkeypatch.setattr(noise_key, "new_key", new_key)
    return made


def trained(spec: RunSpec, workspace: Workspace, on_event: Callable[[dict[str, Any]], None] | None = None) -> Path:
    """Train, and be killed before the first attack. Returns the work folder."""

    def listen(event: dict[str, Any]) -> None:
        if on_event is not None:
            on_event(event)
        if event["event"] == "stage" and event["stage"].startswith("audit"):
            raise _Killed

    with pytest.raises(_Killed):
        execute(spec, workspace, on_event=listen)
    return workspace.work(spec.run_id)


def killed_in_the_second_epoch(spec: RunSpec, workspace: Workspace) -> None:
    def die(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == 2:
            raise _Killed

    with pytest.raises(_Killed):
        execute(spec, workspace, on_event=die)


def weights(work: Path) -> dict[str, torch.Tensor]:
    return load_file(work / "model" / "model.safetensors")


def steps(work: Path) -> list[int]:
    return [event["step"] for event in read_events(work) if event["event"] == "step"]


def rebuilt(folder: Path, step: int) -> np.ndarray:
    """The noise of a step as anyone can draw it who has read the spec and the weights that a run leaves."""
    values = torch.zeros(sum(one.numel() for one in weights(folder).values()))
    add_gaussian(values, 1.0, PublicSeed(read_spec(folder).training.seed).stream(Purpose.NOISE, step))
    return values.numpy()[:1_000]


def written_forms(key: bytes) -> list[bytes]:
    """The key as bytes and in every notation in which a program would write it."""
    numbers = [int.from_bytes(key, order) for order in ("little", "big")]
    halves = [int.from_bytes(key[start : start + 8], order) for start in (0, 8) for order in ("little", "big")]
    texts = [key.hex(), key.hex().upper(), base64.b64encode(key).decode().rstrip("=")]
    texts += [base64.urlsafe_b64encode(key).decode().rstrip("="), base64.b32encode(key).decode().rstrip("=")]
    texts += [str(number) for number in [*numbers, *halves]]
    texts += [", ".join(map(str, key)), ",".join(map(str, key))]
    return [key, key[:8], key[8:], *(text.encode() for text in texts)]


def files_with(folder: Path, forms: list[bytes]) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and any(form in path.read_bytes() for form in forms):
            found.append(path)
    return found


def test_the_noise_of_a_public_seed_can_be_drawn_again_and_a_secret_one_cannot(
    workspace: Workspace, public: RunSpec, secret: RunSpec, drawn: Drawn
) -> None:
    reproducible = trained(public, workspace)
    count = read_privacy(reproducible).steps
    assert len(drawn) == count and read_privacy(reproducible).noise_source == "public seed"
    for step in (1, count):
        assert np.abs(rebuilt(reproducible, step) - drawn[step - 1]).max() < 1e-3, "the control: this is the noise"
    drawn.clear()
    work = trained(secret, workspace)
    assert len(drawn) == count and read_privacy(work).noise_source == "secret"
    for step in (1, count):
        assert abs(np.corrcoef(rebuilt(work, step), drawn[step - 1])[0, 1]) < 0.15
    tokens = [
        read_table(folder / "tables", "history", folder.name)["tokens"].tolist() for folder in (reproducible, work)
    ]
    assert tokens[0] != tokens[1], "other samples"


def test_no_file_that_leaves_a_run_holds_the_key(
    workspace: Workspace, secret: RunSpec, keys: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    from core.cli.training import described
    from core.evaluation.report.facts import build
    from core.evaluation.report.html import render

    events: list[str] = []
    modes: set[int] = set()
    work = workspace.work(secret.run_id)

    def listen(event: dict[str, Any]) -> None:
        events.append(json.dumps(event))
        path = work / noise_key.FILE
        if event["event"] == "step":
            assert path.read_bytes() == keys[0], "the control: this is the key"
            modes.add(stat.S_IMODE(path.stat().st_mode))
        if event["event"] == "step" and event["epoch"] == 2:  # what an interrupted run leaves beside its key
            assert (work / "checkpoint").exists()
            assert files_with(work, written_forms(keys[0])) == [path]

    run = execute(secret, workspace, on_event=listen)
    (key,) = keys
    assert modes == {0o600}
    assert files_with(workspace.root, written_forms(key)) == []
    assert not list(workspace.root.rglob(f"*{noise_key.FILE}*"))
    report = build(workspace, [run])
    for text in (
        *events,
        render(report),
        report.to_json(),
        json.dumps(described(run), default=str),
        *capfd.readouterr(),
    ):
        assert not any(form in text.encode() for form in written_forms(key))
    assert '"noise_source": "secret"' in (run.folder / PRIVACY_FILE).read_text()


def test_the_search_for_a_key_finds_one(tmp_path: Path) -> None:
    key = bytes(range(100, 116))
    for number, form in enumerate(written_forms(key)):
        (tmp_path / str(number)).write_bytes(b'{"seed": ' + form + b"}")
    assert len(files_with(tmp_path, written_forms(key))) == len(written_forms(key))


def test_a_killed_run_takes_up_its_key_and_ends_as_an_uninterrupted_one(
    workspace: Workspace, secret: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = bytes(range(16))
    monkeypatch.setattr(noise_key, "new_key", lambda: key)
    work = trained(secret, workspace)
    whole, training = weights(work), read_privacy(work).training
    workspace.discard(workspace.work(secret.run_id))
    killed_in_the_second_epoch(secret, workspace)
    monkeypatch.setattr(noise_key, "new_key", lambda: pytest.fail("the key is there already"))
    work = trained(secret, workspace)
    assert steps(work).count(1) == 1, "it went on from its checkpoint"
    assert all(torch.equal(value, whole[name]) for name, value in weights(work).items())
    assert read_privacy(work).training == training is not None
    workspace.discard(work)
    monkeypatch.setattr(noise_key, "new_key", lambda: key[::-1])
    other = weights(trained(secret, workspace))
    assert not any(torch.equal(value, whole[name]) for name, value in other.items()), "the same spec, another key"
    assert read_privacy(work).training not in (training, None), "and the run says so"


def test_a_secret_run_trained_again_names_the_version_of_its_own_weights(
    workspace: Workspace, secret: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for version in ("0.0.8", "0.0.9"):
        monkeypatch.setattr(versions, "versions", lambda packages, now=version: {"PHI Leak Lab": now})
        work = trained(secret, workspace)
        found.append((read_privacy(work).training, read_trained_by(work)))
        workspace.discard(work)
    assert [by for _, by in found] == [[{"PHI Leak Lab": "0.0.8"}], [{"PHI Leak Lab": "0.0.9"}]]
    assert found[0][0] != found[1][0], "the same id, other weights"


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_without_its_key_an_interrupted_run_starts_again(workspace: Workspace, secret: RunSpec, harm: str) -> None:
    killed_in_the_second_epoch(secret, workspace)
    work = workspace.work(secret.run_id)
    assert (work / "checkpoint").exists()
    if harm == "gone":
        (work / noise_key.FILE).unlink()
    else:
        (work / noise_key.FILE).write_bytes(b"half")
    trained(secret, workspace)
    assert steps(work).count(1) == 2 and read_privacy(work).noise_source == "secret"


def test_a_cancelled_or_discarded_run_leaves_no_key(
    workspace: Workspace, secret: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    overwritten: list[bytes] = []
    destroyed = noise_key.destroy

    def destroy(work: Path) -> None:
        path = work / noise_key.FILE
        copy = work.parent / "hard link"
        if path.exists():
            copy.hardlink_to(path)
        destroyed(work)
        if copy.exists():
            overwritten.append(copy.read_bytes())
            copy.unlink()

    monkeypatch.setattr(noise_key, "destroy", destroy)
    work = workspace.work(secret.run_id)

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            seen.append((work / noise_key.FILE).exists())

    with pytest.raises(Cancelled):
        execute(secret, workspace, on_event=look, should_stop=lambda: len(seen) > 2)
    assert seen and all(seen) and not work.exists()
    assert overwritten == [bytes(16)], "its blocks were overwritten, not only unlinked"

    def fail(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError):
        execute(secret, workspace, on_event=fail)
    assert (work / noise_key.FILE).exists(), "a failed run can go on"
    workspace.discard(work)
    assert not work.exists() and len(overwritten) == 2


def test_the_key_is_gone_before_the_first_attack(workspace: Workspace, secret: RunSpec) -> None:
    work = trained(secret, workspace)
    assert (work / "model").exists() and not (work / noise_key.FILE).exists()
    (work / noise_key.FILE).write_bytes(b"k" * 16)  # as if killed between the end of training and the key's
    trained(secret, workspace)
    assert not (work / noise_key.FILE).exists()


@pytest.mark.parametrize(
    ("corpus", "epsilon", "source"),
    [
        (CorpusSpec(), 8.0, "secret"),
        (CorpusSpec(), None, None),  # without privacy there is no noise
        (CorpusSpec(imported="0" * 16), 8.0, None),  # secret anyway: the run of the same settings is the same run
    ],
)
def test_secret_noise_may_be_asked_for_of_every_run_of_a_sweep(
    corpus: CorpusSpec, epsilon: float | None, source: str | None
) -> None:
    found = noise_source(True, corpus, private=epsilon is not None)
    assert found == source
    spec = RunSpec(corpus=corpus, privacy=PrivacySpec(target_epsilon=epsilon, noise_source=found))
    assert spec.secret_noise == (epsilon is not None)


def test_training_that_asks_for_secret_noise_needs_a_key() -> None:
    lm = load(ModelSpec())
    notes = pd.DataFrame({"patient_id": ["a", "b"], "text": ["One note.", "Another note."]})
    privacy = PrivacySpec(noise_multiplier=1.0, noise_source="secret")
    with pytest.raises(ValueError, match="no secret key"):
        train(lm, notes, TrainingSpec(epochs=1, batch_size=1), privacy)
