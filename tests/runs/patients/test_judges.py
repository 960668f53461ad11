"""Which attacks judge the patients of a run."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pandas as pd

from core.runs.patients.queries import judges


def test_attacks_of_a_run_begin_with_the_ratio_to_the_public_model(tmp_path):
    def run(name: str, vocabulary=None, kind="gpt2"):
        spec = SimpleNamespace(vocabulary=vocabulary, model=SimpleNamespace(kind=kind))
        return SimpleNamespace(id=name, folder=tmp_path / name, spec=spec)

    none = SimpleNamespace(files=lambda table: {})
    made = judges(run("r"), none, run("base"))
    assert list(made) == ["ratio base", "loss"] and made["ratio base"].public == tmp_path / "base/tables/scores.parquet"
    assert list(judges(run("r"), none, None)) == list(judges(run("base"), none, run("base"))) == ["loss"]
    assert list(judges(run("r", vocabulary="own words"), none, run("base"))) == ["loss"], "other tokens, no ratio"
    full = SimpleNamespace(files=lambda table: {"zlib": "z", "loss": "l", "ratio base": "q", "attention": "a"})
    made = judges(run("r"), full, run("base"))
    assert list(made) == ["ratio base", "loss", "zlib", "attention"]
    assert made["ratio base"].public is None and made["attention"].threshold == 0.0

    for name, notes in (("r", ["n1", "n2"]), ("base", ["n1", "n2"]), ("longer", ["n0", "n1", "n2"])):
        file = tmp_path / name / "tables" / "scores.parquet"
        file.parent.mkdir(parents=True)
        pd.DataFrame({"note_id": notes}).to_parquet(file)
    masked = partial(run, kind="distilbert")
    assert list(judges(masked("r"), none, masked("base"))) == ["ratio base", "loss"]
    assert list(judges(masked("r"), none, masked("longer"))) == ["loss"], "other tokens were hidden"
    assert list(judges(run("r"), none, run("longer"))) == ["ratio base", "loss"]
