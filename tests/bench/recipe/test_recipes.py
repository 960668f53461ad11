"""The trainings behind the recipe: on a hospital of its own seed, resumed from the file of results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.recipe import recipes
from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS

TINY = recipes.Setting("distilbert", 24, 8.0, 16, 1, 1e-3, 0.4, 2)


def test_a_setting_is_trained_on_the_tuning_hospital(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(recipes, "build", lambda spec: built.append(spec) or build(spec))
    found = recipes.measured(TINY, CORPUS_PRESETS["smoke"])
    assert [spec.seed for spec in built] == [recipes.TUNING_SEED]
    assert found["steps"] == math.ceil(found["notes"] / 16) and found["sigma"] > 0.5
    assert found["perplexity"] > 1 and 0.2 < found["auc"] < 0.8 and found["bits_per_character"] is None
    assert json.loads(json.dumps(found)) == found


def test_bits_a_character_are_log2_of_the_likelihood_over_the_characters() -> None:
    base = recipes.Setting("gpt2", 24, None, 16, 0, 1e-3)
    found = recipes.measured(base, CORPUS_PRESETS["smoke"])
    assert found["sigma"] is None and found["steps"] == 0
    assert 1.5 < found["bits_per_character"] < 4 and found["perplexity"] > 2 ** found["bits_per_character"]


def test_settings_that_the_file_has_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    trained = []

    def measured(setting: recipes.Setting) -> dict[str, object]:
        if len(trained) == 1:
            raise KeyboardInterrupt  # the second training is interrupted
        trained.append(setting)
        return {"key": recipes._key(setting), "perplexity": 2.0}

    grid = (TINY, recipes.Setting("gpt2", 24, None, 16, 0, 1e-3))
    monkeypatch.setattr(recipes, "GRID", grid)
    monkeypatch.setattr(recipes, "measured", measured)
    file = str(tmp_path / "found.jsonl")
    with pytest.raises(KeyboardInterrupt):
        recipes.main(write=file)
    monkeypatch.setattr(recipes, "measured", lambda setting: {"key": recipes._key(setting), "perplexity": 3.0})
    recipes.main(write=file)
    recipes.main(write=file)
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert [row["perplexity"] for row in rows] == [2.0, 3.0] and trained == [TINY]
    assert capsys.readouterr().out.count("\n") == 1 + 2 + 2
