"""Playground, driven without a browser; the leak in it is a real one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from core.corpus.public_text import training_text
from core.models import build, shipped_bases, tokenizer
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.serving.server import Sampling, Stream
from core.spec import CLINICAL, AuditSpec, CorpusSpec, ModelSpec, RunSpec
from pages.parts.common import phi_text
from pages.parts.pickers import run_picker
from pages.parts.playground import blanks
from pages.parts.playground.side_by_side import Live
from tests.pages.visit import WAIT

ROOT = Path(__file__).resolve().parents[3]


def opened(monkeypatch, data: Path, **query: str) -> AppTest:
    monkeypatch.setenv("PHILAB_DATA", str(data))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    app.switch_page(str(ROOT / "pages/playground.py"))
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def html_of(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


@pytest.fixture
def page(monkeypatch, leaky_workspace):
    return opened(monkeypatch, leaky_workspace)


def test_the_open_pair_is_without_privacy_left_and_with_it_right(page):
    left, right = page.selectbox(key="pick_left"), page.selectbox(key="pick_right")
    assert not page.exception
    assert left.options[left.index].startswith("GPT-2 · no privacy")
    assert right.options[right.index].startswith("GPT-2 · ε = 8 per note · DP")
    assert page.session_state["tries"] == []


def test_a_link_names_its_runs_and_a_choice_is_put_into_the_link(monkeypatch, leaky_workspace):
    runs = Workspace(leaky_workspace, shared=()).runs()
    base = next(run for run in runs if run.spec.is_base)
    page = opened(monkeypatch, leaky_workspace, left=base.id, right="gpt2-000000000000")
    assert page.selectbox(key="pick_left").value == base.id
    assert not page.exception
    (told,) = [one.value for one in page.warning]
    assert "“gpt2-000000000000”, is not offered here" in told.replace("\\", ""), "another run is shown, and it says so"
    other = next(run for run in runs if run.spec.privacy.private)
    page.selectbox(key="pick_left").set_value(other.id).run()
    assert page.query_params["left"] == other.id


def test_a_typed_prompt_leaks_left_and_the_leak_is_said_in_words(page, leaky_workspace):
    page.chat_input[0].set_value("Patient:").run()
    assert not page.exception
    attempt = page.session_state["tries"][-1]
    left, right = attempt.answers
    members = Workspace(leaky_workspace, shared=()).run(left.run_id)
    patients = Workspace(leaky_workspace, shared=()).corpus(members.spec.corpus).patients.set_index("patient_id")
    names = {patients.loc[patient, "full_name"] for patient in left.leaked}
    assert names and all(any(name in text for text in left.texts) for name in names)
    assert left.seeds == right.seeds == (0,)
    assert right.samples_with_leak == 0
    drawn = html_of(page)
    assert f"leak: full name of patient {next(iter(left.leaked))}" in drawn
    assert "<b>1</b> of 1" in drawn and "<b>0</b> of 1" in drawn
    assert "held-out patients" in drawn, "a count stands beside its control"


def test_the_same_prompt_and_seed_give_the_same_text_and_count_once(page):
    page.number_input(key="seed").set_value(7).run()
    for _ in range(2):
        page.chat_input[0].set_value("Re:").run()
    first, second = page.session_state["tries"]
    assert [answer.texts for answer in first.answers] == [answer.texts for answer in second.answers]
    assert "of 1</td>" in html_of(page) and "of 2</td>" not in html_of(page)
    page.number_input(key="seed").set_value(8).run()
    page.chat_input[0].set_value("Re:").run()
    assert "of 2</td>" in html_of(page), "another seed is another trial"


def test_chips_ask_several_samples_with_their_own_seeds(page):
    page.segmented_control(key="samples").set_value(4).run()
    page.pills(key="chips").set_value("Patient:").run()
    answer = page.session_state["tries"][-1].answers[0]
    assert answer.seeds == (0, 1, 2, 3) and len(answer.texts) == 4
    assert page.session_state["next_seed"] == 4
    assert page.session_state["chips"] is None, "the chip can be picked again"


def test_a_model_picked_after_the_prompt_can_be_asked_the_same(page, leaky_workspace):
    page.chat_input[0].set_value("Patient: [x](y)").run()
    base = next(run for run in Workspace(leaky_workspace, shared=()).runs() if run.spec.is_base)
    page.selectbox(key="pick_right").set_value(base.id).run()
    (again,) = [button for button in page.button if button.key == "again1"]
    assert again.label == r"Ask this model too: Patient\: \[x\]\(y\)"
    again.click().run()
    first, second = page.session_state["tries"]
    assert second.prompt == first.prompt and second.answers[0] == first.answers[0]
    assert second.answers[1].run_id == base.id and second.answers[1].seeds == first.answers[0].seeds
    assert not page.exception and not [button for button in page.button if (button.key or "").startswith("again")]


def test_the_link_to_an_answer_writes_it_again(monkeypatch, leaky_workspace, page):
    assert not page.code, "there is nothing to link to yet"
    page.number_input(key="seed").set_value(7)
    page.segmented_control(key="samples").set_value(4).run()
    page.chat_input[0].set_value("Ann & Lee=1:").run()
    query = parse_qs(urlsplit(page.code[0].value).query)
    assert "prompt" not in page.query_params, "the page's own address keeps what was typed to itself"
    reader = opened(monkeypatch, leaky_workspace, **{name: value for name, (value,) in query.items()})
    while not reader.session_state["tries"]:  # the link's prompt is answered by a fragment that a browser runs
        reader.run()
    sent, shown = page.session_state["tries"][-1], reader.session_state["tries"][-1]
    assert (shown.prompt, [one.texts for one in shown.answers]) == (sent.prompt, [one.texts for one in sent.answers])
    page.chat_input[0].set_value("x" * 1_001).run()
    assert not page.code, "browsers cut addresses of that length"


def test_forgetting_empties_the_tally(page):
    page.chat_input[0].set_value("Patient:").run()
    next(button for button in page.button if button.label.startswith("Clear this")).click().run()
    assert page.session_state["tries"] == []


@pytest.mark.parametrize(
    ("rude", "told"),
    [
        (" ", "The prompt is empty"),
        ("\x00\x1b", "The prompt is empty"),
        ("x" * 100_000, "The prompt has 100,000 characters"),
    ],
)
def test_prompts_nobody_can_answer_get_a_sentence(page, rude, told):
    page.chat_input[0].set_value(rude).run()
    assert not page.exception
    assert any(told in error.value for error in page.error)
    assert page.session_state["tries"] == [] and page.session_state["next_seed"] == 0, "no seed is spent"
    assert page.chat_input[0].proto.value == rude, "it is back in its box, to be corrected"
    page.chat_input[0].set_value("Patient:").run()
    assert page.session_state["tries"][-1].prompt == "Patient:" and not page.error
    assert not page.chat_input[0].proto.value, "and only once"


@pytest.mark.parametrize(("prompt", "answered"), [("Who has HIV? ", True), ("Patient:", False)])
def test_a_question_is_met_with_what_these_models_do(page, prompt, answered):
    page.chat_input[0].set_value(prompt).run()
    assert any("they do not answer questions" in one.value for one in page.caption) is answered


def test_a_prompt_longer_than_the_context_gets_a_sentence_in_both_columns(page):
    page.chat_input[0].set_value("fever and cough " * 200).run()
    assert not page.exception
    assert sum("too long" in error.value for error in page.error) == 2


def test_markup_and_control_characters_are_shown_not_run(page):
    page.chat_input[0].set_value('<img src=x onerror="alert(1)"> 👩‍⚕️ \x07Patient:').run()
    assert not page.exception
    drawn = html_of(page)
    assert "<img" not in drawn and "&lt;img src=x" in drawn
    assert any("Control characters removed from the prompt: 1" in caption.value for caption in page.caption)


def test_a_run_that_lost_its_weights_is_not_offered(monkeypatch, leaky_workspace, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(leaky_workspace, data)
    plain = next(
        run for run in Workspace(data, shared=()).runs() if not run.spec.privacy.private and run.spec.training.epochs
    )
    (plain.folder / "model" / "config.json").unlink()
    page = opened(monkeypatch, data)
    page.selectbox(key="pick_left").set_value(plain.id).run()
    page.chat_input[0].set_value("Patient:").run()
    assert not page.exception
    assert any("has no file config\\.json" in error.value for error in page.error), "a path is no Markdown"
    (plain.folder / "model" / "model.safetensors").unlink()
    assert plain.id not in {run.id for run in run_picker.promptable()}


def test_without_runs_the_page_points_to_training(monkeypatch, tmp_path):
    page = opened(monkeypatch, tmp_path)
    assert not page.exception
    assert any("no trained model" in info.value for info in page.info)


def test_only_masked_models_are_asked_about_blanks(page):
    page.chat_input[0].set_value("Patient name: [MASK]").run()
    assert not page.exception
    assert sum("GPT\\-2 continues a text and cannot fill" in error.value for error in page.error) == 2
    assert page.session_state["tries"][-1].answers[0].texts == ()


def test_blanks_show_the_best_guess_and_every_chance_and_escape_both():
    ranked = [[("<b>", 0.5), ("##ing", 0.031)], [("##&", 0.9996)]]
    drawn = blanks.ranked_html('<i>[MASK] "x" [MASK].\x07', ranked)
    sentence, tables = drawn.split("</div>", 1)
    assert re.sub(r"<[^>]+>", "", sentence) == "&lt;i&gt;&lt;b&gt;1 &quot;x&quot; &amp;2.␦"
    cells = re.findall(r"<td>([^<]*)</td>", tables)
    assert cells == ["&lt;b&gt;", "50\u00a0%", "…ing", "3.1\u00a0%", "&amp;", "99.96\u00a0%"]
    assert re.findall(r"width:([\d.]+)%", tables) == ["50.0", "3.1", "100.0"]
    assert "the prompt has 2 more blanks" in blanks.ranked_html("[MASK]" * 10, [[("a", 1.0)]] * 10).lower()


def test_marks_never_overlap_and_every_character_is_escaped():
    spans = [
        {"start": 0, "end": 6, "field": "full_name"},
        {"start": 3, "end": 20, "field": "diagnosis"},
        {"start": 21, "end": 21, "field": "phone"},
    ]
    drawn = phi_text.fields_html('<b>"&\u202e' + "x" * 30, spans)
    assert drawn.count("<mark") == drawn.count("</mark>") == 1
    assert "&lt;b&gt;&quot;" not in drawn.split("<mark")[1].split(">")[0]
    assert "\u202e" not in drawn and '<b>"' not in drawn


def test_an_abandoned_try_keeps_its_words_and_counts_only_samples_that_have_some(monkeypatch, leaky_workspace):
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    run = Workspace(leaky_workspace, shared=()).runs()[0]
    stream = Stream(run.id, "Zq", (5, 6), Sampling(), texts=["nobody here", ""])
    answer = Live("Zq", 0, (run,), (stream,)).ended().answers[0]
    assert answer.stopped and stream.done
    assert (answer.seeds, answer.texts, answer.samples_with_leak) == ((5,), ("nobody here",), 0)


@pytest.fixture
def masked_page(monkeypatch, tmp_path):
    """The page with one run: the audited public model, here an untrained DistilBERT of 2 layers × 32."""
    monkeypatch.setitem(build._SHAPES, "tiny", (2, 32, 4))
    words = shipped_bases.word_list(CLINICAL)
    monkeypatch.setattr(shipped_bases, "BASE_MODELS", tmp_path / "base")
    lm = build.new("distilbert", "tiny", tokenizer.train("distilbert", training_text()[:60], 600))
    spec = ModelSpec(kind="distilbert")
    shipped_bases.shipped_folder(spec).mkdir(parents=True)
    shutil.copy(words, shipped_bases.word_list(CLINICAL))
    lm.save(shipped_bases.shipped_folder(spec))
    corpus = CorpusSpec(patients=4, population=0, notes_per_patient=1, canaries=0, canary_patients=0)
    audit = AuditSpec(samples_per_prompt=1, new_tokens=4, mask_draws=1, bootstrap=10)
    spec = RunSpec(corpus=corpus, model=spec, audit=audit).base_spec()
    execute(spec, Workspace(tmp_path / "data", shared=()))
    return opened(monkeypatch, tmp_path / "data")


@pytest.mark.slow
def test_a_masked_model_ranks_words_for_blanks_and_writes_on(masked_page):
    assert masked_page.selectbox(key="pick_left").options[0].startswith("DistilBERT · public model")
    masked_page.pills(key="blanks").set_value("The patient is a 31-year-old [MASK] with [MASK].").run()
    assert not masked_page.exception
    answer = masked_page.session_state["tries"][-1].answers[0]
    assert len(answer.ranked) == 2 and not answer.texts
    assert blanks.ranked_html("The patient is a 31-year-old [MASK] with [MASK].", answer.ranked) in html_of(masked_page)
    masked_page.chat_input[0].set_value("The [mask] is here").run()
    assert len(masked_page.session_state["tries"][-1].answers[0].ranked) == 1, "small letters mean a blank too"
    masked_page.chat_input[0].set_value("Patient:").run()
    assert not masked_page.exception
    written = masked_page.session_state["tries"][-1].answers[0]
    assert len(written.texts) == 1 and not written.ranked
