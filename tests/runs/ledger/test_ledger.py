"""The ledger: append-only, and whole or an error."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from core.runs.ledger.entries import FIRST, Ledger, LedgerBroken, LedgerChanged, is_entered
from core.runs.ledger.head import Head
from core.runs.ledger.totals import promised
from core.runs.run import PRIVACY_FILE
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting.composition import composed_epsilon
from tests.runs.released import SMOKE, mechanism, release, vocabulary


@pytest.fixture
def copied(smoke_workspace: Path, smoke_specs, mark_secret, tmp_path: Path) -> Workspace:
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    return Workspace(tmp_path / "data", shared=())


def ledger_of(folder: Path, entries: int) -> Ledger:
    """A ledger of so many vocabularies."""
    ledger = Ledger(folder / "ledger", SMOKE)
    for number in range(entries):
        ledger.enter(ledger.draft_vocabulary(f"words {number}", vocabulary(), "a test"))
    return ledger


def appended(ledger: Ledger, name: str) -> None:
    """Enter a vocabulary while others append: a draft that came too late is made again."""
    while True:
        with suppress(LedgerChanged):
            ledger.enter(ledger.draft_vocabulary(name, vocabulary(), "at once"))
            return


def snapshot(ledger: Ledger) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in ledger.folder.iterdir()}


# The list ------------------------------------------------------------------------------------------------------------


def test_the_ten_thousandth_entry_comes_after_those_with_four_digits(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    ledger.folder.mkdir(parents=True)
    for number in (10000, 9999, 2, 1001):
        (ledger.folder / f"{number:04d}.json").touch()
    assert [path.name for path in ledger._files()] == ["0002.json", "1001.json", "9999.json", "10000.json"]


def test_a_release_holds_the_runs_own_mechanism_and_outlives_the_run(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    assert ledger.releases() == []
    entered = ledger.enter(ledger.draft_run(run, "for the\nclass  of 2026"))
    assert entered.mechanism == run.privacy and entered.reason == "for the class of 2026" and entered.number == 1
    shutil.rmtree(run.folder)
    assert ledger.releases() == [entered]
    total = promised(ledger.releases(), "note", 1e-3)
    assert total.epsilon == pytest.approx(8.0, rel=2e-3) and total.accountant == "prv"


def test_a_run_of_a_shared_folder_is_entered_in_the_readers_own(copied, smoke_specs, tmp_path):
    before = sorted(copied.root.rglob("*"))
    workspace = Workspace(tmp_path / "own", shared=(copied.root,))
    ledger = Ledger.of(workspace, SMOKE)
    ledger.enter(ledger.draft_run(workspace.run(smoke_specs["dp"].run_id), "why not"))
    assert sorted(copied.root.rglob("*")) == before
    assert (tmp_path / "own" / "ledger" / SMOKE.digest() / "0001.json").is_file()


def test_what_cannot_be_released_is_refused_and_leaves_nothing(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    with pytest.raises(ValueError, match="reason"):
        ledger.enter(ledger.draft_run(run, "  \n"))
    with pytest.raises(ValueError, match="public base model"):
        ledger.enter(ledger.draft_run(copied.run(smoke_specs["base"].run_id), "why not"))
    with pytest.raises(ValueError, match="another cohort"):
        Ledger.of(copied, CORPUS_PRESETS["classroom"]).draft_run(run, "why not")
    assert not (copied.root / "ledger").exists()
    ledger.enter(ledger.draft_run(run, "once"))
    with pytest.raises(ValueError, match="already, as entry 1"):
        ledger.enter(ledger.draft_run(run, "twice"))
    assert len(ledger.releases()) == 1


def trained_as(run, training: str | None, finished: float | None = None):
    """The run as if it had been trained in another training of the same id."""
    path = run.folder / PRIVACY_FILE
    path.write_text(run.privacy.model_copy(update={"training": training}).to_json(), encoding="utf-8")
    return run if finished is None else replace(run, status=run.status.model_copy(update={"finished": finished}))


def test_a_run_trained_again_with_other_noise_is_another_release(copied, smoke_specs):
    """Two models of one id, both given away: their privacy losses compose."""
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    for number, training in enumerate(("a" * 16, "b" * 16), start=1):
        ledger.enter(ledger.draft_run(trained_as(run, training), "to a partner"))
        with pytest.raises(ValueError, match=f"already, as entry {number}"):
            ledger.draft_run(run, "the same model again")
        assert is_entered(run, ledger.releases())
    found = promised(ledger.releases(), "note", 1e-3).epsilon
    assert found == composed_epsilon([run.privacy, run.privacy], 1e-3)[0] > 1.2 * run.privacy.epsilon()
    assert not is_entered(trained_as(run, "c" * 16), ledger.releases())


def test_a_draft_of_a_run_that_was_trained_again_is_refused(copied, smoke_specs):
    """Its entry would be about a model that is gone, and the one that is given away would count as not released."""
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    draft = ledger.draft_run(trained_as(run, "a" * 16), "to a partner")
    trained_as(run, "b" * 16)
    with pytest.raises(LedgerChanged, match="was trained again"):
        ledger.enter(draft)
    assert ledger.releases() == []
    first = ledger.enter(ledger.draft_run(run, "to a partner"))
    trained_as(run, "c" * 16)
    with pytest.raises(LedgerChanged, match="got another entry"):
        ledger.enter(draft)
    second = ledger.enter(ledger.draft_run(run, "to a partner"))
    assert [one.mechanism.training[0] for one in (first, second)] == ["b", "c"], "each model is a release of its own"
    gone = ledger.draft_run(trained_as(run, "d" * 16), "to a partner")
    shutil.rmtree(run.folder)
    assert ledger.enter(gone).number == 3, "a model that was given away stays released when its files are deleted"


def test_of_entries_that_do_not_say_which_training_they_are_of_the_time_tells(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    entered = ledger.enter(ledger.draft_run(run, "as an older version did"))
    assert "training" not in json.loads((ledger.folder / "0001.json").read_bytes())["mechanism"]
    with pytest.raises(ValueError, match="already, as entry 1"):
        ledger.draft_run(trained_as(run, None, entered.time - 1), "the same model again")
    for later in (trained_as(run, None, entered.time + 1), trained_as(run, "a" * 16, entered.time - 1)):
        assert ledger.draft_run(later, "trained again").number == 2


def test_a_reason_is_words_that_can_be_read(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    for empty in ("", "  \n", "\x00\x07\u200b"):
        with pytest.raises(ValueError, match="needs a reason"):
            ledger.enter(ledger.draft_run(run, empty))
    with pytest.raises(ValueError, match="at most 1,000 characters, not 100,000"):
        ledger.enter(ledger.draft_run(run, "ä" * 100_000))
    assert ledger.releases() == []
    entered = ledger.enter(ledger.draft_run(run, "for\x00<b>Ann</b>\n🩺"))
    assert entered.reason == "for <b>Ann</b> 🩺"


def test_a_private_run_with_a_public_seed_is_refused(smoke_workspace, smoke_specs, tmp_path):
    """Also where an older version made it, whose privacy.json does not say where the noise came from."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    ledger, run = Ledger.of(workspace, SMOKE), workspace.run(smoke_specs["dp"].run_id)
    with pytest.raises(ValueError, match="public seed.*Its ε is shown, not promised.*--secret-noise"):
        ledger.draft_run(run, "why not")
    path = run.folder / "privacy.json"
    told = json.loads(path.read_text())
    assert told.pop("noise_source") == "public seed"
    path.write_text(json.dumps(told))
    assert workspace.run(run.id).privacy == run.privacy
    with pytest.raises(ValueError, match="public seed"):
        ledger.draft_run(workspace.run(run.id), "why not")
    assert not (workspace.root / "ledger").exists()


def test_a_draft_writes_nothing_and_is_entered_only_into_the_ledger_it_was_made_from(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    draft = ledger.draft_run(run, "for a class")
    assert not ledger.folder.exists() and ledger.releases() == [] and draft.seed is None
    ledger.enter(ledger.draft_vocabulary("words", vocabulary(), "meanwhile"))
    before = snapshot(ledger)
    with pytest.raises(LedgerChanged, match="another entry after"):
        ledger.enter(draft)
    assert snapshot(ledger) == before
    entered = ledger.enter(ledger.draft_run(run, "for a class"))
    with pytest.raises(LedgerChanged):
        ledger.enter(entered)
    assert [one.name for one in ledger.releases()] == ["words", run.id]


def test_an_entry_tells_its_own_promise():
    assert release(1).epsilon() == math.inf
    assert release(1, mechanism=mechanism(2.0)).epsilon() == mechanism(2.0).epsilon()
    assert release(1, vocabulary=vocabulary()).epsilon() == pytest.approx(20 * 0.1)


def test_entries_written_at_once_all_count(tmp_path):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: appended(ledger, f"words {n}"), range(6)))
    assert [entry.number for entry in ledger.releases()] == [1, 2, 3, 4, 5, 6]
    assert len({entry.name for entry in ledger.releases()}) == 6
    assert not list(ledger.folder.glob(".*")), "nothing half-written is left"


@pytest.mark.parametrize("harm", ["gone", "edited", "cut", "renamed"])
def test_a_harmed_ledger_is_an_error_never_a_smaller_total(tmp_path, harm):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    for number in range(3):
        ledger.enter(ledger.draft_vocabulary(f"words {number}", vocabulary(), "a test"))
    second = ledger.folder / "0002.json"
    text = second.read_text()
    if harm == "gone":
        second.unlink()
    elif harm == "edited":
        second.write_text(json.dumps({**json.loads(text), "reason": "another"}))
    elif harm == "cut":
        second.write_text(text[:50])
    else:
        second.rename(ledger.folder / "0007.json")
    with pytest.raises(LedgerBroken, match="ledger"):
        ledger.releases()
    with pytest.raises(LedgerBroken):
        ledger.enter(ledger.draft_vocabulary("more", vocabulary(), "a test"))


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("harm", ["gone", "edited"])
def test_the_newest_entry_is_covered_too(tmp_path, number, harm):
    ledger = ledger_of(tmp_path, number)
    newest = ledger.folder / f"000{number}.json"
    if harm == "gone":
        newest.unlink()
    else:
        smaller = {**json.loads(newest.read_text()), "vocabulary": vocabulary(epsilon=0.001).model_dump()}
        newest.write_text(json.dumps(smaller))
    before = snapshot(ledger)
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.enter(ledger.draft_vocabulary("more", vocabulary(), "a test"))
    assert snapshot(ledger) == before


@pytest.mark.parametrize("head", [None, "{", "\xff", '{"number": 2}'])
def test_a_head_that_is_gone_or_damaged_is_an_error(tmp_path, head):
    ledger = ledger_of(tmp_path, 2)
    if head is None:
        (ledger.folder / "head").unlink()
        (ledger.folder / "0002.json").unlink()
    else:
        (ledger.folder / "head").write_bytes(head.encode("latin-1"))
    with pytest.raises(LedgerBroken, match="head"):
        ledger.releases()


@pytest.mark.parametrize("entries", [1, 3])
@pytest.mark.parametrize("then", ["read", "append"])
def test_an_append_that_died_between_its_two_writes_counts(tmp_path, monkeypatch, entries, then):
    """The entry is linked and the head still speaks of the one before: the next who comes brings it up."""
    ledger = ledger_of(tmp_path, entries - 1)
    replaced = Head.replace

    def dies(head, folder):
        if head.number == entries:
            raise KeyboardInterrupt
        replaced(head, folder)

    monkeypatch.setattr(Head, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        ledger.enter(ledger.draft_vocabulary("the last", vocabulary(), "a test"))
    monkeypatch.undo()
    assert Head.read(ledger.folder).number == entries - 1
    if then == "read":
        assert len(ledger.releases()) == entries
    else:
        ledger.enter(ledger.draft_vocabulary("more", vocabulary(), "a test"))
    assert Head.read(ledger.folder).number == len(ledger.releases()) == entries + (then == "append")
    (ledger.folder / f"000{len(ledger.releases())}.json").unlink()
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()


def test_two_entries_beyond_the_head_or_one_that_does_not_fit_are_no_interruption(tmp_path):
    ledger = ledger_of(tmp_path, 1)
    early = (ledger.folder / "head").read_bytes()
    for name in ("second", "third"):
        ledger.enter(ledger.draft_vocabulary(name, vocabulary(), "a test"))
    (ledger.folder / "head").write_bytes(early)
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()
    (ledger.folder / "0003.json").unlink()
    second = ledger.folder / "0002.json"
    second.write_text(json.dumps({**json.loads(second.read_text()), "previous": "0" * 64}))
    with pytest.raises(LedgerBroken, match="changed"):
        ledger.releases()


def test_a_ledger_from_before_heads_is_read_and_gets_one_with_its_next_entry(tmp_path):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    ledger.folder.mkdir()
    previous = FIRST
    for number in (1, 2):
        kept = release(number, vocabulary=vocabulary()).model_copy(update={"previous": previous})
        text = kept.model_dump_json(exclude={"headed", "most_notes"}, indent=1)
        (ledger.folder / f"000{number}.json").write_text(text)
        previous = hashlib.sha256(text.encode()).hexdigest()
    assert [entry.number for entry in ledger.releases()] == [1, 2] and not (ledger.folder / "head").exists()
    ledger.enter(ledger.draft_vocabulary("more", vocabulary(), "a test"))
    assert [entry.headed for entry in ledger.releases()] == [False, False, True]
    (ledger.folder / "0003.json").unlink()
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()


def test_who_reads_while_others_append_never_meets_a_broken_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(appended, ledger, f"words {n}") for n in range(12)]
        seen = [len(ledger.releases())]
        while not all(writer.done() for writer in writers):
            seen.append(len(ledger.releases()))
    assert seen == sorted(seen) and len(ledger.releases()) == 12


def test_a_ledger_on_a_disk_that_is_only_read_is_read(tmp_path, monkeypatch):
    """One behind, as after a crash: nothing can be brought up, and nothing has to be."""
    ledger = ledger_of(tmp_path, 1)
    behind = (ledger.folder / "head").read_bytes()
    ledger.enter(ledger.draft_vocabulary("second", vocabulary(), "a test"))
    (ledger.folder / "head").write_bytes(behind)

    def refused(head, folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Head, "replace", refused)
    assert len(ledger.releases()) == 2
