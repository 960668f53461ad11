"""Heads and the table `utility`: known answers, determinism, and whose notes a head may learn from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.common.errors import Cancelled
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.models.build import LanguageModel
from core.runs.tables import ADDED, UTILITY, read_table, write_table
from core.spec import AuditSpec, CorpusSpec, ModelSpec, RunSpec
from core.tasks import utility
from core.tasks.entities import Tagged, tagged_notes, word_vectors
from core.tasks.heads import fit
from tests.tiny_models import tiny

SPEC = CorpusSpec(patients=30, population=12, notes_per_patient=3.0, note_length="brief", canaries=0, canary_patients=0)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build(SPEC)


@pytest.fixture(scope="module", params=["gpt2", "distilbert"])
def lm(request) -> LanguageModel:
    return tiny(request.param, seed=0, spread=4.0)


def run_spec(kind: str) -> RunSpec:
    return RunSpec(corpus=SPEC, model=ModelSpec(kind=kind), audit=AuditSpec(bootstrap=20))


def test_a_head_learns_what_its_vectors_hold_and_nothing_else():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4_000, 6)).astype(np.float32)
    labels = (vectors[:, 0] > 0).astype(np.int64) + (vectors[:, 1] > 0)
    head = fit(vectors[:3_500], labels[:3_500], 3, seed=0)
    assert (head.predict(vectors[3_500:]) == labels[3_500:]).mean() > 0.85
    blind = fit(vectors[:3_500, 2:], labels[:3_500], 3, seed=0)
    assert (blind.predict(vectors[3_500:, 2:]) == labels[3_500:]).mean() < 0.6  # the commonest class has one half


def test_a_head_depends_on_its_seed_alone():
    vectors = np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32)
    labels = np.random.default_rng(2).integers(2, size=300)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = fit(vectors, labels, 2, seed=1).network[0].weight
    assert torch.equal(torch.random.get_rng_state(), before), "the global generator is left alone"
    torch.manual_seed(6)
    assert torch.equal(fit(vectors, labels, 2, seed=1).network[0].weight, first)
    assert not torch.equal(fit(vectors, labels, 2, seed=2).network[0].weight, first)
    with pytest.raises(ValueError, match="at least one labelled row"):
        fit(vectors[:0], labels[:0], 2, seed=0)


def test_a_word_has_the_vector_of_its_first_piece_or_of_its_last_for_gpt2(lm):
    """Oracle: one text at a time, each piece looked up by hand."""
    text = "Continue hydrochlorothiazide 12.5 mg; pulse 80."
    one = tagged_notes(_frame(text))[0]
    encoding = lm.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    special = [lm.tokenizer.bos_token_id] if lm.causal else [lm.tokenizer.cls_token_id]
    after = [] if lm.causal else [lm.tokenizer.sep_token_id]
    with torch.inference_mode():
        hidden = lm.hidden(torch.tensor([[*special, *encoding.ids, *after]]))[0].numpy()
    own = []
    for start, end in one.words:
        pieces = [number for number, (a, b) in enumerate(encoding.offsets) if a < end and b > start]
        own.append(hidden[1 + pieces[-1 if lm.causal else 0]])
    found = word_vectors(lm, [one, one])[1]
    width = len(own[0])
    np.testing.assert_allclose(found[:, width : 2 * width], own, atol=1e-5)
    np.testing.assert_allclose(found[1:, :width], own[:-1], atol=1e-5)
    assert not found[0, :width].any() and not found[-1, 2 * width :].any()


def test_a_text_longer_than_the_context_loses_no_word(lm):
    text = "Pulse 80, temperature 36.9. " * 90
    one = tagged_notes(_frame(text))[0]
    assert len(word_vectors(lm, [one])[0]) == len(one.words) > 500


def test_heads_learn_from_population_patients_and_are_judged_by_held_out_ones(corpus, lm, monkeypatch):
    texts = {split: set(corpus.notes_of(split)["text"]) for split in ("member", "population", "heldout")}
    seen: list[tuple[set[str], set[str]]] = []

    def entities(lm, learned, judged, **more):
        seen.append(({one.text for one in learned}, {one.text for one in judged}))
        return _nothing()

    def inference(lm, learned, judged, **more):
        seen.append(({one.premise for one in learned}, {one.premise for one in judged}))
        return _nothing()

    monkeypatch.setattr(utility, "entity_counts", entities)
    monkeypatch.setattr(utility, "inference_counts", inference)
    utility.utility_counts(lm, lambda: lm, corpus, run_spec(lm.kind))
    assert len(seen) == (1 if lm.causal else 2)
    for learned, judged in seen:
        assert learned <= texts["population"] and judged <= texts["heldout"]
        assert not learned & (texts["member"] - texts["population"])


def test_the_table_is_small_deterministic_and_can_be_stored(corpus, lm, tmp_path):
    reports: list[tuple[int, int]] = []
    spec = run_spec(lm.kind)
    found = utility.utility_counts(lm, lambda: lm, corpus, spec, report=lambda *one: reports.append(one))
    again = utility.utility_counts(lm, lambda: lm, corpus, spec)
    assert found.equals(again) and reports and all(done <= total for done, total in reports)
    assert list(found.columns) == ADDED[UTILITY].names == list(utility.COLUMNS)
    tasks = {"inference", "inference, claim alone"}
    tasks |= {"texts", "texts, two halves of patients"} if lm.causal else {"entities"}
    assert set(found["task"]) == tasks
    path = write_table(tmp_path, UTILITY, found)
    assert path.stat().st_size < 20_000 and len(read_table(tmp_path, UTILITY, "run")) == len(found)
    alone = found[found["task"] == "inference, claim alone"]
    assert alone["correct"].sum() * 3 == alone["trials"].sum(), "without the note exactly a third is right"
    heldout = set(corpus.notes_of("heldout")["patient_id"])
    assert set(found["patient_id"].dropna()) <= heldout


def test_without_population_or_records_nothing_is_measured(corpus):
    lm = tiny("distilbert", seed=0)
    bare = build(SPEC.model_copy(update={"population": 0}))
    assert utility.utility_counts(lm, lambda: lm, bare, run_spec("distilbert")).empty
    imported = Corpus(
        None, corpus.patients, corpus.notes.assign(entity_spans=[[]] * len(corpus.notes)), corpus.canaries
    )
    assert utility.utility_counts(lm, lambda: lm, imported, run_spec("distilbert")).empty


def test_it_can_be_stopped(corpus, lm):
    def stopped(done: int, total: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        utility.utility_counts(lm, lambda: lm, corpus, run_spec(lm.kind), report=stopped)
    if lm.causal:
        with pytest.raises(Cancelled):
            utility.utility_counts(lm, lambda: lm, corpus, run_spec(lm.kind), should_stop=lambda: True)


def _frame(text: str):
    import pandas as pd

    return pd.DataFrame({"text": [text], "entity_spans": [[]], "patient_id": ["p"]})


def _nothing():
    import pandas as pd

    return pd.DataFrame(columns=list(utility.COLUMNS))


def test_tagged_texts_can_be_made_by_hand():
    assert Tagged("a b", ((0, 1), (2, 3)), ("O", "B-test"), "p").unit == "p"
