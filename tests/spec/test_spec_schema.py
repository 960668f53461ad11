"""Stored specs: what a version wrote, the next one opens, under the same name and with the same meaning."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from core.runs.run import RunBroken, read_stored_spec
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, CorpusSpec, PrivacySpec, RunSpec, Spec, TrainingSpec, parts
from core.spec.schema import MIGRATIONS, SCHEMA, SpecTooNew, SpecUnreadable, read, written

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "runs" / "stored" / "bert-bab2a7e5ad29" / "spec.json"  # written by schema 2
TODAY = next((ROOT / "tests" / "spec" / "stored").glob("*.json"))  # written by schema 3
DEMO = ROOT / "assets" / "demo" / "runs"  # some written by schema 1, which had no number
FIRST = next(path for path in sorted(DEMO.glob("distilbert-*/spec.json")) if read(path.read_text()).schema == 1)
DIGESTS = {  # of cohorts: folders and ledgers are named by them, so no version may change one
    "default": "91e3a560dafd",
    "classroom": "d916e1647f67",
    "classroom-12k": "123b506d658f",
    "classroom-48k": "fd23400d0f63",
    "classroom-audit": "fdcf468faa19",
    "study": "5a4535689126",
    "mimic-scale": "4bb0e19ebd97",
    "smoke": "d062b3a6c021",
}
SETTINGS = {
    2: "4f7c0f5e705d",
    3: "3870bd7ab5ed",
}  # schema → fingerprint of the settings and defaults that it stands for


class NextTraining(TrainingSpec):
    """A next version's: another default, a new setting with a default that earlier runs did not have."""

    max_tokens: int = 256
    dropout: float = 0.1


class NextPrivacy(PrivacySpec):
    """A next version's: a setting has another name."""

    clipping_norm: float = 1.0
    max_grad_norm: Literal[None] = Field(None, exclude=True)


class NextRun(RunSpec):
    """A next version's run."""

    training: NextTraining = NextTraining()
    privacy: NextPrivacy = NextPrivacy()


def as_before(settings: dict[str, Any]) -> dict[str, Any]:
    """The migration that the next version needs."""
    privacy = {**settings["privacy"], "clipping_norm": settings["privacy"]["max_grad_norm"]}
    del privacy["max_grad_norm"]
    return {**settings, "training": {**settings["training"], "dropout": 0.0}, "privacy": privacy}


NEXT = (*MIGRATIONS, as_before)


def test_what_is_written_today_is_read_as_it_was() -> None:
    stored = read(TODAY.read_text())
    assert (stored.schema, stored.run_id) == (SCHEMA, TODAY.stem)
    assert stored.spec.run_id == stored.run_id and stored.spec.vocabulary.epsilon == 1.0
    assert written(stored.spec) + "\n" == TODAY.read_text(), "a setting or a default changed: see SETTINGS below"


def test_shipped_runs_of_the_first_schema_keep_their_names() -> None:
    found = {path.parent.name: read(path.read_text()) for path in sorted(DEMO.glob("*/spec.json"))}
    assert all(one.run_id == one.spec.run_id == name for name, one in found.items())
    assert sum(one.schema == 1 for one in found.values()) > 10


@pytest.mark.parametrize("path", [STORED, FIRST], ids=["schema 2", "schema 1"])
def test_the_next_version_opens_it_with_the_old_meaning(path: Path) -> None:
    today, then = read(path.read_text()), read(path.read_text(), NextRun, NEXT)
    assert then.run_id == today.run_id == path.parent.name
    assert (then.spec.training.max_tokens, then.spec.training.dropout) == (192, 0.0), "not the next version's defaults"
    assert then.spec.privacy.clipping_norm == today.spec.privacy.max_grad_norm
    assert then.spec.training.learning_rate == today.spec.training.learning_rate
    assert then.spec.run_id != then.run_id, "its digest in the next version is another: the name is the stored one"


def test_a_workspace_of_the_next_version_finds_a_run_of_this_one(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace, run_id = Workspace(tmp_path / "data", shared=()), smoke_specs["dp"].run_id
    monkeypatch.setattr("core.runs.run.read_settings", partial(read, kind=NextRun, migrations=NEXT))
    monkeypatch.setattr("core.runs.store.SCHEMA", SCHEMA + 1)
    assert workspace.problems() == [] and len(workspace.runs()) == 3
    run = workspace.run(run_id)
    assert run.id == run_id != run.spec.run_id
    assert workspace.find(run.spec).id == run_id, "the same settings are not trained twice"
    other = run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"dropout": 0.1})})
    assert workspace.find(other) is None


def test_a_run_of_a_newer_version_is_told_as_such_and_nobody_says_to_delete_it(tmp_path: Path) -> None:
    folder = tmp_path / STORED.parent.name
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps({**json.loads(STORED.read_text()), "schema": SCHEMA + 1, "new": 1}))
    with pytest.raises(SpecTooNew):
        read((folder / "spec.json").read_text())
    with pytest.raises(RunBroken, match=rf"{folder.name}.*spec\.json was written by a newer version.*update") as error:
        read_stored_spec(folder)
    assert "Delete" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{ not json", "does not contain JSON"),
        ("[" * 100_000, "does not contain JSON"),
        ("[1]", "no settings"),
        ('"text"', "no settings"),
        ("{}", "settings are missing"),
        ('{"model": 3}', "settings are missing"),
        ('{"schema": true}', "not a schema number"),
        ('{"schema": 0}', "not a schema number"),
        ('{"schema": "2"}', "not a schema number"),
        ('{"schema": 1.5}', "not a schema number"),
        ('{"schema": 99}', "newer version"),
        ('{"model": {"kind": "gpt9"}}', "cannot be used \\(model.kind"),
        ('{"model": {"kind": "gpt2"}, "training": {"epochs": NaN}}', "cannot be used \\(training.epochs"),
    ],
)
def test_what_cannot_be_read_is_a_reason(text: str, says: str) -> None:
    with pytest.raises(SpecUnreadable, match=says):
        read(text)


def test_a_folder_with_the_spec_of_another_run_is_not_that_run(tmp_path: Path) -> None:
    folder = tmp_path / "bert-000000000000"
    folder.mkdir()
    shutil.copy(STORED, folder)
    with pytest.raises(RunBroken, match=f"contains the spec.json of run {STORED.parent.name}"):
        read_stored_spec(folder)


def test_digests_of_cohorts_are_what_they_were() -> None:
    found = {name: spec.digest() for name, spec in {"default": CorpusSpec(), **CORPUS_PRESETS}.items()}
    assert found == DIGESTS, "a new setting of CorpusSpec must be among its SILENT ones"


def _plain(default: object) -> str:
    return default.model_dump_json() if isinstance(default, Spec) else str(default)


def test_settings_and_their_defaults_belong_to_the_schema() -> None:
    """Whoever adds, renames or removes a setting, or changes a default, writes a migration (core.spec.schema).

    Settings among SILENT are free: they are absent from what was stored, and None means what was meant then.
    """
    kinds = {RunSpec, *(one for one in vars(parts).values() if isinstance(one, type) and issubclass(one, Spec))}
    told = {
        kind.__name__: {
            name: _plain(each.default) for name, each in kind.model_fields.items() if name not in kind.SILENT
        }
        for kind in kinds
    }
    fingerprint = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
    assert SETTINGS.get(SCHEMA) == fingerprint, (
        f"settings changed: add a migration to core.spec.schema.MIGRATIONS, then note “{fingerprint}” in SETTINGS"
    )
