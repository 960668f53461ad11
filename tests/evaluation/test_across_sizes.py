"""Figures that compare hospitals of any size: known answers, and the same figures from a run with figures only."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.demo.export import copy_run
from core.evaluation.across_sizes import bits_per_character, patient_auc, texts_with_name
from core.evaluation.summary import RunTables, scale_to_pool
from core.evaluation.sweep.limit_measures import measures
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, RunSpec

AUDIT = AuditSpec(bootstrap=50)


def imagined() -> RunTables:
    """Three members and two held-out patients; nats and characters are small whole numbers."""
    people = ["m1", "m2", "m3", "h1", "h2"]
    splits = ["member"] * 3 + ["heldout"] * 2
    notes = [("m1", 5), ("m2", 5), ("m3", 5), ("h1", 10), ("h1", 30), ("h2", 20)]
    frame = pd.DataFrame(notes, columns=["patient_id", "tokens"]).assign(
        note_id=[f"n{number}" for number in range(len(notes))], attack="loss", admission_id="a", note_type="x"
    )
    frame["split"] = frame["patient_id"].map(dict(zip(people, splits, strict=True)))
    frame["member"] = frame["split"] == "member"
    frame["score"] = [-1.0, -1.0, -3.5, -math.log(2), -2 * math.log(2), -3 * math.log(2)]
    texts = frame["tokens"].map(lambda tokens: "x" * (2 * tokens))
    corpus = Corpus(
        CorpusSpec(patients=5),
        pd.DataFrame({"patient_id": people, "split": splits}),
        frame[["note_id", "patient_id", "split"]].assign(text=texts),
        pd.DataFrame(),
    )
    generations = pd.DataFrame({"generation_id": range(10), "text": ""})
    hits = pd.DataFrame(
        [
            (0, "full_name", "member", "value"),
            (0, "full_name", "member", "value"),  # the same text again
            (1, "full_name", "member", "value"),
            (2, "full_name", "member", "old"),  # the loose rule does not count
            (3, "ssn", "member", "value"),  # another field
            (4, "full_name", "heldout", "value"),
        ],
        columns=["generation_id", "field", "split", "rule"],
    )
    return RunTables(frame, generations, hits, pd.DataFrame(), corpus, AUDIT, pd.DataFrame())


def test_bits_per_character_are_the_code_length_of_held_out_notes():
    (row,) = bits_per_character(imagined())
    bits, characters, tokens = 10 * 1 + 30 * 2 + 20 * 3, 2 * (10 + 30 + 20), 10 + 30 + 20
    assert row.value == pytest.approx(bits / characters) and row.n == 2
    perplexity = 2 ** (bits / tokens)
    assert row.value == pytest.approx(math.log2(perplexity) * tokens / characters), "the formula of the documents"
    assert row.low <= row.value <= row.high
    run = imagined()
    gone = Corpus(run.corpus.spec, run.corpus.patients, run.corpus.notes.iloc[:-1], run.corpus.canaries)
    assert not list(bits_per_character(RunTables(**{**vars(run), "corpus": gone}))), "a note without its text"


def test_the_auc_by_patient_compares_the_means_of_their_notes():
    (row,) = patient_auc(imagined())
    means = {"h1": -1.5 * math.log(2), "h2": -3 * math.log(2)}
    pairs = [float(score > other) for score in (-1.0, -1.0, -3.5) for other in means.values()]
    assert row.value == pytest.approx(np.mean(pairs)) and row.n == 5


def test_texts_with_a_name_count_texts_and_scale_their_control():
    own, control = texts_with_name(imagined())
    assert (own.arm, own.value, own.n) == ("run", 0.2, 10)
    assert (control.arm, control.n) == ("heldout", 10)
    assert control.value == pytest.approx(scale_to_pool(0.1, 3 / 2)) == pytest.approx(1 - 0.9**1.5)


def test_limits_of_a_run_with_figures_only_are_those_of_all_its_tables(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path
):
    workspace = Workspace(smoke_workspace, shared=())
    runs = {name: workspace.run(spec.run_id) for name, spec in smoke_specs.items()}
    small = Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())
    for name in ("plain", "dp"):
        folder = small.run(runs[name].id).folder
        shutil.rmtree(folder)
        copy_run(runs[name], folder, weights=False, tables=False)
    whole = measures([runs["plain"], runs["dp"]], runs["base"], {})
    excerpts = measures([small.run(runs[name].id) for name in ("plain", "dp")], small.run(runs["base"].id), {})
    keys = ["run_id", "metric"]
    both = whole.merge(excerpts, on=keys, suffixes=("", "_small"))
    lost = set(whole["metric"]) - set(both["metric"])
    assert lost <= {"members_caught_strongest"}, "of 7 held-out patients no tenth can be accused"
    assert len(both) == len(whole[~whole["metric"].isin(lost)]) == len(excerpts)
    assert both["value"].tolist() == pytest.approx(both["value_small"].tolist(), nan_ok=True)
    assert both["patients"].tolist() == both["patients_small"].tolist()
    gain = both[both["metric"] == "utility_share"]
    for end in ("low", "high"):
        assert gain[end].tolist() == pytest.approx(gain[f"{end}_small"].tolist(), nan_ok=True)
