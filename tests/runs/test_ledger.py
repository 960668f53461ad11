"""The ledger: append-only, whole or an error, and sums with known answers."""

from __future__ import annotations

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.runs.ledger import FIRST, Ledger, LedgerBroken, Release, Vocabulary
from core.runs.promised import for_note, for_patient, promised
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting import Mechanism, group_epsilon

SMOKE = CORPUS_PRESETS["smoke"]
DELTA = 1e-5


def mechanism(sigma: float, unit: str = "note") -> Mechanism:
    return Mechanism(unit=unit, noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=DELTA, max_grad_norm=1.0)


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
