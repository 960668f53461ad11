"""Every word of the field that the app shows is in the glossary, with a source that exists; and no entry is idle."""

from __future__ import annotations

import re

import pytest

from core.attacks.battery import REGISTRY
from core.phi.spans import KINDS
from core.spec.model_names import MODEL_NAMES
from pages.parts.common import glossary, shell
from tests.pages.common.page_sources import SHOWN, strings_of, text_of
from tests.pages.visit import ROOT, said, visit

# Capitals that are no word of the field: file formats, colours, what a computer or a log calls things, and constants.
PLAIN = {
    "ABCDEFGHJKLMNPQRSTUVWXYZ",
    "ADMISSIONS",
    "CC",
    "CPU",
    "CSV",
    "DATA",
    "DATE",
    "DIAGNOSES",
    "DIR",
    "DeLong",
    "FOLDER",
    "GB",
    "HTML",
    "ID",
    "JSON",
    "MB",
    "MLPClassifier",
    "McNemar",
    "NAME",
    "NOTEEVENTS",
    "OK",
    "PATH",
    "PATIENTS",
    "PDF",
    "PHILAB",
    "QR",
    "RUN",
    "UI",
    "URL",
    "UTC",
    "UTF",
}
# What one who is new to the field would ask about; whichever of them stands on a page needs an entry.
FIELD_WORDS = (
    "accountant",
    "attention",
    "AUC",
    "audit",
    "batch",
    "belief",
    "bits",
    "black-box",
    "bootstrap",
    "bucket",
    "budget",
    "canaries",
    "canary",
    "clipped",
    "clipping",
    "cohort",
    "coincidence",
    "compose",
    "composed",
    "control",
    "cosine",
    "deduplication",
    "differential privacy",
    "energy",
    "epoch",
    "epsilon",
    "excess",
    "exposure",
    "extraction",
    "false-positive rate",
    "fill in the blank",
    "gradient",
    "group privacy",
    "guarantee",
    "half a name",
    "held-out",
    "identifier",
    "interpolated",
    "interval",
    "invented",
    "known words",
    "leak",
    "ledger",
    "likelihood",
    "linked leak",
    "loss",
    "mask",
    "member",
    "membership",
    "memorisation",
    "memorised",
    "neighbourhood",
    "neighbouring",
    "neighbours",
    "noise",
    "noise multiplier",
    "odds",
    "output filter",
    "p-value",
    "perplexity",
    "population",
    "precision",
    "prefix",
    "pretrained",
    "probe",
    "probing network",
    "promise",
    "prompt",
    "public model",
    "rarity",
    "ratio",
    "recall",
    "reference",
    "release",
    "released",
    "resampled",
    "run",
    "scrubbing",
    "seed",
    "skip-gram",
    "threshold",
    "token",
    "total variation",
    "true-positive rate",
    "unit",
    "usefulness",
    "white-box",
)


@pytest.fixture(scope="module")
def text() -> str:
    """Everything that pages and the shared wording may put on screen."""
    return "\n".join(line for file in SHOWN for line in strings_of(file))


def explained(word: str) -> bool:
    return any(term.pattern.search(word) for term in glossary.terms())


def test_every_abbreviation_and_greek_letter_on_a_page_is_explained(text):
    capitals = set(re.findall(r"(?<![\w#&%-])[A-Z][A-Za-z]*[A-Z][A-Za-z]*(?:-[A-Z0-9]+)?(?![\w-])", text))
    greek = set(re.findall(r"[α-ω]", text))
    assert {"PHI", "AUC", "ICD", "CBoW", "DP-SGD"} <= capitals and {"ε", "δ", "σ"} <= greek
    unknown = {word for word in capitals if word.split("-")[0] not in PLAIN} | greek
    assert {word for word in unknown if not explained(word)} == set()


def test_every_word_of_the_field_that_stands_on_a_page_is_explained(text):
    shown = [word for word in FIELD_WORDS if re.search(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", text)]
    assert len(shown) > 55
    assert [word for word in shown if not explained(word)] == []


def test_every_attack_model_and_kind_of_find_is_explained():
    names = [*REGISTRY, *KINDS, *MODEL_NAMES.values(), "PRV", "RDP", "GDP"]
    assert [name for name in names if not explained(name)] == []


def test_no_entry_is_idle(text):
    shown = "\n".join([text, *REGISTRY, *KINDS])
    assert [term.name for term in glossary.terms() if not term.pattern.search(shown)] == []


def test_every_source_is_a_section_of_the_documents():
    """A source is a chapter of docs/methods/ by its title, alone or with one of its sections: `Models: Likelihood`."""
    sections: set[str] = set()
    for file in (ROOT / "docs" / "methods").glob("*.md"):
        title, *headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        sections |= {title, *(f"{title}: {heading}" for heading in headings)}
    assert len(sections) > 100
    assert {term.source for term in glossary.terms()} - sections == set()


def test_entries_are_unique_and_told_in_words():
    names = [term.name for term in glossary.terms()]
    forms = [form for term in glossary.terms() for form in term.forms]
    assert len(set(names)) == len(names) and len(set(forms)) == len(forms)
    for term in glossary.terms():
        assert term.meaning.endswith((".", "?")) and len(term.meaning) > 20


def test_words_in_lower_case_are_found_in_any_case_and_abbreviations_only_as_written():
    by_name = {term.name: term.pattern for term in glossary.terms()}
    assert by_name["Leak"].search("Leaks:") and not by_name["Leak"].search("leakproof")
    assert by_name["AUC"].search("(AUC 0.9)") and not by_name["AUC"].search("sauce auc")
    assert by_name["Min-K %, Min-K %++"].search("min-k++ 20 %")


@pytest.mark.parametrize("page", [name for name, *_ in shell._PAGES if name != "glossary"])
def test_every_page_lists_words_of_its_own(page):
    assert glossary.used_on(page), f"pages/{page}.py shows no word of the glossary"


@pytest.mark.parametrize("page", [name for name, *_ in shell._PAGES if name != "glossary"])
def test_the_pages_of_every_entry_are_those_that_use_it(page):
    shown = text_of(page)
    used = [term.name for term in glossary.terms() if term.pattern.search(shown)]
    assert [term.name for term in glossary.used_on(page)] == used, "run: python -m tests.pages.common.page_sources"


def test_the_page_finds_a_word_and_says_where_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    app = visit("glossary")
    listed = said(app)
    assert all(f"**{term.name}**" in listed for term in glossary.terms())
    app.text_input(key="word").set_value("compressed").run()
    assert [element.value for element in app.header] == ["Attacks"] and "compressed" in app.markdown[-1].value
    assert "**Canary**" not in app.markdown[-1].value
    app.text_input(key="word").set_value("<script>alert(1)</script>").run()
    assert not app.exception and "No entry" in app.info[0].value and "<script>" not in said(app)


@pytest.mark.parametrize(
    ("typed", "found"), [("sigma", "σ (noise multiplier)"), ("Epsilon", "ε"), ("exposure", "Exposure")]
)
def test_greek_letters_are_found_by_their_names(typed, found):
    app = visit("glossary", word=typed)
    assert not app.info and f"**{found}" in said(app)
