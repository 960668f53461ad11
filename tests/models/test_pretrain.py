import json
from pathlib import Path

import numpy as np
import pytest
import torch

from core.corpus.public_text import heldout_text, training_text
from core.models import build, pretrain
from core.models.build import load_folder
from core.models.encoding import encode
from core.models.likelihood import note_losses, perplexity
from core.models.public_sources import TextFile, detokenize, public_words, read_documents, split_documents
from tests.models.model_cards import stated_perplexity

SENTENCES = ("Aspirin was given ( 3 . 5 mg / kg ) .", "It helped .")
IOB = "\n".join("".join(f"{word}\tO\n" for word in sentence.split()) for sentence in SENTENCES)


@pytest.fixture
def text_file(tmp_path) -> Path:
    path = tmp_path / "text" / "own.txt"
    path.parent.mkdir()
    path.write_text("\n\n".join(f"Document {number} says that water is wet." for number in range(400)))
    return path


@pytest.fixture
def micro(monkeypatch):
    monkeypatch.setitem(build._SHAPES, "tiny", (2, 32, 4))
    monkeypatch.setattr(build, "VOCABULARY", 600)
    monkeypatch.setattr(pretrain, "BATCH_BLOCKS", dict.fromkeys(pretrain.BATCH_BLOCKS, 8))
    monkeypatch.setattr(pretrain, "PEAK_RATE", dict.fromkeys(pretrain.PEAK_RATE, 5e-3))  # few steps here
    monkeypatch.setattr(pretrain, "training_text", lambda: training_text()[:30])
    monkeypatch.setattr(pretrain, "heldout_text", lambda: heldout_text()[:6])


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("dose of 6 . 9 mg / kg ( n = 4 ) .", "dose of 6.9 mg/kg (n = 4)."),
        ("1 , 000 of 12 , 50 or", "1,000 of 12, 50 or"),
        ("non - small - cell , and", "non-small-cell, and"),
        ("the patient ' s", "the patient's"),
        ('a " quoted word " here', 'a "quoted word" here'),
        ("95 % ; p < 0 . 05", "95%; p < 0.05"),
        ("- first", "- first"),
    ],
)
def test_tokens_become_prose(tokens, text):
    assert detokenize(tokens.split()) == text


def test_each_type_of_file_is_read(tmp_path):
    (tmp_path / "a.tsv").write_text(IOB)
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    (tmp_path / "a.json").write_text(
        json.dumps({"1": {"QUESTION": "Why?", "CONTEXTS": ["A.", "B."], "LONG_ANSWER": "C."}})
    )
    assert read_documents(tmp_path / "a.tsv") == ["Aspirin was given (3.5 mg/kg). It helped."]
    assert read_documents(tmp_path / "a.txt") == ["one\ntwo", "three"]
    assert read_documents(tmp_path / "a.json") == ["Why?\nA.\nB.\nC."]


def test_reports_are_cut_at_their_headings_and_lost_line_breaks_come_back(tmp_path):
    text = "HISTORY: Pain.,2. Cough.\nNeck: Supple.\nPLAN, SURGICAL: Rest, mostly.\n\nA note"
    (tmp_path / "a.txt").write_text(text)
    assert read_documents(tmp_path / "a.txt") == [
        "HISTORY: Pain.\n2. Cough.\nNeck: Supple.",
        "PLAN, SURGICAL: Rest, mostly.",
        "A note",
    ]


@pytest.mark.parametrize(
    ("argument", "path", "epochs"),
    [("a/b.txt", "a/b.txt", None), ("a/b.txt@3", "a/b.txt", 3), ("a@b/c.txt", "a@b/c.txt", None)],
)
def test_a_file_may_say_in_how_many_epochs_it_is_read(argument, path, epochs):
    assert TextFile.parse(argument) == TextFile(Path(path), epochs)


@pytest.mark.parametrize("argument", ["a.txt@0", "a.txt@x", "a.txt@-1"])
def test_a_number_of_epochs_that_is_none_is_refused(argument):
    with pytest.raises(ValueError, match="number of epochs"):
        TextFile.parse(argument)


def test_a_file_with_fewer_epochs_is_read_in_the_first_ones(tmp_path):
    for name in ("always", "once"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(f"{name} {number}" for number in range(40)))
    files = [TextFile(tmp_path / "always.txt"), TextFile(tmp_path / "once.txt", 1)]
    text = pretrain.collect_text(files)
    read = [[text.training[place] for place in text.of_epoch(epoch)] for epoch in (0, 1)]
    always = [*training_text(), *(f"always {number}" for number in range(38))]
    assert read == [[*always, *(f"once {number}" for number in range(38))], always]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.pdf", b"x", "unknown type"),
        ("a.txt", b"\n \n", "contains no text"),
        ("a.txt", b"\xff\xfe\x00", "cannot be read"),
        ("a.json", b"{", "cannot be read"),
        ("a.json", b"[1]", "cannot be read"),
        ("a.json", b'{"1": {"QUESTION": "?"}}', "cannot be read"),
    ],
)
def test_unreadable_text_is_named(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as error:
        read_documents(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="missing.txt does not exist"):
        read_documents(tmp_path / "missing.txt")


def test_five_percent_are_held_out_and_never_trained_on():
    documents = [str(number) for number in range(200)]
    training, heldout = split_documents(documents)
    assert training + heldout == documents and len(heldout) == 10
    assert split_documents(["a", "b"]) == (["a"], ["b"])


def test_public_words_are_seen_twice_and_hold_letters_only():
    assert public_words(["Water, water! 12mg x2 m² m²", "mg of été", "Été of"]) == ["mg", "of", "water", "été"]


def test_blocks_are_full_contiguous_and_begin_with_documents(any_model):
    documents = [np.asarray(ids) for ids in encode(any_model, training_text()[:80])]
    blocks = pretrain.pack(any_model, documents, np.random.default_rng(0))
    first = any_model.tokenizer.bos_token_id if any_model.causal else any_model.tokenizer.cls_token_id
    last = any_model.tokenizer.eos_token_id if any_model.causal else any_model.tokenizer.sep_token_id
    assert blocks.shape[1] == build.CONTEXT and (blocks[:, 0] == first).all()
    stream = {tuple([*ids.tolist(), last][start : start + 9]) for ids in documents for start in range(len(ids))}
    openings = {tuple(ids[:8]) for ids in documents}
    assert all(tuple(row[1:10]) in stream for row in blocks.tolist() if last not in row[1:9])
    assert 0.3 < np.mean([tuple(row[1:9]) in openings for row in blocks.tolist()]) < 0.95
    with pytest.raises(ValueError, match="too short"):
        pretrain.pack(any_model, documents[:1], np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "epochs"), [("gpt2", 4), ("distilbert", 14), ("bert", 14)])
def test_pretraining_writes_a_model_that_has_learned(micro, tmp_path, text_file, kind, epochs):
    steps = []
    out = tmp_path / "base" / f"{kind}-tiny"
    figures = pretrain.pretrain(
        kind, "tiny", [TextFile(text_file)], out, epochs=epochs, words=tmp_path / "words.txt", on_progress=steps.append
    )
    assert steps[-1]["step"] == steps[-1]["steps"] == figures["steps"] == len(steps)
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.1
    lm = load_folder(out)
    assert lm.kind == kind and len(lm.tokenizer) <= 600
    found = perplexity(lm, heldout_text()[:6], max_tokens=build.CONTEXT)
    assert stated_perplexity(out) == pytest.approx(found, rel=1e-3)
    assert found == pytest.approx(figures["perplexity_heldout_text"], rel=1e-4)
    assert found < 600  # better than a uniform guess
    card = (out / "README.md").read_text()
    assert f"python -m core pretrain --model {kind} --size tiny --epochs {epochs}" in card and "text/own.txt" in card
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert "water" in (tmp_path / "words.txt").read_text().split()


def test_the_same_seed_makes_the_same_model(micro, tmp_path, text_file):
    made = []
    for name in ("one", "two"):
        pretrain.pretrain("bert", "tiny", [TextFile(text_file)], tmp_path / name, epochs=1, seed=3)
        made.append(load_folder(tmp_path / name))
    assert made[0].tokenizer.get_vocab() == made[1].tokenizer.get_vocab()
    for one, other in zip(made[0].model.parameters(), made[1].model.parameters(), strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), atol=1e-5)


def test_nothing_is_written_when_it_fails(micro, tmp_path, text_file):
    def fail(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain.pretrain("gpt2", "tiny", [TextFile(text_file)], tmp_path / "out" / "gpt2", epochs=1, on_progress=fail)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="does not contain a model"):
        pretrain.pretrain("gpt2", "tiny", [TextFile(text_file)], text_file.parent, epochs=1)
    assert text_file.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distilbert", "bert"])
def test_masked_models_start_at_the_loss_of_a_word_count(models, kind):
    torch.manual_seed(0)
    lm = build.new(kind, "tiny", models[kind].tokenizer)
    documents = [np.asarray(ids) for ids in encode(lm, training_text()[:80])]
    counts = np.bincount(np.concatenate(documents))
    shares = counts[counts > 0] / counts.sum()
    entropy = -(shares * np.log(shares)).sum()
    flat = np.mean(note_losses(lm, training_text()[:80]))
    pretrain.start_from_counts(lm, documents)
    assert np.mean(note_losses(lm, training_text()[:80])) == pytest.approx(entropy, abs=0.15)
    assert flat > entropy + 0.3
