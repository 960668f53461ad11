"""Style sheets and scripts of the pages, from assets/."""

from __future__ import annotations

from pathlib import Path

_ASSETS = Path(__file__).resolve().parents[3] / "assets"


def style(name: str) -> str:
    """The style sheet assets/<name>.css."""
    return (_ASSETS / f"{name}.css").read_text(encoding="utf-8")


def component(name: str) -> str:
    """A style sheet or script of a component: assets/components/<name>."""
    return (_ASSETS / "components" / name).read_text(encoding="utf-8")
