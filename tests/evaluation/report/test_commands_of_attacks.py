"""A report's commands repeat every attack it quotes: full audits, shadow models and planted gradients."""

from __future__ import annotations

from core.common.program import PROGRAM
from core.evaluation.report.commands import prove_command, shadows_command
from core.evaluation.report.facts import build
from core.runs.store import Workspace


def test_the_shipped_pair_is_attacked_again_by_its_commands() -> None:
    shipped = Workspace(PROGRAM / "nowhere", shared=(PROGRAM / "assets" / "demo",))
    plain, private = "gpt2-804b3c7f558b", "gpt2-2be987fac6e6"
    lines = build(shipped, [shipped.run(plain), shipped.run(private)], now=0.0).facts["commands"]
    attacks = [line for line in lines if plain in line or private in line][:-1]  # the last one writes the report
    assert attacks == [
        f"python -m core audit {plain} --suite full",
        f"python -m core shadows {plain} --count 10",
        f"python -m core audit {private} --suite full",
        f"python -m core shadows {private}",
        f"python -m core prove {private} --canaries 5000",
    ]


def test_what_differs_from_the_usual_is_written() -> None:
    assert shadows_command("a", 64) == shadows_command("a") == "python -m core shadows a"
    assert shadows_command("a", 128).endswith(" --count 128")
    assert prove_command("a") == "python -m core prove a --canaries 5000"
    assert prove_command("a", 20_000, seed=3).endswith(" --canaries 20000 --seed 3")
