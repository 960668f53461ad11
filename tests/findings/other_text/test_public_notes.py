"""Public reports as a second cohort: imported from their file alone, and seen by anyone."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from core.common.program import PROGRAM
from core.corpus.importing.importer import import_notes
from core.demo.plan import training_seconds
from core.findings import training
from core.findings.claims import CLAIMS, chosen
from core.findings.experiments import PUBLIC_NOTES, of_public_notes, with_epochs
from core.findings.judging import needed
from core.findings.public_notes import POPULATION, add_public_notes
from core.findings.stored_runs import SHIPPED, StoredRuns
from core.phi.detector.engine import SHAPES
from core.runs.store import Workspace
from core.runs.uploads.records import may_see
from core.spec import CorpusSpec, ModelSpec

ENDS = "ad", "eb", "ic", "of", "ug", "an", "el", "im", "op", "us"
WORDS = [f"{start}{end}" for start in "bcdfghklmnpr" for end in ENDS]


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A text file of twenty reports."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=130)) for _ in range(20)]
    file = tmp_path / "reports.txt"
    file.write_text("\n\n".join(texts), encoding="utf-8")
    return file


@pytest.fixture
def wanted(reports: Path, tmp_path: Path) -> CorpusSpec:
    """What an import of the file with the claims' settings gives."""
    folder = tmp_path / "imported"
    return import_notes(reports, folder, population=POPULATION, deduplicate="near", detector=SHAPES).spec


def test_the_file_of_the_claims_is_added_once(reports: Path, wanted: CorpusSpec, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "data", shared=())
    add_public_notes(reports, workspace, wanted)
    corpus = workspace.corpus(wanted)
    assert corpus.content_id() == wanted.imported and (wanted.patients, wanted.population) == (16, 4)
    reports.unlink()
    add_public_notes(reports, workspace, wanted)  # it is there, so no file is read


def test_another_text_is_refused_and_leaves_nothing(reports: Path, wanted: CorpusSpec, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "data", shared=())
    reports.write_text(reports.read_text(encoding="utf-8").replace("bad", "bat"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"reports\.txt is not the text that the claims"):
        add_public_notes(reports, workspace, wanted)
    assert not list((workspace.root / "corpora").iterdir())


def test_runs_without_their_notes_are_left_out_and_the_option_is_named(tmp_path: Path) -> None:
    workspace, said = Workspace(tmp_path / "data", shared=()), list[str]()
    training.train(chosen(["M-c39"]), workspace, said.append)
    assert said == [
        f"The public reports are not in {workspace.root}, so 1 run on them is left out. "
        "Give their file with --public-notes."
    ]
    assert StoredRuns(workspace).find(of_public_notes("distilbert")) is None


def test_runs_from_bases_that_are_not_shipped_are_left_out_and_the_command_is_named(tmp_path: Path) -> None:
    """Training one of them would end with an error. Without any run of them, the claim is not judged."""
    workspace, said = Workspace(tmp_path / "data", shared=()), list[str]()
    (larger,) = chosen(["J-c43"])
    needs = tuple(need for need in larger.needs if need.spec.model.size == "small")
    training.train([replace(larger, needs=needs)], workspace, said.append)
    assert said == [
        f"Larger base models are not shipped, so {len(needs)} runs that should start from them are left out. Make them "
        "first with `python -m core pretrain --size small`."
    ]
    assert not workspace.runs()


def test_larger_models_are_estimated_to_take_longer() -> None:
    """Else a claim about sizes would seem to cost as much as one about the smallest."""
    sizes = ("micro", "tiny", "small")
    models = [ModelSpec.model_validate({"size": size}) for size in sizes]
    times = [training_seconds(of_public_notes("gpt2").model_copy(update={"model": model})) for model in models]
    assert times == sorted(times) and times[2] > 2 * times[1] > 4 * times[0] > 0


def test_anyone_may_see_public_text_and_no_other_import(tmp_path: Path) -> None:
    assert PUBLIC_NOTES.is_public_text and may_see(tmp_path, PUBLIC_NOTES, "anyone")
    private = PUBLIC_NOTES.model_copy(update={"imported": "0" * 16})
    assert not private.is_public_text and not may_see(tmp_path, private, "anyone")


def test_no_words_of_the_reports_are_shipped() -> None:
    """Their runs are shipped as ids and numbers: no table has a column of text that a model or a report wrote."""
    about = [claim for claim in CLAIMS if claim.title.endswith("(public reports)")]
    ids = {need.spec.run_id for need in needed(about)}
    folders = [folder for kind in ("runs", "audits") for folder in (SHIPPED / kind).iterdir() if folder.name in ids]
    tables = [table for folder in folders for table in folder.rglob("*.parquet")]
    assert tables
    for table in tables:
        frame = pd.read_parquet(table)
        words = {name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])}
        assert frame.empty or not {"text", "prompt", "value"} & words, table


def test_the_documents_table_is_that_of_the_shipped_audits() -> None:
    """docs/methods/reference-models.md, on public reports: every AUC with its interval."""
    plain, private, masked = of_public_notes("gpt2"), of_public_notes("gpt2", 8.0), of_public_notes("distilbert")
    models = {f"GPT-2, {spec.training.epochs} epochs, no privacy": spec for spec in (plain, with_epochs(plain, 2))}
    models |= {"GPT-2, ε = 8 per note": private}
    models |= {f"DistilBERT, {masked.training.epochs} epochs, no privacy": masked}
    runs, made = StoredRuns(Workspace(SHIPPED, shared=())), set()
    for name, spec in models.items():
        figures = runs.audited(spec, "membership")
        figures = figures[(figures["metric"] == "auc") & (figures["length"] == "all")].set_index(["attack", "level"])
        for attack in figures.index.unique("attack"):
            cells = (_cell(figures.loc[(attack, level)]) for level in ("sample", "patient"))
            made.add((name, attack, *cells))
    text = (PROGRAM / "docs" / "methods" / "reference-models.md").read_text(encoding="utf-8")
    section = text.split("## What changes on public reports?")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ") and "(" in line]
    assert {tuple(part.strip() for part in row) for row in rows} == made and len(made) == 8


def _cell(row: pd.Series) -> str:
    value, low, high = (f"{row[name]:.3f}".removeprefix("0") for name in ("value", "low", "high"))
    return f"{value} ({low}–{high})"


def test_the_reference_leaves_a_third_of_the_spread_of_unread_reports() -> None:
    """The .35 of M-c34, the .37 of M-c33, and both of the document."""
    runs = StoredRuns(Workspace(SHIPPED, shared=()))
    for kind, share in (("gpt2", 0.35), ("distilbert", 0.37)):
        unread = [runs.scores(of_public_notes(kind), attack) for attack in ("ratio population", "loss")]
        spreads = [rows.loc[rows["split"] == "heldout", "score"].std() for rows in unread]
        assert round(spreads[0] / spreads[1], 2) == share
