"""Poisson samples of whole units, and shuffled epochs without padding waste."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.common.randomness import PublicSeed
from core.training.sampling import Purpose, Units, physical_batches, pieces, poisson_batches, shuffled_batches

NOTE_OF_SAMPLE = np.array([0, 0, 1, 2, 3, 3, 3, 5])  # note 4 has no sample: it is a unit all the same
PATIENT_OF_NOTE = np.array(["b", "a", "b", "c", "a", "c"], dtype=object)


def test_units_hold_the_samples_of_a_note_or_of_a_patient() -> None:
    notes = Units.build("note", NOTE_OF_SAMPLE, PATIENT_OF_NOTE)
    assert [notes.of(unit).tolist() for unit in range(len(notes))] == [[0, 1], [2], [3], [4, 5, 6], [], [7]]
    patients = Units.build("patient", NOTE_OF_SAMPLE, PATIENT_OF_NOTE)
    assert [patients.of(unit).tolist() for unit in range(len(patients))] == [[2], [0, 1, 3], [4, 5, 6, 7]]


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    rate=st.floats(0.01, 1.0),
    physical=st.integers(1, 9),
    seed=st.integers(0, 1000),
)
def test_every_sampled_unit_is_whole_in_one_physical_batch(sizes, rate, physical, seed) -> None:
    units = Units(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))
    lengths = np.random.default_rng(seed).integers(3, 90, sum(sizes))
    batches = poisson_batches(units, lengths, rate, physical, PublicSeed(seed).stream(Purpose.SAMPLE, 1))
    chosen = np.flatnonzero(PublicSeed(seed).stream(Purpose.SAMPLE, 1).random(len(units)) < rate)
    seen: list[int] = []
    for rows, names in batches:
        assert len(rows) == len(names) > 0
        assert len(rows) <= physical or len(set(names)) == 1
        for unit in set(names.tolist()):
            assert sorted(rows[names == unit]) == sorted(units.of(unit))
            seen.append(unit)
    assert sorted(seen) == [unit for unit in chosen if sizes[unit]]  # each once


def test_a_poisson_sample_takes_each_unit_by_its_own_coin() -> None:
    units = Units(np.arange(50), np.arange(51))
    lengths = np.full(50, 10)
    drawn = np.zeros((800, 50))
    for step in range(800):
        for rows, _ in poisson_batches(units, lengths, 0.3, 64, PublicSeed(0).stream(Purpose.SAMPLE, step)):
            drawn[step, rows] = 1
    assert drawn.mean() == pytest.approx(0.3, abs=0.01)
    assert drawn.sum(1).var() == pytest.approx(50 * 0.3 * 0.7, rel=0.2)  # a batch of fixed size would have none
    assert np.abs(drawn.mean(0) - 0.3).max() < 0.08


def test_length_sorting_leaves_next_to_no_padding() -> None:
    lengths = np.random.default_rng(0).integers(5, 190, 3_000)
    batches = shuffled_batches(lengths, 32, PublicSeed(0).stream(Purpose.SHUFFLE, 1))
    assert sorted(np.concatenate(batches)) == list(range(3_000))
    padded = sum(lengths[rows].max() * len(rows) for rows in batches)
    assert padded < 1.05 * lengths.sum()
    units = Units(np.arange(3_000), np.arange(3_001))
    sampled = [rows for rows, _ in poisson_batches(units, lengths, 0.3, 64, PublicSeed(0).stream(Purpose.SAMPLE, 1))]
    assert sum(lengths[rows].max() * len(rows) for rows in sampled) < 1.08 * sum(
        lengths[rows].sum() for rows in sampled
    )


def test_epochs_differ_and_streams_are_their_own() -> None:
    lengths = np.full(100, 10)
    first, second = (
        np.concatenate(shuffled_batches(lengths, 10, PublicSeed(0).stream(Purpose.SHUFFLE, e))) for e in (1, 2)
    )
    assert not np.array_equal(first, second)
    draws = {
        PublicSeed(seed).stream(purpose, step).random() for seed in range(3) for purpose in Purpose for step in range(3)
    }
    assert len(draws) == 3 * len(Purpose) * 3


def test_physical_batches_cut_without_loss() -> None:
    assert [piece.tolist() for piece in physical_batches(np.arange(5), 2)] == [[0, 1], [2, 3], [4]]


def test_pieces_save_a_patients_padding_and_lose_nobody() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 190, 64)
    units = np.sort(rng.integers(0, 8, 64))
    cut = pieces(np.arange(64), units, lengths)
    assert sorted(np.concatenate([rows for rows, _ in cut])) == list(range(64))
    assert all((units[rows] == names).all() and len(rows) >= 1 for rows, names in cut)
    padded = sum(lengths[rows].max() * len(rows) for rows, _ in cut)
    assert padded < 1.15 * lengths.sum() < 1.7 * lengths.sum() < lengths.max() * 64
    even = np.full(64, 50)
    assert len(pieces(np.arange(64), units, even)) == 1


def test_every_purpose_has_a_stream_of_its_own():

    assert len(Purpose) == len(Purpose.__members__) == 4
