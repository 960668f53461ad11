"""Every benchmark at toy size: the right keys, finite ratios, and both sides really do the work they say they do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import _bare, audit, clipping, generation, patients, scale, scoring, serving, training
from bench import all as everything
from bench._models import Shape, random_model
from bench._ratio import TARGETS, Figures, figure, in_turns
from core.__main__ import main
from core.models.likelihood import note_losses
from core.spec import AuditSpec, CorpusSpec, TrainingSpec

pytestmark = pytest.mark.slow

TOY = Shape(layers=1, width=16, heads=2, vocabulary=600)
HOSPITAL = CorpusSpec(
    patients=12, population=0, notes_per_patient=2.0, note_length="brief", canaries=2, canary_patients=0
)


def sound(figures: Figures, *keys: str) -> None:
    assert set(figures) == set(keys)
    for key, found in figures.items():
        assert {"value", "bar", "aim", "rounds", "low", "high"} <= set(found)
        assert (found["bar"], found["aim"]) == (TARGETS[key].bar, TARGETS[key].aim)
        assert np.isfinite(found["value"]) and 0 < found["low"] <= found["value"] <= found["high"]
        assert found["rounds"] == 1


def test_clipping() -> None:
    found = clipping.measure(1, shape=TOY, samples=4, tokens=8, steps=1)
    units = [f"dp_over_plain_{unit}_{kind}" for unit in ("note", "patient") for kind in ("gpt2", "distilbert")]
    sound(found, *units, "opacus_hooks_over_ours", "opacus_ghost_over_ours", "naive_loop_over_ours")


def test_generation_and_serving() -> None:
    lm = random_model("gpt2", TOY)
    sound(generation.measure(1, lm=lm, attempts=28, new_tokens=4), "attempts_one_by_one_over_ours")
    sound(serving.measure(1, lm=lm, prompts=3, new_tokens=4), "thirty_prompts_over_one")


def test_scoring() -> None:
    lm = random_model("gpt2", TOY)
    texts = scoring.notes(lm, 10, HOSPITAL)
    sound(scoring.measure(1, lm=lm, texts=texts), "scoring_padded_over_ours")


def test_training() -> None:
    recipe = TrainingSpec(epochs=1, batch_size=8, max_tokens=64)
    audit = AuditSpec(samples_per_prompt=1, new_tokens=2, mask_draws=1, bootstrap=10)
    found = training.measure(1, corpus=HOSPITAL, training=recipe, private=recipe, audit=audit)
    sound(found, "plain_over_bare_loop", "classroom_run_over_bare_loop")
    assert found["classroom_run_over_bare_loop"]["first_loss_seconds"] > 0


def test_audit() -> None:
    recipe = TrainingSpec(epochs=1, batch_size=8, max_tokens=64)
    quick = AuditSpec(samples_per_prompt=1, new_tokens=2, mask_draws=1, bootstrap=10)
    found = audit.measure(1, corpus=HOSPITAL, training=recipe, audit=quick, attacks=["loss", "ratio base"])
    sound(found, "full_audit_over_training_gpt2", "full_audit_over_training_distilbert")
    with pytest.raises(RuntimeError, match="attacks were not completed.*population is too small"):
        audit.measure(1, corpus=HOSPITAL, training=recipe, audit=quick, attacks=["ratio population"])


def test_scale() -> None:
    found = scale.measure(1, few=40, many=80, steps=1)
    sound(found, "memory_100k_over_10k", "time_per_note_100k_over_10k")
    assert found["memory_100k_over_10k"]["mib"]["below"] > 50


def test_patients() -> None:
    found = patients.measure(1, patients=4_000, notes=12_000)
    steps = [f"patients_{step}_over_duckdb" for step in ("first_view", "bucket", "filter", "patient")]
    sound(found, *steps, "patients_memory_over_one_gib")
    assert found["patients_memory_over_one_gib"]["mib"]["above"] > 100


def test_the_bare_loop_scores_what_ours_scores_and_learns() -> None:
    lm = _bare.with_defaults(random_model("gpt2", TOY))
    texts = scoring.notes(lm, 10, HOSPITAL)
    before = _bare.scores(lm, texts, batch_size=4)()
    assert np.allclose(before, note_losses(lm, texts), atol=1e-4)
    _bare.epochs(lm, texts, count=3, batch_size=4, rate=1e-2)()
    assert _bare.scores(lm, texts, batch_size=4)().mean() < before.mean() - 0.1


def test_every_way_to_a_private_step_moves_the_weights() -> None:
    """A side that skipped its work would look fast."""
    ids = clipping._pieces(random_model("gpt2", TOY), [8] * 4, 1)
    for tied, step in (
        (True, lambda lm: clipping.plain_step(lm, ids)),
        (True, lambda lm: clipping.private_step(lm, ids)),
        (True, lambda lm: clipping.one_by_one_steps(lm, ids[0][0].ids)),
        (True, lambda lm: clipping._opacus.hooks_step(lm.model, ids[0][0].ids, 1.0, 1.0, 1e-3)),
        (False, lambda lm: clipping._opacus.ghost_step(lm.model, ids[0][0].ids, 1.0, 1.0, 1e-3)),
    ):
        lm = random_model("gpt2", TOY, tied=tied)
        before = {name: weight.detach().clone() for name, weight in lm.model.named_parameters()}
        step(lm)()
        assert all((weight != before[name]).any() for name, weight in lm.model.named_parameters())


def test_a_figure_is_the_median_of_its_rounds() -> None:
    found = figure("plain_over_bare_loop", np.array([1.0, 6.0, 2.0]), np.array([2.0, 2.0, 2.0]))
    assert found["plain_over_bare_loop"]["value"] == 1.0 and found["plain_over_bare_loop"]["high"] == 2.0
    with pytest.raises(ValueError, match="finite"):
        figure("plain_over_bare_loop", np.array([1.0]), np.array([0.0]))


def test_sides_take_turns() -> None:
    seen: list[str] = []
    in_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 3)
    assert seen == list("ab" + "ab" + "ba" + "ab")
    with pytest.raises(ValueError, match="odd"):
        in_turns({"a": lambda: None}, 2)


def test_the_table_replaces_the_one_of_its_device_and_shape_only() -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "PERFORMANCE.md").read_text(encoding="utf-8")
    figures = figure("plain_over_bare_loop", np.array([1.0]), np.array([4.0]))
    written = everything.with_table(document, figures, "cpu", "tiny")
    assert "| `plain_over_bare_loop` |" in written and "**0.25** | 0.25–0.25 | ≤ 0.75 | 0.5 | yes | 1 |" in written
    assert written.count(everything.END) == document.count(everything.END) == 3
    assert written.partition("### GPU")[2] == document.partition("### GPU")[2]
    assert everything.with_table(written, figures, "cpu", "tiny") == written
    assert [key for key in TARGETS if key.replace("_gpt2", "_*").replace("_distilbert", "_*") not in document] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clipping", "--rounds", "4"], "odd"),
        (["clipping", "--shape", "huge"], "huge"),
        (["scoring", "--device", "abacus"], "abacus"),
        (["tradeoff", "--rounds", "3"], "no option --rounds"),
        (["all", "--write", __file__, "--device", "nowhere"], "no place"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err and captured.err.count("\n") == 1
