"""An audit's folder is read again when one of its files changes, and not before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from core.runs import audits
from core.runs.audits import Outcome, StoredAudit

RUN = "gpt2-0123456789ab"


@pytest.fixture
def stored(tmp_path: Path) -> StoredAudit:
    audit = StoredAudit(RUN, tmp_path / "audits" / RUN, lenient=True)
    for attack in ("loss", "min-k++"):
        outcome = Outcome(attack, "done", 1.0, "", ("scores", "membership"), 1, 10.0)
        audit.record(outcome, {name: pd.DataFrame({"value": [1.0]}) for name in outcome.tables})
    return audit


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The tables that are looked at, in order."""
    at: list[Path] = []
    look = audits.table_problem

    def counted(path: Path) -> str | None:
        at.append(path)
        return look(path)

    monkeypatch.setattr(audits, "table_problem", counted)
    return at


def test_an_audit_that_did_not_change_is_not_read_again(stored, looked) -> None:
    audits.forget(stored.folder.parent)
    first = stored.outcomes()
    assert len(looked) == 4 and {one.state for one in first.values()} == {"done"}
    assert stored.outcomes() == first and stored.problems() == [] and len(looked) == 4
    audits.forget(stored.folder.parent)
    assert stored.outcomes() == first and len(looked) == 8


def test_a_table_that_is_damaged_removed_or_mended_is_noticed_at_once(stored) -> None:
    table = stored.folder / "tables" / "scores" / "loss.parquet"
    whole = table.read_bytes()
    assert stored.outcomes()["loss"].state == "done" and not stored.problems()
    table.write_bytes(whole[:-5])
    assert stored.outcomes()["loss"].state == "failed"
    assert [path for path, _ in stored.problems()] == [table]
    table.unlink()
    assert stored.problems() == [(table, "is missing")] and stored.outcomes()["min-k++"].state == "done"
    table.write_bytes(whole)
    os.utime(table, ns=(1, 1))
    assert stored.outcomes()["loss"].state == "done" and not stored.problems()


def test_another_attack_and_a_damaged_list_are_noticed_at_once(stored) -> None:
    assert list(stored.outcomes()) == ["loss", "min-k++"]
    stored.record(Outcome("zlib", "not possible", 0.0, "no notes", (), 1, 20.0), {})
    assert list(stored.outcomes()) == ["loss", "min-k++", "zlib"]
    for damaged in ("[{", "[" * 100_000):
        (stored.folder / audits.ATTACKS_FILE).write_text(damaged)
        assert stored.outcomes() == {} and stored.problems() == [(stored.folder / audits.ATTACKS_FILE, "is damaged")]
    (stored.folder / audits.ATTACKS_FILE).unlink()
    assert stored.outcomes() == {} and stored.problems() == []


def test_what_a_caller_gets_is_not_what_is_remembered(stored) -> None:
    stored.outcomes().clear()
    stored.problems().append((stored.folder, "is damaged"))
    assert list(stored.outcomes()) == ["loss", "min-k++"] and stored.problems() == []


def test_results_of_another_training_of_the_run_are_not_its_own(stored) -> None:
    """A run with secret noise that is trained again has its id and other weights."""
    before = (stored.folder / audits.ATTACKS_FILE).read_text()
    assert "training" not in before, "as older versions wrote it"
    first, second = (replace(stored, training=name) for name in ("a" * 16, "b" * 16))
    assert replace(stored, training=None).outcomes() == stored.outcomes() and first.outcomes() == {}
    first.record(Outcome("loss", "done", 1.0, "", ("scores",), 1, 30.0), {"scores": pd.DataFrame({"value": [2.0]})})
    assert list(first.outcomes()) == ["loss"] and first.table("scores")["value"].tolist() == [2.0]
    assert second.outcomes() == {} and second.table("scores").empty and second.files("scores") == {}
    assert second.table_of("loss", "scores") is None and stored.outcomes()["loss"].training == "a" * 16


def test_a_shipped_result_of_an_attack_that_is_not_possible_now_is_hidden_everywhere(stored, tmp_path) -> None:
    """Newer code may find it so. It was in no table of all attacks, and still in that of the attack and in queries."""
    own = StoredAudit(RUN, tmp_path / "own" / "audits" / RUN, shared=(stored.folder,))
    own.record(Outcome("loss", "not possible", 0.0, "every patient has every condition", (), 2, 20.0), {})
    assert own.outcomes()["loss"].state == "not possible" and len(own.table("scores")) == 1
    assert own.table_of("loss", "scores") is None and list(own.files("scores")) == ["min-k++"]
    own.record(Outcome("loss", "failed", 0.0, "no memory", (), 2, 30.0), {})
    assert own.outcomes()["loss"].state == "done" and own.table_of("loss", "scores") is not None
