"""Pages say whose values do not count, and only of figures that leave them out."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from core.evaluation.probes.figures import PROBE_FIGURES
from core.evaluation.verdict import NAMED
from core.evaluation.wording import OF_THEIR_OWN
from core.spec import CORPUS_PRESETS, CorpusSpec
from pages.parts.pickers import run_picker
from pages.parts.probes import cards
from pages.parts.session import owner, resources

IMPORTED = CorpusSpec(imported="0" * 16)
SHARED = frozenset({("A", "full_name"), ("X", "full_name"), ("B", "phone"), ("Y", "phone")})
PEOPLE = pd.DataFrame({"patient_id": list("ABXY"), "split": ["member"] * 2 + ["heldout"] * 2})


def run_of(corpus: CorpusSpec, without: list[str] | None = None) -> SimpleNamespace:
    return SimpleNamespace(id="r", spec=SimpleNamespace(corpus=corpus, without=without))


@pytest.fixture
def audited(monkeypatch):
    """Sets the version of the stored probe figures, and what the note of the stored names says."""
    stored = {"version": PROBE_FIGURES.version_imported, "note": f"of member patients {OF_THEIR_OWN}"}
    outcome = {f"summary: {PROBE_FIGURES.name}": SimpleNamespace(version=stored["version"])}
    workspace = SimpleNamespace(
        corpus=lambda spec: SimpleNamespace(shared_values=SHARED, patients=PEOPLE),
        audit=lambda run_id: SimpleNamespace(outcomes=lambda: outcome),
    )
    monkeypatch.setattr(owner, "workspace", lambda: workspace)
    table = pd.DataFrame({"metric": [NAMED], "arm": ["run"], "note": [stored["note"]]})
    monkeypatch.setattr(run_picker, "metrics", lambda run: table)
    resources.empty_caches()
    yield outcome, table
    resources.empty_caches()


def test_the_number_of_patients_is_told(audited):
    told = run_picker.shared_values_caption(run_of(IMPORTED))
    assert told.startswith("4 patients share a name, number or address with another patient.")
    assert cards.left_out(run_of(IMPORTED)) == run_picker.namesakes_caption(run_of(IMPORTED))
    assert "are left out (1 trained on, 1 held out)" in run_picker.namesakes_caption(run_of(IMPORTED))
    assert "is left out (0 trained on, 1 held out)" in run_picker.namesakes_caption(run_of(IMPORTED, without=["A"]))


def test_nothing_is_told_of_generated_patients_or_of_figures_that_count_everybody(audited):
    outcome, table = audited
    assert run_picker.shared_values_caption(run_of(CORPUS_PRESETS["smoke"])) == ""
    assert cards.left_out(run_of(CORPUS_PRESETS["smoke"])) == ""
    table["note"] = "of member patients with a known value"  # as an earlier version wrote it
    assert run_picker.shared_values_caption(run_of(IMPORTED)) == ""
    next(iter(outcome.values())).version -= 1
    assert cards.left_out(run_of(IMPORTED)) == ""
    outcome.clear()
    assert cards.left_out(run_of(IMPORTED)) == ""
