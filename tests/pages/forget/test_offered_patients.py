"""Which patients the page Forget offers first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pandas as pd

from core.runs.run import Run
from core.spec import CorpusSpec
from pages.parts.forget import data
from pages.parts.session import owner, resources


def test_a_text_with_a_name_that_several_patients_have_is_about_none_of_them(tmp_path, monkeypatch):
    """Else a namesake, of whom the model may have written nothing, would be said to leak most."""
    hits = pd.DataFrame(
        [(1, "A", "full_name"), (2, "A", "full_name"), (3, "A", "mrn"), (4, "B", "full_name"), (5, "C", "full_name")],
        columns=["generation_id", "patient_id", "field"],
    ).assign(rule="value", split="member", kind="leak")
    shared = frozenset({("A", "full_name"), ("C", "full_name"), ("X", "full_name")})
    workspace = SimpleNamespace(corpus=lambda spec: SimpleNamespace(shared_values=shared))
    monkeypatch.setattr(owner, "workspace", lambda: workspace)
    resources.empty_caches()
    spec = SimpleNamespace(corpus=CorpusSpec(imported="0" * 16))
    run = SimpleNamespace(folder=tmp_path, spec=spec, table=lambda name: hits)
    assert data.patients(cast(Run, run)) == {"A": 1, "B": 1}
    resources.empty_caches()
