"""The ledger: append-only, whole or an error, and sums with known answers."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.runs.ledger import FIRST, Ledger, LedgerBroken, Release, Vocabulary
from core.runs.ledger_head import Head
from core.runs.promised import DELTA, for_note, for_patient, most_notes, promised, room_left, together
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting import Mechanism, group_epsilon

SMOKE = CORPUS_PRESETS["smoke"]


def mechanism(sigma: float, unit: str = "note") -> Mechanism:
    return Mechanism(unit=unit, noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=DELTA, max_grad_norm=1.0)


def classroom(sigma: float, unit: str = "note") -> Mechanism:
    """46 steps on the classroom's 2,925 notes, 256 a step."""
    return mechanism(sigma, unit).model_copy(update={"sample_rate": 256 / 2925, "steps": 46})


def release(number: int, *, seed: int | None = None, **promise) -> Release:
    kind = "vocabulary" if "vocabulary" in promise else "model"
    return Release(
        number=number, time=0.0, cohort=SMOKE.digest(), corpus=SMOKE, kind=kind, name=f"release {number}",
        reason="a test", seed=number if seed is None else seed, previous=FIRST, **promise,
    )  # fmt: skip


@pytest.fixture
def copied(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    shutil.copytree(smoke_workspace, tmp_path / "data")
    return Workspace(tmp_path / "data", shared=())


def ledger_of(folder: Path, entries: int) -> Ledger:
    """A ledger of so many vocabularies."""
    ledger = Ledger(folder / "ledger", SMOKE)
    for number in range(entries):
        ledger.release_vocabulary(f"words {number}", vocabulary(), "a test")
    return ledger


def snapshot(ledger: Ledger) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in ledger.folder.iterdir()}


def cohort(*sizes: int) -> Corpus:
    """Patients with so many notes each; nothing but whose a note is."""
    whose = [f"p{number}" for number, size in enumerate(sizes) for _ in range(size)]
    notes = pd.DataFrame({"patient_id": whose, "split": "member"})
    return Corpus(SMOKE, pd.DataFrame(), notes, pd.DataFrame())


def vocabulary(**changes) -> Vocabulary:
    return Vocabulary(**{"epsilon": 0.1, "delta": 1e-9, "words": 20, "unit": "note"} | changes)


# The list ------------------------------------------------------------------------------------------------------------


def test_a_release_holds_the_runs_own_mechanism_and_outlives_the_run(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    assert ledger.releases() == []
    entered = ledger.release_run(run, "for the\nclass  of 2026")
    assert entered.mechanism == run.privacy and entered.reason == "for the class of 2026" and entered.number == 1
    shutil.rmtree(run.folder)
    assert ledger.releases() == [entered]
    total = promised(ledger.releases(), "note", 1e-3)
    assert total.epsilon == pytest.approx(8.0, rel=2e-3) and total.accountant == "prv"


def test_a_run_of_a_shared_folder_is_entered_in_the_readers_own(smoke_workspace, smoke_specs, tmp_path):
    before = sorted(smoke_workspace.rglob("*"))
    workspace = Workspace(tmp_path / "own", shared=(smoke_workspace,))
    Ledger.of(workspace, SMOKE).release_run(workspace.run(smoke_specs["dp"].run_id), "why not")
    assert sorted(smoke_workspace.rglob("*")) == before
    assert (tmp_path / "own" / "ledger" / SMOKE.digest() / "0001.json").is_file()


def test_what_cannot_be_released_is_refused_and_leaves_nothing(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    with pytest.raises(ValueError, match="reason"):
        ledger.release_run(run, "  \n")
    with pytest.raises(ValueError, match="public base model"):
        ledger.release_run(copied.run(smoke_specs["base"].run_id), "why not")
    with pytest.raises(ValueError, match="another cohort"):
        Ledger.of(copied, CORPUS_PRESETS["classroom"]).release_run(run, "why not")
    assert not (copied.root / "ledger").exists()
    ledger.release_run(run, "once")
    with pytest.raises(ValueError, match="already, as entry 1"):
        ledger.release_run(run, "twice")
    assert len(ledger.releases()) == 1


def test_a_reason_is_words_that_can_be_read(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    for empty in ("", "  \n", "\x00\x07\u200b"):
        with pytest.raises(ValueError, match="needs a reason"):
            ledger.release_run(run, empty)
    with pytest.raises(ValueError, match="1000 letters at most, and this one 100,000"):
        ledger.release_run(run, "ä" * 100_000)
    assert ledger.releases() == []
    entered = ledger.release_run(run, "for\x00<b>Ann</b>\n🩺")
    assert entered.reason == "for <b>Ann</b> 🩺"


def test_an_entry_tells_its_own_promise():
    assert release(1).epsilon() == math.inf
    assert release(1, mechanism=mechanism(2.0)).epsilon() == mechanism(2.0).epsilon()
    assert release(1, vocabulary=vocabulary()).epsilon() == pytest.approx(20 * 0.1)


def test_entries_written_at_once_all_count(tmp_path):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: ledger.release_vocabulary(f"words {n}", vocabulary(), "at once"), range(6)))
    assert [entry.number for entry in ledger.releases()] == [1, 2, 3, 4, 5, 6]
    assert len({entry.name for entry in ledger.releases()}) == 6
    assert not list(ledger.folder.glob(".*")), "nothing half-written is left"


@pytest.mark.parametrize("harm", ["gone", "edited", "cut", "renamed"])
def test_a_harmed_ledger_is_an_error_never_a_smaller_total(tmp_path, harm):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    for number in range(3):
        ledger.release_vocabulary(f"words {number}", vocabulary(), "a test")
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
        ledger.release_vocabulary("more", vocabulary(), "a test")


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
        ledger.release_vocabulary("more", vocabulary(), "a test")
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
        ledger.release_vocabulary("the last", vocabulary(), "a test")
    monkeypatch.undo()
    assert Head.read(ledger.folder).number == entries - 1
    if then == "read":
        assert len(ledger.releases()) == entries
    else:
        ledger.release_vocabulary("more", vocabulary(), "a test")
    assert Head.read(ledger.folder).number == len(ledger.releases()) == entries + (then == "append")
    (ledger.folder / f"000{len(ledger.releases())}.json").unlink()
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()


def test_two_entries_beyond_the_head_or_one_that_does_not_fit_are_no_interruption(tmp_path):
    ledger = ledger_of(tmp_path, 1)
    early = (ledger.folder / "head").read_bytes()
    for name in ("second", "third"):
        ledger.release_vocabulary(name, vocabulary(), "a test")
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
    ledger.release_vocabulary("more", vocabulary(), "a test")
    assert [entry.headed for entry in ledger.releases()] == [False, False, True]
    (ledger.folder / "0003.json").unlink()
    with pytest.raises(LedgerBroken, match="newest"):
        ledger.releases()


def test_who_reads_while_others_append_never_meets_a_broken_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger", SMOKE)
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(ledger.release_vocabulary, f"words {n}", vocabulary(), "at once") for n in range(12)]
        seen = [len(ledger.releases())]
        while not all(writer.done() for writer in writers):
            seen.append(len(ledger.releases()))
    assert seen == sorted(seen) and len(ledger.releases()) == 12


def test_a_ledger_on_a_disk_that_is_only_read_is_read(tmp_path, monkeypatch):
    """One behind, as after a crash: nothing can be brought up, and nothing has to be."""
    ledger = ledger_of(tmp_path, 1)
    behind = (ledger.folder / "head").read_bytes()
    ledger.release_vocabulary("second", vocabulary(), "a test")
    (ledger.folder / "head").write_bytes(behind)

    def refused(head, folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Head, "replace", refused)
    assert len(ledger.releases()) == 2


# The sum -------------------------------------------------------------------------------------------------------------


def test_nothing_released_is_nothing_promised_away():
    total = promised([], "note", DELTA)
    assert (total.epsilon, total.releases, total.reasons) == (0.0, 0, ())


def test_twice_the_same_mechanism_is_twice_the_steps():
    total = promised([release(n, mechanism=mechanism(2.0)) for n in (1, 2)], "note", DELTA)
    doubled = mechanism(2.0).model_copy(update={"steps": 2})
    assert total.epsilon == doubled.epsilon() < total.added == pytest.approx(2 * mechanism(2.0).epsilon())


def test_a_run_without_privacy_makes_every_total_infinite():
    total = promised([release(1, mechanism=mechanism(2.0)), release(2)], "note", DELTA)
    assert math.isinf(total.epsilon) and total.if_independent == mechanism(2.0).epsilon()
    assert "release 2 was trained without privacy" in total.reasons[0]
    assert math.isinf(promised([release(1)], "patient", DELTA).epsilon)


def test_runs_of_one_seed_share_their_noise_and_have_no_finite_total():
    same = [release(n, seed=7, mechanism=mechanism(sigma)) for n, sigma in ((1, 2.0), (2, 3.0))]
    total = promised(same, "note", DELTA)
    assert math.isinf(total.epsilon) and "same seed (7)" in total.reasons[0]
    apart = promised([release(n, mechanism=mechanism(sigma)) for n, sigma in ((1, 2.0), (2, 3.0))], "note", DELTA)
    assert apart.reasons == () and apart.epsilon == total.if_independent


def test_units_have_totals_of_their_own():
    both = [release(1, mechanism=mechanism(2.0)), release(2, mechanism=mechanism(3.0, "patient"))]
    note, patient = promised(both, "note", DELTA), promised(both, "patient", DELTA)
    assert note.epsilon == mechanism(2.0).epsilon() and patient.epsilon == mechanism(3.0).epsilon()
    group, group_delta = group_epsilon(note.epsilon, DELTA, 3)
    assert for_patient(note, patient, 3) == pytest.approx((group + patient.epsilon, min(1, group_delta + DELTA)))
    twice, twice_delta = group_epsilon(patient.epsilon, DELTA, 2)
    assert for_note(note, patient) == pytest.approx((note.epsilon + twice, DELTA + twice_delta))
    only = promised(both[1:], "note", DELTA)
    assert for_patient(only, patient, 3) == (patient.epsilon, DELTA), "no note-level release costs nothing"


def test_both_units_releases_are_told_together_as_by_hand():
    """ε₁ = ε₂ = 7.98 at 10⁻⁵: one note has 3ε and (2 + e^ε)δ, a patient with many notes nothing."""
    both = [release(1, mechanism=classroom(0.75)), release(2, mechanism=classroom(0.75, "patient"))]
    totals = [promised(both, unit) for unit in ("note", "patient")]
    own = totals[0].epsilon
    patient, note = together(both, *totals, cohort(3, 34))
    assert (note.unit, note.notes, patient.unit, patient.notes) == ("note", None, "patient", 34)
    assert note.epsilon == pytest.approx(3 * own) == pytest.approx(23.94, abs=0.01)
    assert note.delta == pytest.approx((2 + math.exp(own)) * DELTA) == pytest.approx(0.029, abs=5e-4)
    assert note.sentence() == "For one note all of it together promises ε = 24 at δ = 0.029."
    assert patient.sentence() == "For the patient with the most notes (34) all of it together promises nothing at all."


def test_what_is_told_together_is_what_a_units_own_total_leaves_out():
    corpus = cohort(3)

    def told(*releases: Release) -> dict[str, float]:
        totals = [promised(releases, unit) for unit in ("note", "patient")]
        return {one.unit: one.epsilon for one in together(releases, *totals, corpus)}

    strong = mechanism(20.0).epsilon()
    assert told() == {} and told(release(1)) == {}, "nothing is left out: all is said"
    assert told(release(1, mechanism=mechanism(20.0))) == pytest.approx({"patient": 3 * strong})
    assert told(release(1, mechanism=mechanism(20.0, "patient"))) == pytest.approx({"note": 2 * strong})
    shared = [release(n, seed=7, mechanism=mechanism(sigma)) for n, sigma in ((1, 2.0), (2, 3.0))]
    patients = release(3, mechanism=mechanism(20.0, "patient"))
    assert told(*shared, patients) == {"note": math.inf, "patient": math.inf}, "the patients' total alone is finite"


def test_the_most_notes_of_a_patient_are_those_that_a_release_may_have_read():
    corpus = cohort(2, 70)
    runs = [release(n, mechanism=mechanism(2.0), most_notes=most) for n, most in ((1, 5), (2, 60))]
    assert [most_notes(runs[:1], corpus), most_notes(runs, corpus)] == [5, 60]
    assert most_notes([*runs, release(3, vocabulary=vocabulary())], corpus) == 70, "an entry that does not say"
    assert most_notes([release(1, mechanism=mechanism(2.0, "patient"), most_notes=60), runs[0]], corpus) == 5


def test_what_fits_beside_a_vocabulary_keeps_the_whole_total_within_the_budget():
    words = release(2, vocabulary=vocabulary(epsilon=2.0, delta=1e-10, words=3))
    spent = [release(1, mechanism=classroom(2.55)), words]
    assert promised(spent, "note").epsilon == pytest.approx(7.0, abs=0.01)
    more = room_left(spent, "note", 8.0)
    after = promised([*spent, release(3, mechanism=more)], "note").epsilon
    assert 0.99 * 8.0 < after <= 8.0 and more.delta == DELTA
    assert 0 < more.epsilon() < 2.0, "6 of the 8 are the vocabulary's"
    alone = room_left(spent[:1], "note", 8.0)
    assert promised([spent[0], release(3, mechanism=alone)], "note").epsilon == pytest.approx(8.0, rel=0.01)


def test_where_vocabularies_have_used_a_budget_up_nothing_fits():
    spent = [release(1, mechanism=classroom(2.55)), release(2, vocabulary=vocabulary(epsilon=2.0, words=3))]
    assert room_left(spent, "note", 6.0) is None and room_left(spent, "note", 6.5) is None
    other = release(2, vocabulary=vocabulary(epsilon=2.0, words=3, unit="patient"))
    assert room_left([spent[0], other], "note", 6.0) is not None, "the other unit's words are not this one's"
    for releases in (spent[1:], [spent[0], release(2)], [spent[0], release(2, vocabulary=vocabulary(delta=1e-6))]):
        with pytest.raises(ValueError, match="room for one note"):
            room_left(releases, "note", 8.0)


def test_a_vocabulary_adds_by_basic_composition():
    words = vocabulary(epsilon=0.01, delta=1e-8, words=10)
    assert words.guarantee() == pytest.approx((0.1, 1e-7))  # kε; (k−1)ε/2 is small, so kδ
    total = promised([release(1, mechanism=mechanism(2.0)), release(2, vocabulary=words)], "note", DELTA)
    left = mechanism(2.0).model_copy(update={"delta": DELTA - 1e-7})
    assert total.epsilon == pytest.approx(left.epsilon() + 0.1)
    spent = promised([release(1, vocabulary=vocabulary(delta=1e-6, words=20))], "note", DELTA)
    assert math.isinf(spent.epsilon) and "vocabularies alone" in spent.reasons[0]


def test_a_word_said_often_costs_more_delta_than_row_h1_counts():
    words = vocabulary(epsilon=1.0, delta=1e-12, words=20)
    assert words.guarantee() == pytest.approx((20.0, 1e-12 * math.exp(9.5) / 4))
    assert words.guarantee()[1] > 20 * 1e-12
    assert vocabulary(epsilon=10.0, delta=1e-6, words=100).guarantee()[1] == 1.0


def test_a_bad_delta_is_refused():
    with pytest.raises(ValueError, match="δ"):
        promised([], "note", 0.0)
