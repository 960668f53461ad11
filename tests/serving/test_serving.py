"""The server of the playground, on untrained models of 2 layers × 32."""

from __future__ import annotations

import threading
import unicodedata
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.models.generation import generate
from core.models.token_view import token_views
from core.runs.run import RunBroken, RunNotFound
from core.serving.server import LONGEST_PROMPT, PromptError, Sampling, Server, ServingError, Stream, clean_prompt
from tests import tiny_models

SHORT = Sampling(new_tokens=12)
PROMPTS = ("Patient:", "The patient was given a long list of", "Re:", "MRN 12")


@pytest.fixture(scope="module")
def tiny():
    return {kind: tiny_models.tiny(kind, seed=7, spread=6.0) for kind in ("gpt2", "distilbert")}


class Shelf:
    """What the server needs of a Workspace: `run(id)`, whose `.model()` loads, counted."""

    def __init__(self, tiny):
        self.tiny, self.loads, self.weights = tiny, [], (1,)

    def run(self, run_id):
        if run_id == "no-weights":
            return SimpleNamespace(model=self.broken, weights_identity=None)
        if run_id not in ("gpt2", "other", "distilbert"):
            raise RunNotFound(f"There is no run {run_id}.")
        return SimpleNamespace(model=lambda: self.load(run_id), weights_identity=self.weights)

    def load(self, run_id):
        self.loads.append(run_id)
        return self.tiny["distilbert" if run_id == "distilbert" else "gpt2"]

    def broken(self):
        raise RunBroken("Run no-weights keeps no weights (model/model.safetensors).")


@pytest.fixture
def shelf(tiny):
    return Shelf(tiny)


@pytest.fixture
def server(shelf):
    server = Server(shelf, gather_seconds=0.2)
    yield server
    server.close()


@pytest.fixture
def gathered(monkeypatch):
    """The server gathers requests until this is set, instead of for some time."""
    enough = threading.Event()
    monkeypatch.setattr("core.serving.server.time", SimpleNamespace(sleep=lambda seconds: enough.wait(60)))
    return enough


def test_a_seed_gives_the_same_text_alone_and_among_many_browsers(server, tiny, gathered):
    asked = [(prompt, (seed, seed + 100)) for prompt in PROMPTS for seed in range(4)]
    with ThreadPoolExecutor(16) as browsers:
        streams = list(browsers.map(lambda a: server.generate("gpt2", a[0], seeds=a[1], sampling=SHORT), asked))
    gathered.set()
    together = [stream.result(60) for stream in streams]
    assert list(server.batches) == [32], "prompts that arrive together share a batch"
    for (prompt, seeds), texts in zip(asked, together, strict=True):
        alone = [generate.sample(tiny["gpt2"], [prompt], new_tokens=12, seeds=[seed])[0] for seed in seeds]
        assert texts == alone
    assert len({text for texts in together for text in texts}) > 8


def test_text_streams_and_the_last_look_is_the_result(server, monkeypatch):
    written, seen, update = threading.Event(), threading.Event(), Stream.update

    def waiting(stream, row, text):
        """The server writes on once this text was looked at, however long that takes."""
        goes_on = update(stream, row, text)
        seen.clear()
        written.set()
        assert seen.wait(60)
        return goes_on

    monkeypatch.setattr(Stream, "update", waiting)
    stream = server.generate("gpt2", "Patient:", seeds=(3,), sampling=Sampling(new_tokens=40))
    looks = [stream.texts[0]]
    while not stream.wait(0.001):
        if written.is_set():
            looks.append(stream.texts[0])
            written.clear()
            seen.set()
    looks.append(stream.texts[0])
    assert len(set(looks)) > 2
    assert all(later.startswith(earlier) for earlier, later in zip(looks, looks[1:], strict=False))
    assert [looks[-1]] == stream.result(0)


def test_a_text_is_inspected_token_by_token(server, tiny):
    both = [server.inspect(run_id, "Patient: Ann") for run_id in ("gpt2", "distilbert")]
    for stream in both:
        stream.result(60)
        assert stream.views == token_views(tiny[stream.run_id], "Patient: Ann")
    with pytest.raises(ServingError, match="too long"):
        server.inspect("gpt2", "word " * 400).result(60)


def test_cancel_keeps_what_was_written_and_spares_the_others(server, gathered, monkeypatch):
    begun, cancelled, update = threading.Event(), threading.Event(), Stream.update

    def waiting(stream, row, text):
        """Nothing more is written after the first words, which are of the first request, until it was cancelled."""
        goes_on = update(stream, row, text)
        if text:
            begun.set()
            assert cancelled.wait(60)
        return goes_on

    monkeypatch.setattr(Stream, "update", waiting)
    long = Sampling(new_tokens=200)
    stopped = server.generate("gpt2", "Patient:", seeds=(1,), sampling=long)
    other = server.generate("gpt2", "Patient:", seeds=(1,), sampling=long)
    gathered.set()
    assert begun.wait(60)
    stopped.cancel()
    kept = stopped.texts[0]
    cancelled.set()
    whole = other.result(60)[0]
    assert stopped.done and stopped.cancelled
    assert stopped.texts[0] == kept != ""
    assert whole.startswith(kept) and len(whole) > len(kept)


def test_a_cancel_waits_for_the_word_that_is_being_written():
    """Or the text would be another one after the cancel, which a page may have shown and counted by then."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(list):
        def __setitem__(self, at, text):
            begun.set()
            assert go_on.wait(60)
            super().__setitem__(at, text)

    stream, kept = Stream("gpt2", "Patient:", (1,), SHORT, texts=Slow([""])), []
    writer = threading.Thread(target=stream.update, args=(0, "Ann"))
    writer.start()
    assert begun.wait(60)
    stopping = threading.Thread(target=lambda: (stream.cancel(), kept.append(stream.texts[0])))
    stopping.start()
    stopping.join(0.2)  # a cancel that does not wait has ended by then
    go_on.set()
    for thread in (writer, stopping):
        thread.join(60)
    assert kept == stream.texts == ["Ann"] and stream.cancelled
    assert not stream.update(0, "Ann Lee") and stream.texts == ["Ann"]


def test_a_cancelled_request_in_the_queue_is_never_answered(server, gathered):
    streams = [server.generate("gpt2", "Patient:", sampling=SHORT) for _ in range(3)]
    for stream in streams:
        stream.cancel()
    gathered.set()
    server.generate("other", "Patient:", sampling=SHORT).result(60)
    assert [stream.texts for stream in streams] == [[""]] * 3
    assert sum(server.batches) == 1


@pytest.mark.parametrize("prompt", ["", "   \n\t", "\x00\x07", "x" * (LONGEST_PROMPT + 1)])
def test_prompts_that_cannot_be_asked_are_refused_with_a_sentence(server, prompt):
    with pytest.raises(PromptError, match=r"(empty|characters).*\."):
        server.generate("gpt2", prompt)


def test_a_prompt_longer_than_the_context_ends_in_a_sentence_and_spares_its_batch(server, gathered):
    long = server.generate("gpt2", "patient " * 1_000, sampling=SHORT)
    good = server.generate("gpt2", "Patient:", sampling=SHORT)
    gathered.set()
    with pytest.raises(ServingError, match=r"too long: it takes [\d,]+ tokens .* Shorten the prompt\."):
        long.result(60)
    assert good.result(60)[0]


def test_unknown_runs_and_missing_weights_are_told(server):
    with pytest.raises(RunNotFound, match="There is no run nonsense"):
        server.generate("nonsense", "Patient:")
    with pytest.raises(ServingError, match="keeps no weights"):
        server.generate("no-weights", "Patient:", sampling=SHORT).result(60)
    assert server.generate("gpt2", "Patient:", sampling=SHORT).result(60)[0], "the worker lives on"


@pytest.mark.parametrize("error", [MemoryError("no room"), ValueError("bad shape"), KeyError("split")])
def test_an_unforeseen_failure_is_a_sentence_and_the_worker_lives_on(server, monkeypatch, caplog, error):
    def explode(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(generate, "sample", explode)
        with pytest.raises(ServingError, match=f"unexpected {type(error).__name__}"):
            server.generate("gpt2", "Patient:", sampling=SHORT).result(60)
    assert "answering with the model of run gpt2 failed" in caplog.text and "in explode" in caplog.text
    assert server.generate("gpt2", "Patient:", sampling=SHORT).result(60)[0]


def test_models_stay_in_memory_up_to_the_limit(shelf):
    server = Server(shelf, models=1, gather_seconds=0.0)
    for run_id in ("gpt2", "gpt2", "other", "gpt2"):
        server.generate(run_id, "Patient:", sampling=SHORT).result(60)
    server.close()
    assert shelf.loads == ["gpt2", "other", "gpt2"]


def test_a_run_that_was_made_again_is_loaded_again(server, shelf):
    """Its id alone does not tell: with secret noise the same settings give other weights."""
    server.generate("gpt2", "Patient:", sampling=SHORT).result(60)
    shelf.weights = (2,)
    for _ in range(2):
        server.generate("gpt2", "Patient:", sampling=SHORT).result(60)
    assert shelf.loads == ["gpt2", "gpt2"]


class Emptied(OrderedDict):
    """As if another thread deleted every run the moment its model is there."""

    def __setitem__(self, run_id, lm):
        super().__setitem__(run_id, lm)
        self.pop(run_id)


def test_a_run_may_be_deleted_while_it_is_asked(shelf):
    server = Server(shelf, gather_seconds=0.0)
    server._models = Emptied()
    assert server.generate("gpt2", "Patient:", sampling=SHORT).result(60)[0]
    server.close()


def test_warm_loads_without_writing(server, shelf):
    server.warm("gpt2")
    server.generate("gpt2", "Patient:", sampling=SHORT).result(60)
    server.warm("nonsense")
    assert shelf.loads == ["gpt2"]


def test_masked_models_fill_blanks_and_write_on(server, tiny):
    ranked = server.fill("distilbert", "Patient name: [MASK] [MASK]")
    ranked.result(60)
    assert len(ranked.ranked) == 2
    for candidates in ranked.ranked:
        chances = [chance for _, chance in candidates]
        assert chances == sorted(chances, reverse=True) and chances[-1] > 0 and sum(chances) <= 1
    stream = server.generate("distilbert", "Patient:", seeds=(4, 5), sampling=SHORT)
    texts = stream.result(60)
    again = server.generate("distilbert", "Patient:", seeds=(5,), sampling=SHORT).result(60)
    assert texts[1] == again[0] and texts[0] != texts[1]


def test_blanks_for_the_wrong_model_or_without_masks_are_explained(server):
    with pytest.raises(PromptError, match=r"Put \[MASK\]"):
        server.fill("distilbert", "Patient name:")
    with pytest.raises(ServingError, match="GPT-2 can only continue a prompt"):
        server.fill("gpt2", "Patient name: [MASK]").result(60)


def test_a_closed_server_answers_with_a_sentence(shelf):
    server = Server(shelf, gather_seconds=0.0)
    server.generate("gpt2", "Patient:", sampling=SHORT).result(60)
    server.close()
    with pytest.raises(ServingError, match="shutting down"):
        server.generate("gpt2", "Patient:")


def test_too_many_samples_are_refused(server):
    with pytest.raises(PromptError, match="1 to 128 samples"):
        server.generate("gpt2", "Patient:", seeds=range(129))


@given(st.text())
def test_any_text_is_either_cleaned_or_refused_with_a_sentence(text):
    try:
        cleaned, removed = clean_prompt(text)
    except PromptError as error:
        assert str(error).endswith(".")
        assert not any(c.isprintable() and not c.isspace() for c in text) or len(text) > LONGEST_PROMPT
        return
    assert cleaned.strip() and removed >= 0
    assert not [c for c in cleaned if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")]
    cleaned.encode()


def test_markup_and_emoji_pass_unchanged():
    rude = "<script>alert(1)</script> 👩‍⚕️ & “quotes”\r\nnext"
    assert clean_prompt(rude) == (rude.replace("\r\n", "\n"), 0)
