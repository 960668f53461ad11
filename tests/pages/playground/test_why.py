"""Why a model wrote something: the notes it comes from, its chance in each model, and the text token by token."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.corpus.passages import Passage
from core.models.build import load
from core.models.token_view import TokenView, log_chance, token_views
from core.runs.store import Workspace
from core.spec import DefenceSpec
from pages.parts.common import phi_text
from pages.parts.playground import inspection, side_by_side, token_strip, why
from pages.parts.playground.side_by_side import Answer, text_key
from tests.pages.playground.test_replay import Mark
from tests.pages.visit import WAIT

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def page(monkeypatch, leaky_workspace):
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    return app.switch_page(str(ROOT / "pages/playground.py")).run()


@pytest.fixture
def workspace(leaky_workspace) -> Workspace:
    return Workspace(leaky_workspace, shared=())


def html_of(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def test_a_leaked_name_opens_its_notes_and_its_chance_in_each_model(page, workspace):
    page.chat_input[0].set_value("Patient:").run()
    answer = page.session_state["tries"][-1].answers[0]
    span = next(span for span in answer.spans[0] if span.kind == "leak")
    assert f'data-why="{text_key(answer.run_id, answer.texts[0])}-{span.start}"' in html_of(page)
    next(button for button in page.button if button.label == "Why did it leak?").click().run()
    assert not page.exception
    value = answer.texts[0][span.start : span.end]
    run = workspace.run(answer.run_id)
    holders = [text for text in workspace.corpus(run.spec.corpus).training_notes()["text"] if value in text]
    times = sum(text.count(value) for text in holders)
    told = "\n".join(element.value for element in page.markdown)
    assert re.search(
        rf"“{value}” appears {'once' if times == 1 else rf'..{times} times..'} in the training notes", told
    )
    text = f"Patient:{answer.texts[0]}"
    first = text.index(value)
    chance = math.exp(log_chance(token_views(run.model(), text), first, first + len(value)))
    public = math.exp(log_chance(token_views(load(run.spec.model), text), first, first + len(value)))
    assert chance > 100 * public, "it knows this name by heart"
    assert f"with a chance of **{why.chance_text(chance)}**" in told
    assert f"public model **{why.chance_text(public)}**" in told
    assert "the same words" in html_of(page)


def test_the_words_of_the_prompt_are_not_counted_as_the_model_s(page, monkeypatch):
    page.chat_input[0].set_value("Patient:").run()
    answer, looked = page.session_state["tries"][-1].answers[0], []
    monkeypatch.setattr(why, "_passages", lambda text, start, end, run: looked.append(text[start:end] + text) or [])
    next(button for button in page.button if button.label == "Why did it leak?").click().run()
    assert not page.exception
    span = next(span for span in answer.spans[0] if span.kind == "leak")
    assert looked == [answer.texts[0][span.start : span.end] + answer.texts[0]]


def test_the_newest_text_is_judged_by_every_model(page):
    next(button for button in page.button if button.label == "Look inside").click().run()
    assert not page.exception and not page.error
    assert any(
        "Orange: more likely under the first model than under the public one" in one.value for one in page.caption
    )


def test_a_mark_is_found_by_its_text_and_place_alone():
    one = Answer("gpt2-1", (0,), ("to Ann Lee",), ((Mark(3, 10, "leak"),),))
    key = text_key("gpt2-1", "to Ann Lee")
    assert re.fullmatch("[0-9a-f]{16}", key)
    written = why.find([("x", one)], key, 3)
    assert written is not None and (written.value, written.prompt) == ("Ann Lee", "x")
    assert why.find([("x", one)], key, 4) is None
    assert why.find([("x", one)], text_key("gpt2-2", "to Ann Lee"), 3) is None


def test_marks_can_be_clicked_only_where_a_key_is_given():
    spans = [Mark(0, 3, "leak")]
    assert "data-why" not in phi_text.leaks_html("Ann", spans)
    assert 'role="button" tabindex="0" data-why="ab-0"' in phi_text.leaks_html("Ann", spans, key="ab")
    assert 'data-why="ab-0"' in phi_text.cards_html(["Ann"], [spans], prompt="", keys=["ab"])
    assert 'data-why="&lt;-0"' in phi_text.leaks_html("Ann", spans, key="<")


def test_the_source_in_a_sentence(workspace):
    run = next(run for run in workspace.runs() if not run.spec.is_base and not run.spec.privacy.private)
    written = why.Written(run.id, "", "Ann Lee", Mark(0, 7, "leak"))
    both = [Passage("N1", "P1", 3, 0, 7, 5), Passage("N2", "P1", 1, 0, 7, 2)]
    assert why.source_sentence(written, both, run) == (
        "“Ann Lee” appears **4 times** in the training notes, in 2 notes of patient P1. The model read these notes 25 "
        "times each. The longest run of words that its text shares with one of them is **5 words**."
    )
    one = [Passage("N1", "P1", 1, 0, 7, 1)]
    assert why.source_sentence(written, one, run) == (
        "“Ann Lee” appears once in the training notes, in one note of patient P1. The model read this note 25 times."
    )
    assert "appears in **none** of the training notes in this spelling. The patient's" in why.source_sentence(
        written, [], run
    )
    base = next(run for run in workspace.runs() if run.spec.is_base)
    assert "was trained on none of these notes" in why.source_sentence(written, [], base)


def test_models_on_one_text_are_the_public_one_and_those_of_the_same_kind(monkeypatch, workspace):
    monkeypatch.setattr(inspection.owner, "workspace", lambda: workspace)
    plain, private, base = (
        next(run for run in workspace.runs() if wanted(run.spec))
        for wanted in (
            lambda spec: not spec.is_base and not spec.privacy.private,
            lambda spec: spec.privacy.private,
            lambda spec: spec.is_base,
        )
    )
    assert inspection.with_public([plain, private, plain]) == [plain, base, private]
    assert inspection.with_public([base, plain]) == [base, plain]


def test_no_two_models_on_one_text_have_the_same_name(workspace):
    plain = next(run for run in workspace.runs() if not run.spec.is_base and not run.spec.privacy.private)
    base = next(run for run in workspace.runs() if run.spec.is_base)

    def like(run, **changes):
        spec = run.spec.model_copy(update=changes)
        return replace(run, spec=spec, folder=run.folder.with_name(spec.run_id))

    seeded = like(plain, training=plain.spec.training.model_copy(update={"seed": 1}))
    cleaned = like(plain, defence=DefenceSpec(deduplicate=True))
    without = like(plain, without=("P0001",))
    assert inspection.names([plain, base, cleaned, without]) == [
        "no privacy",
        "public model",
        "no privacy, deduplicated",
        "without P0001",
    ]
    twice = [plain, base, seeded, without, like(seeded, without=("P0001",))]
    assert inspection.names(twice) == [
        "no privacy (seed 0)",
        "public model",
        "no privacy (seed 1)",
        *(f"without P0001 ({run.id[-4:]})" for run in twice[3:]),
    ]
    streams = [SimpleNamespace(wait=lambda seconds: None, done=True, error=None, views=[]) for _ in twice]
    assert [one.name for one in inspection.finish(twice, streams)] == inspection.names(twice)


def test_the_strip_has_every_character_once_and_compares_only_the_same_tokens():
    text = "Dr. Müller\nsaw"
    mine = [
        TokenView(0, 2, -1.0, ((" D", 0.5),)),
        TokenView(4, 6, -0.1, ()),
        TokenView(5, 6, -0.2, ()),
        TokenView(11, 14, -9.0, ()),
    ]
    other = [TokenView(0, 2, -1.0 - math.log(1_000), ()), TokenView(4, 10, -0.1, ()), TokenView(11, 14, -2.0, ())]
    drawn = token_strip.data(text, [token_strip.Seen("a", mine), token_strip.Seen("b", other)], reference=1, at=11)
    assert "".join(token["before"] + token["text"] for token in drawn["tokens"]) + drawn["after"] == text
    heats = [token["heat"] for token in drawn["tokens"]]
    assert heats == [pytest.approx(1.0), 0.0, 0.0, -1.0], "no colour for other tokens, and none beyond the full one"
    assert drawn["chosen"] == 3
    turned = token_strip.data(
        "a\u202eb", [token_strip.Seen("a", [TokenView(0, 3, -1.0, (("\u202e", 0.5),))])], reference=None
    )
    assert turned["tokens"][0]["text"] == "a␦b" and turned["tokens"][0]["models"][0]["likeliest"][0][0] == "␦"
    assert [model["chance"] for model in drawn["tokens"][2]["models"]] == ["82\u00a0%", "other tokens here"]


def test_a_screen_reader_is_told_how_many_samples_of_the_newest_prompt_leak(workspace):
    left, right = workspace.runs()[:2]
    leak, invented = Mark(0, 3, "leak"), Mark(0, 3, "invented")

    def sample(run, *spans) -> Answer:
        return Answer(run.id, (0,), ("Ann",), (spans,))

    newest = [("Re:", sample(left, leak)), ("Re:", sample(left, invented)), ("Re:", sample(right))]
    older = [("Patient:", sample(left, leak)), ("Patient:", sample(right, leak))]
    assert why.told(newest + older, [left, right]) == ("Left model: 1 of 2 texts leak. Right model: 0 of 1 texts leak.")
    assert why.told([], [left, right]) == ""


def test_only_recorded_attempts_have_the_audits_seeds():
    """A stop drops samples without a word, so seeds typed in a row may have gaps, too."""

    def seeds_text(*seeds: int, recorded: bool = False) -> str:
        texts, spans = ("Ann",) * len(seeds), ((),) * len(seeds)
        answer = Answer("gpt2-1", seeds, texts, spans, stopped=True, recorded=recorded)
        assert {own.recorded for _, own in side_by_side.Try("Re:", (answer,)).samples()} == {recorded}
        return side_by_side._seeds_text(answer)

    assert seeds_text(3, 5) == "seeds 3 and 5" and seeds_text(3, 5, 6) == "seeds 3, 5 and 6"
    assert seeds_text(3) == "seed 3" and seeds_text(3, 4, 5) == "seeds 3 to 5"
    assert seeds_text(7, 2**40, recorded=True) == "the audit’s seeds, written again live"
    assert seeds_text(2**40, recorded=True) == "the audit’s seed, written again live"


def test_nothing_is_called_no_leak_where_no_identifier_is_known(workspace):
    """Uploads may come without identifiers: a green badge would say that the model is safe."""
    (run,) = workspace.runs()[:1]
    answer = Answer(run.id, (0,), ("Ann Lee",), ((),), judged=False)
    assert "cannot be checked" in side_by_side._badge(answer) and "no leak in" not in side_by_side._badge(answer)
    assert "no leak in" in side_by_side._badge(Answer(run.id, (0,), ("Ann Lee",), ((),)))
    two = Answer(run.id, (1, 2**40), ("Ann Lee", "Bea"), ((), ()))
    assert "no leak in these 2 texts" in side_by_side._badge(two)
    leak = SimpleNamespace(kind="leak", patient_ids=("P1", "P2"))
    one = SimpleNamespace(kind="leak", patient_ids=("P3",))
    assert "2 of 2 texts leak: 3 patients (1 text fits several)" in side_by_side._badge(
        Answer(run.id, (0, 1), ("a", "b"), ((leak,), (one,)))
    )
    assert "leak: 2 patients]" in side_by_side._badge(
        Answer(run.id, (0, 1), ("a", "b"), ((one,), (SimpleNamespace(kind="leak", patient_ids=("P4",)),)))
    )
    half = SimpleNamespace(texts=["Ann L"])
    assert side_by_side._repeated(half, two).endswith(":small[recorded in the audit; writing it again: 50\u00a0%]")
    (sample,) = (own for _, own in side_by_side.Try("Re:", (answer,)).samples())
    assert not sample.judged
    assert why.told([("Re:", answer)], [run]) == (
        "Left model: leaks cannot be found, since no identifier of its patients is known."
    )
