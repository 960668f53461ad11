from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import DistilBertConfig, DistilBertForMaskedLM, GPT2Config, GPT2LMHeadModel

from core.attacks.memorisation import extraction
from core.attacks.memorisation.extraction import (
    GENERATION_COLUMNS,
    OLD_RULE_RECORDS,
    extract,
    generate,
    index_of,
    old_rule_hits,
    value_hits,
)
from core.attacks.prompts import PROMPTS, own_prompts, read_prompts
from core.common.errors import Cancelled
from core.corpus.synthetic.hospital import build
from core.models import encoding, tokenizer
from core.models.build import LanguageModel
from core.phi.fields import FIELD
from core.phi.index import PhiIndex
from core.phi.leaks import find
from core.phi.old_rule import old_rule
from core.spec import CORPUS_PRESETS, AuditSpec

AUDIT = AuditSpec(samples_per_prompt=3, new_tokens=30, temperature=0.3, seed=5)


@pytest.fixture(scope="module")
def corpus():
    return build(CORPUS_PRESETS["smoke"])


@pytest.fixture(scope="module")
def index(corpus):
    return index_of(corpus)


def header(corpus, split: str) -> str:
    """The first patient's record of a split, as a note might open with it."""
    row = corpus.patients[corpus.patients["split"] == split].iloc[0]
    return f"Patient: {row.full_name}, born {row.date_of_birth}, has {row.diagnosis}."


def gpt2(texts: list[str], steps: int) -> LanguageModel:
    """2 layers × 32, trained on `texts` until it knows them by heart (0 steps: knows nothing)."""
    torch.manual_seed(0)
    words = tokenizer.train("gpt2", texts, 400)
    shape = {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 2}
    special = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **special, **shape))
    lm = LanguageModel(model.eval(), words, "gpt2")
    ids = [torch.from_numpy(sample)[None] for sample in encoding.encode_samples(lm, texts, 120).ids]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        batch = ids[step % len(ids)]
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return lm


@pytest.fixture(scope="module")
def memorised(corpus):
    """A model that knows one member's record by heart, and the tables of an attack on it."""
    lm = gpt2([header(corpus, "member")] * 2, steps=120)
    return lm, *extract(lm, corpus, index_of(corpus), AUDIT)


def test_a_memorised_member_is_extracted_with_every_detail(memorised, corpus):
    _, generations, hits = memorised
    member = corpus.patients[corpus.patients["split"] == "member"].iloc[0]
    ours = hits[hits["rule"] == "value"]
    of_member = ours[ours["patient_id"] == member.patient_id]
    assert {("full_name", "leak"), ("date_of_birth", "leak"), ("diagnosis", "linked leak")} <= set(
        zip(of_member["field"], of_member["kind"], strict=True)
    )
    assert set(of_member["split"]) == {"member"}
    assert (of_member["value"] == [member[field] for field in of_member["field"]]).all()


def test_a_memorised_heldout_patient_counts_in_the_control_alike(memorised, corpus, index):
    """The same record of a held-out patient gives the same hits, labelled as coincidences of theirs."""
    generations = pd.DataFrame(
        [(0, 1, "Patient:", 7, header(corpus, "member")[8:]), (1, 1, "Patient:", 8, header(corpus, "heldout")[8:])],
        columns=list(extraction.GENERATION_COLUMNS),
    )
    hits = value_hits(generations, index).dropna(subset=["patient_id"])
    member, heldout = (hits[hits["generation_id"] == number] for number in (0, 1))
    assert set(member["kind"]) == {"leak", "linked leak"} and set(heldout["kind"]) == {"coincidence"}
    assert sorted(member["field"]) == sorted(heldout["field"]) == ["date_of_birth", "diagnosis", "full_name"]
    assert set(heldout["split"]) == {"heldout"}


def test_an_untrained_model_writes_nobodys_name(corpus, index):
    _, hits = extract(gpt2([header(corpus, "member")], steps=0), corpus, index, AUDIT)
    assert hits[(hits["rule"] == "value") & (hits["field"] == "full_name")].empty


def test_every_prompt_is_sampled_as_often_as_asked(memorised):
    _, generations, hits = memorised
    assert generations["prompt_id"].value_counts().to_dict() == {prompt.prompt_id: 3 for prompt in PROMPTS}
    assert generations["generation_id"].tolist() == list(range(42))
    assert generations["seed"].nunique() == 42
    assert not any(row.text.startswith(row.prompt) for row in generations.itertuples())
    assert set(hits["generation_id"]) <= set(range(42))


def test_hits_are_what_find_says(memorised, index):
    _, generations, hits = memorised
    texts = generations.set_index("generation_id")
    for row in generations.itertuples():
        ours = hits[(hits["generation_id"] == row.generation_id) & (hits["rule"] == "value")]
        spans = find(row.text, index, row.prompt)
        assert {(span.start, span.end, span.field) for span in spans} == set(
            zip(ours["start"], ours["end"], ours["field"], strict=True)
        )
    for hit in hits.itertuples():
        assert 0 <= hit.start < hit.end <= len(texts["text"][hit.generation_id])
        assert hit.field in FIELD


def test_a_longer_audit_begins_with_the_shorter_one(memorised):
    lm, generations, _ = memorised
    longer = generate(lm, AUDIT.model_copy(update={"samples_per_prompt": 5}), prompts=PROMPTS[:2])
    for prompt_id in (1, 2):
        short = generations[generations["prompt_id"] == prompt_id]
        long = longer[longer["prompt_id"] == prompt_id].head(3)
        assert long["text"].tolist() == short["text"].tolist()
        assert long["seed"].tolist() == short["seed"].tolist()
    other = generate(lm, AUDIT.model_copy(update={"seed": 6}), prompts=PROMPTS[:1])
    assert not set(other["seed"]) & set(generations["seed"])


def test_the_old_rule_checks_one_record_of_each_split(corpus):
    """A prompt whose texts hold everybody's values shows the records; every other text is checked against these."""
    texts = [
        f"{row.full_name.split()[0]} of {row.date_of_birth[:4]}, {row.diagnosis}"
        for row in corpus.patients.itertuples()
    ]
    everybody = [" ".join(corpus.patients["full_name"])] * len(texts)
    generations = pd.DataFrame({"prompt_id": np.repeat([1, 2, 3], len(texts)), "text": texts + texts[::-1] + everybody})
    generations["generation_id"] = range(len(generations))
    hits = old_rule_hits(generations, corpus.patients, AUDIT.seed)
    assert set(hits["rule"]) == {"old"}
    patients = corpus.patients.set_index("patient_id", drop=False)
    for split, kind in (("member", "leak"), ("heldout", "coincidence")):
        old, group = hits[hits["split"] == split], patients[patients["split"] == split]
        assert set(old["kind"]) == {kind} and (old.groupby("generation_id")["patient_id"].nunique() == 1).all()
        shown = old.drop_duplicates("generation_id").set_index("generation_id")["patient_id"]
        records = [shown[number] for number in generations.index[generations["prompt_id"] == 3]]
        assert len(set(records)) == min(OLD_RULE_RECORDS, len(group)) and set(records) <= set(group.index)
        found = old.groupby("generation_id")["field"].agg(set)
        for row, record in zip(generations.itertuples(), records * 3, strict=True):
            expected = {field for field, leaked in old_rule(row.text, patients.loc[record]).items() if leaked}
            assert found.get(row.generation_id, set()) == expected, (split, row.generation_id)
        assert 0 < (found.index < 2 * len(texts)).sum() < 2 * len(texts), "some texts hold a value, and some none"
    texts = generations.loc[hits["generation_id"], "text"]
    for text, start, end, value in zip(texts, hits["start"], hits["end"], hits["value"], strict=True):
        assert text[start:end] and text[start:end].lower() in value.lower()


def test_the_old_rule_cycles_over_at_most_fifty_records(corpus):
    many = pd.concat([corpus.patients.assign(patient_id=lambda f: f["patient_id"] + str(n)) for n in range(9)])  # noqa: B023
    generations = pd.DataFrame({"generation_id": range(200), "prompt_id": 1, "text": " ".join(many["full_name"])})
    hits = old_rule_hits(generations, many, seed=1)
    checked = hits[hits["field"] == "full_name"].groupby("split")["patient_id"]
    assert checked.nunique().to_dict() == {"member": 50, "heldout": 50}
    assert checked.value_counts().groupby("split").unique().map(list).to_dict() == {"member": [4], "heldout": [4]}


def test_progress_and_stop(corpus, monkeypatch):
    monkeypatch.setattr(extraction, "_CHUNK", 4)  # a batch goes over from one prompt to the next
    lm = gpt2([header(corpus, "member")], steps=0)
    seen: list[tuple[int, int]] = []
    generate(lm, AUDIT, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(min(4 * number, 42), 42) for number in range(1, 12)]
    with pytest.raises(Cancelled, match="stopped after 8 of 42 generations"):
        seen.clear()
        generate(lm, AUDIT, on_progress=lambda *at: seen.append(at), should_stop=lambda: len(seen) == 2)


def test_masked_models_write_as_many_samples(corpus, index):
    torch.manual_seed(1)
    words = tokenizer.train("distilbert", [header(corpus, "member")], 900)
    shape = {"max_position_embeddings": 64, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=len(words), pad_token_id=words.pad_token_id, **shape))
    audit = AuditSpec(samples_per_prompt=2, new_tokens=6)
    generations, hits = extract(LanguageModel(model.eval(), words, "distilbert"), corpus, index, audit)
    assert len(generations) == 28
    assert generations["text"].str.len().gt(0).all() and not generations["text"].str.contains("MASK").any()
    assert list(hits.columns) == list(extraction.HIT_COLUMNS)


def test_canary_patients_count_only_where_they_were_planted(corpus, index):
    people = corpus.canaries[corpus.canaries["form"] == "patient"]
    for row in people.itertuples():
        assert index.is_member(row.canary_id) == row.inserted
    assert sorted(people["inserted"]) == [False, True]


def test_prompts_hold_nobodys_value(corpus, index):
    assert [prompt.prompt_id for prompt in PROMPTS] == list(range(1, 15))
    assert len({prompt.text for prompt in PROMPTS}) == 14
    for prompt in PROMPTS:
        assert find(prompt.text, index) == [] and "[MASK]" not in prompt.text


def test_tables_are_written_and_read_as_promised(memorised, tmp_path):
    from core.runs.tables import read_table, write_table

    _, generations, hits = memorised
    for name, frame in (("generations", generations), ("hits", hits)):
        write_table(tmp_path / "tables", name, frame)
        again = read_table(tmp_path / "tables", name, "test")
        assert list(again.columns) == list(frame.columns)
        assert again.replace({np.nan: None}).values.tolist() == frame.replace({np.nan: None}).values.tolist()


def test_greedy_asks_each_prompt_once_and_needs_no_luck(memorised, corpus, index):
    lm, *_ = memorised
    generations, hits = extract(lm, corpus, index, AUDIT, greedy=True)
    assert generations["prompt_id"].tolist() == list(range(1, 15))
    other = generate(lm, AUDIT.model_copy(update={"seed": 99}), greedy=True)
    assert generations["text"].tolist() == other["text"].tolist()
    assert "full_name" in set(hits.loc[(hits["kind"] == "leak") & (hits["rule"] == "value"), "field"])


def test_greedy_takes_the_likeliest_piece_of_a_masked_model_too(corpus):
    torch.manual_seed(1)
    words = tokenizer.train("distilbert", [header(corpus, "member")], 900)
    shape = {"max_position_embeddings": 64, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=len(words), pad_token_id=words.pad_token_id, **shape))
    lm = LanguageModel(model.eval(), words, "distilbert")
    one, two = (generate(lm, AuditSpec(samples_per_prompt=2, new_tokens=4, seed=s), greedy=True) for s in (0, 1))
    assert len(one) == 14 and one["text"].str.len().gt(0).all()
    assert (one["text"] == two["text"]).mean() > 0.5, "only the order of redrawing is left to chance"


def test_own_prompts_are_asked_like_the_built_in_ones(memorised, corpus, index, tmp_path):
    lm, *_ = memorised
    (tmp_path / "list.txt").write_text("Patient:\n\n  Chart of \n", encoding="utf-8-sig")  # as Notepad saves it
    own = read_prompts(tmp_path / "list.txt")
    assert [(prompt.prompt_id, prompt.text) for prompt in own] == [(15, "Patient:"), (16, "Chart of")]
    generations, hits = extract(lm, corpus, index, AUDIT, prompts=own)
    assert generations["prompt_id"].value_counts().to_dict() == {15: 3, 16: 3}
    assert "full_name" in set(hits["field"])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "at least one"),
        (["a", "  "], "prompt 2 is empty"),
        (["a", "b", "a "], "prompt 3 repeats prompt 1"),
        (["x" * 401], "401 characters"),
        (["a\x00b"], "control characters"),
        (["a"] * 1001, "at most 1,000"),
    ],
)
def test_bad_prompt_lists_are_refused_in_a_sentence(texts, said):
    with pytest.raises(ValueError, match=said):
        own_prompts(texts)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes", "nothing-here"):
        with pytest.raises(ValueError, match="cannot be read as a text file"):
            read_prompts(tmp_path / name)


def test_a_shared_value_is_a_leak_of_the_member_alone():
    patients = pd.DataFrame({"patient_id": ["A", "X"], "split": ["member", "heldout"], "full_name": "Maria Keller"})
    row = pd.DataFrame([(0, 1, "Patient:", 7, " Maria Keller is well.")], columns=list(GENERATION_COLUMNS))
    found = value_hits(row, PhiIndex.build(patients)).set_index("patient_id")["kind"]
    assert found.to_dict() == {"A": "leak", "X": "coincidence"}
