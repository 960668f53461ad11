"""The app's settings: Streamlit knows them, and words can be read in both themes.

That is a contrast of at least 4.5 : 1 (WCAG 2.2, success criterion 1.4.3).
"""

from __future__ import annotations

import re
import tomllib

import pytest
from streamlit import config

from tests.pages.visit import ROOT

SETTINGS = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
THEME = SETTINGS["theme"]
STYLE = (ROOT / "assets/style.css").read_text(encoding="utf-8")
LEAST = 4.5


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2): linear light, weighted."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(above: str, below: str, share: float) -> str:
    """`above` at the opacity `share` over `below`."""
    pairs = [(int(above[at : at + 2], 16), int(below[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * top + (1 - share) * ground):02x}" for top, ground in pairs)


def named(settings: dict, section: str = "") -> dict[str, object]:
    """Settings as Streamlit names them, `section.option`."""
    found: dict[str, object] = {}
    for name, value in settings.items():
        found |= named(value, f"{section}{name}.") if isinstance(value, dict) else {section + name: value}
    return found


def test_streamlit_knows_every_setting():
    """One that was renamed would be passed over with a line in the log, and the server would be slow or talkative."""
    for name, value in named(SETTINGS).items():
        assert config.get_option(name) == value, name


def test_the_contrast_of_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#2A86C4", "#FFFFFF") < LEAST, "the blue that dark pages had before"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_white_letters_on_the_primary_colour(theme):
    """Primary buttons, chosen options of a multiselect, ticks: Streamlit writes them in white in both themes."""
    assert contrast("#ffffff", THEME[theme]["primaryColor"]) >= LEAST


@pytest.mark.parametrize(("theme", "place"), [("light", 1), ("dark", 2)])
def test_words_in_the_primary_colour(theme, place):
    """Chosen segments, tabs, a slider's value: assets/style.css gives them a colour of their own."""
    rule = re.search(r"stSliderThumbValue[^{]*\{\s*color: light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    for ground in (THEME[theme]["backgroundColor"], THEME[theme]["secondaryBackgroundColor"]):  # page and sidebar
        assert contrast(rule[place], ground) >= LEAST
        tint = mixed(THEME[theme]["primaryColor"], ground, 0.1)  # a chosen segment's ground
        assert contrast(rule[place], tint) >= LEAST


@pytest.mark.parametrize(("theme", "place"), [("light", 1), ("dark", 2)])
def test_letters_of_charts(theme, place):
    """Axes, notes and labels: Streamlit's own grey has 3.8 : 1 on white."""
    rules = re.findall(r"\{ fill: light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    assert len(rules) >= 2
    for rule in rules:
        assert contrast(rule[place - 1], THEME[theme]["backgroundColor"]) >= LEAST


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["text", "link", "red", "orange", "yellow", "blue", "green", "violet", "gray"])
def test_coloured_words_on_the_page(theme, name):
    colours = THEME[theme]
    assert contrast(colours[f"{name}Color"], colours["backgroundColor"]) >= LEAST


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_captions_fade_and_can_still_be_read(theme):
    colours = THEME[theme]
    assert contrast(mixed(colours["textColor"], colours["backgroundColor"], 0.6), colours["backgroundColor"]) >= LEAST


def test_tags_in_small_cards_have_at_least_twelve_pixels():
    rule = re.search(r"mark\.phi > b \{[^}]*?font-size: max\(([\d.]+)em, ([\d.]+)rem\)", STYLE)
    assert rule is not None and float(rule[2]) * THEME["baseFontSize"] >= 12
