"""A run with words of its own, end to end: its spec, its promise, its figures, its files, and attacks on it."""

from __future__ import annotations

import dataclasses
import json
import math

import pandas as pd
import pytest
from pydantic import ValidationError

from core.__main__ import main
from core.attacks.membership.reference import _name
from core.attacks.registry import Target
from core.common.formatting import promised_text
from core.corpus.tables import Corpus
from core.evaluation.memorisation.vocabulary import named_entries, names_by_epsilon, names_in_vocabulary
from core.models.word_noise import gaussian_epsilon
from core.pipeline.full_audit import audit, target_of
from core.pipeline.training_run import execute
from core.runs.ledger.entries import Ledger
from core.runs.run import Run, RunBroken
from core.runs.store import Workspace
from core.spec import (
    ABSTRACTS,
    CORPUS_PRESETS,
    AuditSpec,
    DefenceSpec,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_base_models")]

AUDIT = AuditSpec(samples_per_prompt=1, new_tokens=8, mask_draws=1, bootstrap=20)
DP = PrivacySpec(target_epsilon=8.0, delta=1e-3)
WORDS = VocabularySpec(epsilon=20.0, delta=1e-4, pieces=200)


def spec(words: VocabularySpec | None, privacy: PrivacySpec = DP, **options: object) -> RunSpec:
    settings = {
        "corpus": CORPUS_PRESETS["smoke"],
        "model": ModelSpec(kind="distilbert"),
        "privacy": privacy,
        "training": TrainingSpec(epochs=1, batch_size=16, max_tokens=96),
        "audit": AUDIT,
        "vocabulary": words,
    }
    return RunSpec(**{**settings, **options})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("words") / "data", shared=())


@pytest.fixture(scope="module")
def private(workspace) -> Run:
    return execute(spec(WORDS), workspace)


# The spec ------------------------------------------------------------------------------------------------------------


def test_a_run_without_words_of_its_own_keeps_its_id():
    assert RunSpec(model=ModelSpec(base=ABSTRACTS)).run_id == "gpt2-39fab3147e02"
    assert "vocabulary" not in json.loads(RunSpec().model_dump_json())
    assert spec(None).run_id != spec(WORDS).run_id
    assert spec(WORDS).base_spec() == spec(None).base_spec()


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (WORDS, {"model": ModelSpec(kind="gpt2")}, "distilbert or bert"),
        (VocabularySpec(), {}, "without noise"),
        (WORDS, {"privacy": PrivacySpec()}, "guarantees nothing"),
        (WORDS, {"privacy": DP.model_copy(update={"accountant": "rdp"})}, "accountant prv"),
        (VocabularySpec(), {"privacy": PrivacySpec(), "training": TrainingSpec(epochs=0)}, "needs training"),
    ],
)
def test_what_does_not_go_together_is_refused(words, options, said):
    with pytest.raises(ValidationError, match=said):
        spec(words, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"epsilon": 0.0}, "above 0"), ({"words": 5}, "without noise"), ({"epsilon": 1.0, "delta": 0.0}, "delta")],
)
def test_bad_vocabularies_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        VocabularySpec(**options)


# A private run -------------------------------------------------------------------------------------------------------


def test_its_promise_is_the_sum_of_both(private, workspace):
    mechanism = private.privacy
    assert mechanism.delta == pytest.approx(1.1e-3) and mechanism.vocabulary.words == WORDS.words
    assert mechanism.training_alone().epsilon() == pytest.approx(8.0, rel=2e-3)
    words = gaussian_epsilon(mechanism.vocabulary.multiplier, 1.1e-3 - mechanism.vocabulary.added()[1])
    assert max(8.0, words) < mechanism.epsilon() < 28.0
    card = (private.folder / "README.md").read_text(encoding="utf-8")
    assert f"({promised_text(mechanism.epsilon())}, 0.0011)-differential privacy" in card
    alone = mechanism.training_alone().epsilon()
    assert f"Gaussian noise of scale {mechanism.vocabulary.scale:.4g}" in card
    assert f"ε = 20 at δ = 10⁻⁴ for these alone, {promised_text(alone)} for training" in card
    with pytest.raises(ValueError, match="public seed"):
        Ledger.of(workspace, private.spec.corpus).draft_run(private, "a test")


def test_its_word_list_holds_what_survived_the_noise(private):
    entries = private.vocabulary
    public = target_words(private, without=True)
    assert entries and not set(entries) & public
    assert set(target_words(private)) == public | set(entries)
    (private.folder / "vocabulary.json").rename(private.folder / "kept.json")
    try:
        with pytest.raises(RunBroken, match="vocabulary.json"):
            _ = private.vocabulary
    finally:
        (private.folder / "kept.json").rename(private.folder / "vocabulary.json")


def target_words(run: Run, *, without: bool = False) -> set[str]:
    from core.models.build import load

    return set((load(run.spec.model) if without else run.model()).tokenizer.get_vocab())


def test_its_figures_are_per_character_and_not_per_token(private):
    metrics = private.metrics.set_index(["metric", "arm"])
    assert not any(name.startswith("perplexity") for name in metrics.index.get_level_values("metric"))
    reading = pd.read_parquet(private.folder / "tables" / "reading.parquet")
    for arm in ("run", "base"):
        rows = reading[reading["arm"] == arm]
        bits = rows["nats"].sum() / 0.6931471805599453 / rows["characters"].sum()
        assert metrics.loc[("bits_per_character_heldout", arm), "value"] == pytest.approx(bits)
        assert metrics.loc[("tokens_per_note_heldout", arm), "value"] == pytest.approx(rows["tokens"].mean())
    both = reading.pivot(index="note_id", columns="arm", values=["characters", "tokens"])
    assert (both["characters"]["run"] == both["characters"]["base"]).all(), "both are asked for the same words"
    assert (both["tokens"]["run"] <= both["tokens"]["base"]).all() and both["tokens"]["run"].sum() > 0


def test_the_quick_audit_made_anew_equals_the_stored_one(private, workspace, capsys):
    assert main(["audit", private.id, "--data", str(workspace.root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["equals_stored"] is True
    assert [row["metric"] for row in found["metrics"]] == private.metrics["metric"].tolist()


def test_attacks_ask_every_model_for_the_same_tokens(private, workspace):
    target = target_of(private, workspace)
    notes = target.corpus.notes_of("population").head(2)
    plain = Target(private.spec, target.corpus, target.tables, {})
    assert target.base.tokenizer.get_vocab() == target.lm.tokenizer.get_vocab()
    assert plain.public().tokenizer.get_vocab() != target.base.tokenizer.get_vocab()
    training = private.spec.training
    assert _name(target, training, notes) != _name(plain, training, notes), "a reference model has the target's words"
    stored = audit(private, workspace, attacks=["loss", "ratio base"])
    assert [stored.outcomes()[name].state for name in ("loss", "ratio base")] == ["done", "done"]
    scores = stored.table("scores")
    assert set(scores["attack"]) == {"loss", "ratio base"} and scores["score"].notna().all()


def test_an_interrupted_run_goes_on_with_the_same_words(private, workspace):
    asked = private.spec.model_copy(update={"training": private.spec.training.model_copy(update={"epochs": 2})})
    steps: list[int] = []

    def count(event: dict) -> None:
        if event["event"] == "step":
            steps.append(event["step"])

    def break_down(event: dict) -> None:
        if event["event"] == "step" and event["epoch"] == 2:
            raise OSError("the power went off")

    with pytest.raises(OSError, match="power"):
        execute(asked, workspace, on_event=break_down)
    run = execute(asked, workspace, on_event=count)
    assert steps[0] > 1, "it went on from its checkpoint"
    assert run.vocabulary == private.vocabulary and run.privacy.vocabulary == private.privacy.vocabulary


# Without noise -------------------------------------------------------------------------------------------------------


def test_a_defence_of_the_notes_goes_with_words_of_their_own():
    exact = spec(VocabularySpec(), PrivacySpec())
    scrubbed = spec(VocabularySpec(), PrivacySpec(), defence=DefenceSpec(scrub_recall=1.0))
    assert len({exact.run_id, scrubbed.run_id}) == 2


def people() -> Corpus:
    rows = [
        ("P0", "member", "Ada Fox"),
        ("P1", "member", "Ada Bell"),
        ("P2", "member", "Jo D. Anne"),
        ("P3", "member", None),
        ("P4", "heldout", "Ida Bell"),
        ("P5", "heldout", "Kim Fox"),
        ("P6", "population", "Lee Wu"),
    ]
    patients = pd.DataFrame(rows, columns=["patient_id", "split", "full_name"])
    return Corpus(spec=None, patients=patients, notes=pd.DataFrame(), canaries=pd.DataFrame())


def test_names_are_counted_by_hand():
    entries = ["Ada", "##Fox", "Bell", "Anne", "pain", "D", "Wu"]
    found = {(row.metric, row.arm): (row.value, row.n) for row in names_in_vocabulary(entries, people())}
    assert found == {
        ("vocabulary_names", "run"): (1.0, 3),  # Ada, Ada and Bell, Anne; of the fourth no name is known
        ("vocabulary_names", "heldout"): (1 / 2, 2),  # Bell
        ("vocabulary_rare_names", "run"): (1 / 3, 3),  # Anne: two are called Ada, two Bell
        ("vocabulary_rare_names", "heldout"): (0.0, 2),
    }
    unnamed = people().patients.assign(full_name=None)
    assert list(names_in_vocabulary(entries, dataclasses.replace(people(), patients=unnamed))) == []
    table = named_entries(entries, people()).set_index("entry")
    assert list(table.index) == ["Ada", "Bell", "Anne", "Wu"]
    assert table.loc["Bell"].to_dict() == {"place": 3, "bearers": 2, "members": 1, "heldout": 1}
    assert table.loc["Wu", "members"] == table.loc["Wu", "heldout"] == 0


# For several ε, without training ------------------------------------------------------------------------------------


def test_noise_keeps_names_out_that_exact_counts_let_in(workspace):
    from core.models.build import load

    corpus = workspace.corpus(CORPUS_PRESETS["smoke"])
    asked = VocabularySpec(epsilon=1.0, pieces=2_000)
    table = names_by_epsilon(load(ModelSpec(kind="distilbert")), corpus, asked, epsilons=(1.0, math.inf), draws=2)
    exact, noisy = (table[table["epsilon"] == epsilon].set_index("arm") for epsilon in (math.inf, 1.0))
    # every member of this hospital is named in their notes; a held-out name gets in by being a word or a piece of one
    assert exact.loc["run", "rare_names"] > 0.5 + exact.loc["heldout", "rare_names"]
    assert (noisy["names"] == 0).all() and len(noisy) == 4 and noisy["kept"].max() < exact["kept"].max()
    assert (noisy["threshold"] > 50).all() and exact["threshold"].isna().all()


def test_the_command_tells_names_by_epsilon_and_how_runs_read(private, workspace, capsys):
    assert main(["words", "--corpus", "smoke", "--data", str(workspace.root), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["arm"] for row in rows} == {"run", "heldout"} and rows[-1]["epsilon"] == "inf"
    control = private.spec.base_spec().run_id
    assert main(["words", private.id, control, "--data", str(workspace.root), "--json"]) == 0
    own, public = json.loads(capsys.readouterr().out)
    assert own["entries"] == len(private.vocabulary) and public["entries"] == 0
    assert own["epsilon"] == pytest.approx(private.privacy.epsilon())
    known = private.metrics.set_index(["metric", "arm"])["value"]
    for figure in ("bits_per_character_heldout", "tokens_per_note_heldout"):
        assert own[figure] == pytest.approx(known[figure, "run"], rel=1e-6)
        assert public[figure] == pytest.approx(known[figure, "base"], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "gpt2", "--vocabulary-epsilon", "1", "--epsilon", "8"], "distilbert or bert"),
        (["--model", "bert", "--vocabulary-epsilon", "x", "--epsilon", "8"], "--vocabulary-epsilon"),
        (["--model", "bert", "--vocabulary-words", "5"], "needs --vocabulary-epsilon"),
        (["--model", "bert", "--epsilon", "8", "--vocabulary-epsilon", "1", "--vocabulary-noise", "x"], "-noise"),
        (["--model", "bert", "--epsilon", "8", "--vocabulary-epsilon", "inf"], "without noise"),
    ],
)
def test_the_command_line_refuses_in_a_sentence(options, said, tmp_path, capsys):
    assert main(["train", "--corpus", "smoke", "--data", str(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err
