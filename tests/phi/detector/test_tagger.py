"""The tagger of names: only checked files are read, the package is not executed, and what is kept of its finds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.phi.detector import tagger
from core.phi.detector.engine import best, rules


def test_names_on_no_list_and_without_a_cue_are_found():
    text = "I would like to add Torvald Quimbly to the list of visitors."
    assert best().find(text) == [(20, 35, "full_name")]
    assert rules().find(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Contraindications for prescribing Zoloft to a patient with DVT and a high BMI.",
        "Hemoglobin is reported in g/dl. Glass ampoules never enter the bin.",
        "Phone: none\nEmail: none\nAssessment: stable on Lisinopril, INR 2.0.",
        "Positive Babinski; Cushing's syndrome; Framingham score; moved to the United States.",
    ],
)
def test_words_of_medicine_headings_and_countries_are_dropped(text):
    assert tagger.tagged(text) == []


def test_another_file_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    package = tmp_path / tagger.PACKAGE
    shutil.copytree(Path(tagger.model_folder()), package / f"{tagger.PACKAGE}-{tagger.VERSION}")
    (package / "__init__.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(tmp_path)
    assert tagger.model_folder().is_relative_to(tmp_path), "the same files pass, and the package is not imported"
    model = tagger.model_folder() / "ner" / "model"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    with pytest.raises(tagger.NoTagger, match="ner/model is not the file of version 3.8.0 that was checked"):
        tagger.model_folder()
    model.unlink()
    with pytest.raises(tagger.NoTagger, match="ner/model cannot be read"):
        tagger.model_folder()


def test_it_finds_the_same_where_torch_is_left_out():
    text = "Torvald Quimbly came to Boston with Anna Miller."
    code = f"""if True:
        import importlib.util, sys
        from core.phi.detector import tagger
        tagger.leave_out_torch()
        print(tagger.tagged({text!r}), "torch" in sys.modules, importlib.util.find_spec("torch") is None)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    found = tagger.tagged(text)
    assert found and done.stdout.strip() == f"{found} False False"


def test_the_rules_import_neither_spacy_nor_torch():
    code = (
        "import sys; from core.phi.detector.engine import best; best(); "
        "from core.phi.detector.engine import rules; rules().find('Dr. Quist'); "
        "print([name for name in ('spacy', 'torch', 'thinc') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"
