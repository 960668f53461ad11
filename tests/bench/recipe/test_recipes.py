"""The trainings behind the recipe: on a hospital of its own seed, resumed from the file of results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.recipe import recipes
from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS

ROOT = Path(__file__).resolve().parents[3]
BASES = ROOT / "assets" / "base"
KINDS = [("gpt2", "clinical"), ("gpt2", "abstracts"), ("distilbert", "clinical")]
TINY = recipes.Setting("distilbert", 24, 8.0, 16, 1, 1e-3, 0.4, 2)


def test_a_setting_is_trained_on_the_tuning_hospital(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    monkeypatch.setattr(recipes, "build", lambda spec: built.append(spec) or build(spec))
    found = recipes.measured(TINY, CORPUS_PRESETS["smoke"])
    assert [spec.seed for spec in built] == [recipes.TUNING_SEED]
    assert found["steps"] == math.ceil(found["notes"] / 16) and found["sigma"] > 0.5
    assert found["perplexity"] > 1 and 0.2 < found["auc"] < 0.8 and found["bits_per_character"] is None
    assert json.loads(json.dumps(found)) == found


def test_a_result_names_the_weights_that_were_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped weights may be replaced while a training runs; the key is that of the weights it began with."""
    digests, train = ["before"], recipes.train
    monkeypatch.setattr(recipes, "_digest", lambda file: digests[-1])
    monkeypatch.setattr(recipes, "train", lambda *given: digests.append("after") or train(*given))
    found = recipes.measured(recipes.Setting("gpt2", 24, None, 16, 0, 1e-3), CORPUS_PRESETS["smoke"])
    assert found["key"].endswith(" before") and digests == ["before", "after"]


def test_stored_results_name_the_base_that_the_document_names() -> None:
    """The recipe's table has a row for each stored result, with the base model whose digest its key has."""
    named = {(kind, name): recipes._digest(BASES / name / f"{kind}-tiny" / "model.safetensors") for kind, name in KINDS}
    table = (ROOT / "docs" / "methods" / "recipe-tuning.md").read_text(encoding="utf-8")
    for line in (ROOT / "bench" / "recipe" / "recipes.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        base = next(name for (kind, name), digest in named.items() if row["key"].endswith(digest))
        label = "GPT-2" if row["kind"] == "gpt2" else "DistilBERT"
        epsilon = "base alone" if row["epsilon"] is None else f"{row['epsilon']:,.0f}"
        start = f"| {row['notes']:,} | {label} | `{base}` | {epsilon} |"
        shown = [one for one in table.splitlines() if one.startswith(start)]
        assert any(f"| {row['auc']:.3f} |" in one for one in shown), (start, row["auc"])


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
