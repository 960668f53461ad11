"""Entities in labelled abstracts that nobody here generated: their files, the counts, and differences of F1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.attacks.registry import Target, no_report
from core.corpus.synthetic.hospital import build
from core.evaluation.utility.abstracts import entity_score
from core.findings import labelled_abstracts, training
from core.findings.claims import chosen
from core.findings.experiments import plain
from core.findings.from_weights import abstract_entities
from core.findings.labelled_abstracts import CORPORA, add_labelled_abstracts, digest_of
from core.findings.measures.tables import abstracts_difference
from core.findings.stored_runs import Missing
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from core.tasks.abstracts import labelled_sentences, sentence_counts
from tests.tiny_models import tiny

DRUGS, DISEASES = ("Ibuprofen", "Codeine", "Aspirin"), ("hives", "anemia", "colitis")
SENTENCES = [f"{drug}\tB-Chemical\ncaused\tO\n{disease}\tB-Disease\n.\tO\n" for drug in DRUGS for disease in DISEASES]


@pytest.fixture
def downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both corpora as they come, whose digests are the expected ones."""
    folder, known = tmp_path / "bio-ner", {}
    for number, (name, (comes_as, _)) in enumerate(CORPORA.items()):
        (folder / comes_as).mkdir(parents=True)
        for file, copies in (("train.tsv", 40), ("test.tsv", 2 + number)):
            (folder / comes_as / file).write_text("\n".join(SENTENCES * copies) + "\n", encoding="utf-8")
        known[name] = (comes_as, digest_of(folder / comes_as))
    monkeypatch.setattr(labelled_abstracts, "CORPORA", known)
    return folder


def test_both_corpora_are_copied_once(downloaded: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "data", shared=())
    assert labelled_abstracts.labelled_abstracts(workspace) == {}
    add_labelled_abstracts(downloaded, workspace)
    found = labelled_abstracts.labelled_abstracts(workspace)
    assert list(found) == list(CORPORA)
    assert {name: digest_of(place) for name, place in found.items()} == {
        name: digest for name, (_, digest) in labelled_abstracts.CORPORA.items()
    }
    add_labelled_abstracts(tmp_path / "nothing", workspace)  # they are there, so no file is read


def test_other_sentences_are_refused_and_leave_nothing(downloaded: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "data", shared=())
    file = downloaded / "NCBI-disease-IOB" / "test.tsv"  # the second one: the first is not kept either
    file.write_text(file.read_text(encoding="utf-8").replace("hives", "ulcer"), encoding="utf-8")
    with pytest.raises(ValueError, match="does not hold the sentences of NCBI disease that the claims"):
        add_labelled_abstracts(downloaded, workspace)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"test\.tsv does not exist"):
        add_labelled_abstracts(downloaded, workspace)
    assert not list(workspace.root.rglob("*.tsv")) and labelled_abstracts.labelled_abstracts(workspace) == {}


def test_without_the_abstracts_their_runs_are_left_out_and_the_option_is_named(tmp_path: Path) -> None:
    workspace, said = Workspace(tmp_path / "data", shared=()), list[str]()
    training.train(chosen(["H-c24"]), workspace, said.append)
    assert said == [
        f"The labelled abstracts are not in {workspace.root}, so 3 runs that should read them are left out. "
        "Give their folder with --labelled."
    ]


def test_the_table_counts_what_both_models_find(downloaded: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "data", shared=())
    add_labelled_abstracts(downloaded, workspace)
    folders = labelled_abstracts.labelled_abstracts(workspace)
    lms = {role: tiny("distilbert", seed=seed, spread=4.0) for role, seed in (("target", 0), ("base", 1))}
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"], model=ModelSpec(kind="distilbert"))
    models = {role: lambda report, lm=lm: lm for role, lm in lms.items()}
    target = Target(spec, build(spec.corpus), {}.__getitem__, models)
    rows = abstract_entities.abstract_entities(target, no_report, folders)
    assert list(rows.columns) != [] and set(rows.columns) == set(abstract_entities.COLUMNS)
    for (corpus, model), part in rows.groupby(["corpus", "model"]):
        learned, judged = labelled_sentences(folders[str(corpus)])
        counts = sentence_counts(lms[str(model)], learned, judged)
        expected = entity_score(counts, learned=len(learned), judged=len(judged))
        total = part[["trials", "predicted", "correct"]].sum()
        assert 2 * total["correct"] / (total["trials"] + total["predicted"]) == pytest.approx(expected.f1.value)
        assert (len(part), total["trials"]) == (expected.judged, expected.entities)
    assert rows.groupby(["corpus", "model"]).ngroups == 4


class Counted:
    """Stored runs with one table of counts, of two sentences for each model."""

    def __init__(self, **correct: list[int]) -> None:
        self.correct = correct

    def measured(self, spec: RunSpec, table: str) -> pd.DataFrame:
        frames = [
            pd.DataFrame({"sentence": range(len(values)), "trials": 2, "predicted": 2, "correct": values})
            for values in self.correct.values()
        ]
        return pd.concat(
            [frame.assign(corpus="a", model=name) for frame, name in zip(frames, self.correct, strict=True)]
        )


def test_a_difference_of_f1_resamples_the_abstracts_of_both_models_together() -> None:
    runs, spec = Counted(target=[2, 1] * 50, base=[1, 0] * 50), plain("distilbert")
    found = abstracts_difference(runs, (spec, "target"), (spec, "base"), "a")
    # Each sentence has one entity more right, of two that are there and two that are said: .75 − .25, always.
    np.testing.assert_allclose([found.value, found.low, found.high], 0.5)
    turned = abstracts_difference(runs, (spec, "base"), (spec, "target"), "a")
    assert turned.value == pytest.approx(-0.5)
    with pytest.raises(Missing, match="did not read the same sentences"):
        abstracts_difference(Counted(target=[1], base=[1, 2]), (spec, "target"), (spec, "base"), "a")


def test_ten_sentences_that_follow_each_other_are_resampled_as_one() -> None:
    """The same forty differences, each 1 or 0 entities of 2: four alike blocks against four that differ wholly."""
    spec, base = plain("distilbert"), [0] * 40
    mixed, blocks = ([1, 0] * 20, ([1] * 10 + [0] * 10) * 2)
    widths = []
    for correct in (mixed, blocks):
        found = abstracts_difference(Counted(target=correct, base=base), (spec, "target"), (spec, "base"), "a")
        assert found.value == pytest.approx(0.25)
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(0, abs=1e-12) and widths[1] > 0.2
