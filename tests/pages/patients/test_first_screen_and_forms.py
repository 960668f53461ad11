"""What a link to a patient opens, and the forms of numbers in the tables of the Patients page."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from core.runs.store import Workspace
from pages.parts.common import scroll
from pages.parts.patients import views
from tests.pages.visit import visit

opened = partial(visit, "patients")
DEMO = Path(__file__).resolve().parents[3] / "assets" / "demo"
SHIPPED = "gpt2-2be987fac6e6"  # ε = 8 per note, with a full audit


@pytest.fixture
def smoke(smoke_workspace, smoke_specs, monkeypatch):
    """The run without privacy, and two of its patients."""
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    people = Workspace(smoke_workspace, shared=()).corpus(run.spec.corpus).patients.set_index("split")["patient_id"]
    return run.id, people["member"].iloc[0], people["heldout"].iloc[0]


@pytest.fixture
def shipped(monkeypatch, tmp_path) -> str:
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    return SHIPPED


def texts_of(app, column: str) -> pd.DataFrame:
    """The table with this column as the page writes it."""
    proto = next(frame.proto for frame in app.dataframe if column in frame.value.columns)
    return pa.ipc.open_stream(proto.arrow_data.styler.display_values).read_pandas()


def test_a_link_scrolls_to_its_patients_card_and_no_knob_does(smoke):
    run, member, other = smoke
    assert scroll._ASKED not in opened(run=run).session_state, "without a patient the page opens at its question"
    app = opened(run=run, patient=member)
    assert app.session_state[scroll._ASKED] == 1
    app.selectbox(key="attack").set_value("loss").run()
    app.text_input(key="patient").set_value(other).run()
    assert not app.exception and app.session_state[scroll._ASKED] == 1


def test_shares_and_scores_are_written_as_in_sentences(smoke):
    app = opened(run=smoke[0], patient=smoke[1])
    shares = [texts_of(app, "caught by")[name] for name in (views.RARER, views.PERCENTILE)]
    shares += [texts_of(app, "disease")["share"], texts_of(app, "texts with a leak")["score percentile"]]
    assert all(share.endswith("\u00a0%") for column in shares for share in column)
    scores = texts_of(app, "threshold")["score"]
    assert any("−" in score for score in scores) and not any("-" in score for score in scores)


def test_signs_and_p_of_a_comparison_are_written_as_in_sentences(shipped):
    table = texts_of(opened(run=shipped, beside="other attacks"), "rarity")
    assert "1.00" in table["p"].tolist() and "1.0000" not in table["p"].tolist()
    for name in ("change", "ρ held out"):
        assert any("−" in text for text in table[name]) and not any("-" in text for text in table[name])
    assert [views._p_text(p) for p in (1.0, 0.06, 0.0004)] == ["1.00", "0.060", "< 0.001"]


def test_the_caption_says_what_is_compared_and_the_list_why_the_numbers_of_attacks_differ(shipped):
    captions = [caption.value for caption in opened(run=shipped).caption]
    assert views.CAUGHT_OF in captions
    assert any("how often a member scores above a held-out patient in the same bucket" in one for one in captions)
    captions = [caption.value for caption in opened(run=shipped, judge="admission").caption]
    assert any("an admission of a member scores above one of a held-out patient" in one for one in captions)


@pytest.mark.parametrize(("key", "typed", "everybody"), [("age_to", 300, True), ("age_from", 300, False)])
def test_any_number_filters(smoke, key, typed, everybody):
    """A box with a range would keep 300 in the browser, above the patients of the number before."""
    app = opened(run=smoke[0])
    box = app.number_input(key=key)
    assert box.min is None and box.max is None
    app = box.set_value(typed).run()
    assert not app.exception and any("**24 patients**" in one.value for one in app.markdown) == everybody
