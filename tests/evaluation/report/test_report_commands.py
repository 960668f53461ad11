"""The commands that a report names make the very runs that it tells of."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from core.cli import training
from core.evaluation.report import html
from core.evaluation.report.commands import audit_command, command, commands, parts_of_sentence, prove_command
from core.spec import (
    CORPUS_PRESETS,
    AuditSpec,
    CorpusSpec,
    ModelSpec,
    PrivacySpec,
    RiskLimit,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
    audit_of,
    recipe,
)

SPECS = [
    RunSpec(
        privacy=PrivacySpec(target_epsilon=2.5, delta=1e-6, unit="patient"),
        training=recipe("gpt2", PrivacySpec(target_epsilon=2.5), seed=3),
    ),
    RunSpec(
        corpus=CORPUS_PRESETS["smoke"],
        model=ModelSpec(kind="bert"),
        privacy=PrivacySpec(noise_multiplier=1.3, accountant="rdp", max_grad_norm=0.5),
        training=recipe("bert", PrivacySpec(noise_multiplier=1.3), epochs=2).model_copy(update={"batch_size": 16}),
        audit=AuditSpec(samples_per_prompt=7),
    ),
    RunSpec(corpus=CorpusSpec(patients=40), training=recipe("gpt2")),
    *(
        RunSpec(
            privacy=PrivacySpec(noise_multiplier=1.1382, risk_limit=limit),
            training=recipe("gpt2", PrivacySpec(noise_multiplier=1.1382)),
        )
        for limit in (RiskLimit(caught=0.07, accused=0.015), RiskLimit(right=0.57))
    ),
    RunSpec(
        privacy=PrivacySpec(target_epsilon=2.5, noise_source="secret"),
        training=recipe("gpt2", PrivacySpec(target_epsilon=2.5)),
    ),
    RunSpec(model=ModelSpec(kind="bert"), training=recipe("bert"), vocabulary=VocabularySpec(pieces=99)),
    RunSpec(
        corpus=CORPUS_PRESETS["smoke"],
        model=ModelSpec(kind="bert"),
        privacy=PrivacySpec(target_epsilon=8.0),
        training=recipe("bert", PrivacySpec(target_epsilon=8.0)),
        vocabulary=VocabularySpec(epsilon=0.5, delta=1e-7, words=3, noise="laplace"),
    ),
    RunSpec(
        privacy=PrivacySpec(target_epsilon=4.0, unit="patient", max_grad_norm=0.5),
        training=recipe("gpt2", PrivacySpec(target_epsilon=4.0)),
    ).clipped_spec(),
    *(
        RunSpec(
            model=ModelSpec(kind="distilbert"),
            privacy=PrivacySpec(target_epsilon=8.0),
            training=TrainingSpec(**{**recipe("distilbert", PrivacySpec(target_epsilon=8.0)).model_dump(), **masks}),
        )
        for masks in ({}, {"masks": 4, "mask_share": 0.3}, {"mask_share": 0.4})
    ),
    RunSpec(model=ModelSpec(kind="bert"), training=recipe("bert", notes=48_000)),
    RunSpec(
        corpus=CORPUS_PRESETS["classroom-12k"],
        privacy=PrivacySpec(target_epsilon=8.0),
        training=recipe("gpt2", PrivacySpec(target_epsilon=8.0), notes=12_040),
        audit=audit_of(CORPUS_PRESETS["classroom-12k"]),
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.run_id)
def test_a_command_makes_the_very_run(spec, monkeypatch, tmp_path):
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "checked", lambda workspace, specs, batch_given: asked.extend(specs) or specs)
    monkeypatch.setattr(training, "_execute", lambda spec, workspace: None)
    monkeypatch.setattr(training, "described", lambda run: {})
    monkeypatch.setattr(training, "_summary_text", lambda run: "")
    lines = commands([spec])
    for line in lines[:-1]:
        name = line.rsplit(" > ", 1)[1]
        (tmp_path / name).write_text(line.removeprefix("echo '").rsplit("' > ", 1)[0])
    app = typer.Typer()
    app.command()(training.train)
    done = CliRunner().invoke(app, lines[-1].removeprefix("python -m core train ").split(" "))
    assert done.exit_code == 0, done.output
    assert asked == [spec]


def test_what_the_command_line_cannot_say_is_made_from_the_spec():
    odd = RunSpec(corpus=CORPUS_PRESETS["smoke"], training=TrainingSpec(epochs=3, warmup=0.9))
    assert "spec.json" in command(odd) and odd.run_id in command(odd)
    usual = TrainingSpec(**{**recipe("bert").model_dump(), "masks": 1})  # the command would leave it out
    assert "spec.json" in command(RunSpec(model=ModelSpec(kind="bert"), training=usual))
    assert command(odd.base_spec()).startswith("#")
    assert len(commands([odd, odd])) == 1


def test_commands_within_sentences_are_set_as_code_and_nothing_else_is():
    audit, prove = audit_command("gpt2-0a31e8681aba"), prove_command("gpt2-0a31e8681aba", seed=3)
    assert parts_of_sentence(f"Other attacks: {audit}") == [("Other attacks: ", False), (audit, True)]
    assert parts_of_sentence(f"{prove} sees every step.") == [(prove, True), (" sees every step.", False)]
    told = [("Train it again with ", False), ("--secret-noise", True), (", audit it.", False)]
    assert parts_of_sentence("Train it again with --secret-noise, audit it.") == told
    assert parts_of_sentence("Train it again with `--secret-noise`, audit it.") == told, "the ticks are not shown"
    plain = "A sentence -- with dashes, a well-known word and python."
    assert parts_of_sentence(plain) == [(plain, False)]
    macro = html._templates.get_template("macros.html.j2").module.coded
    assert macro(f"<b> {audit}.") == f"&lt;b&gt; <code>{audit}</code>."
