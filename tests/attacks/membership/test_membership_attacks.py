"""The membership attacks: known answers, naive oracles, and that every score points up."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from core.attacks import registry
from core.attacks.battery import REGISTRY
from core.attacks.evaluation_set import evaluation_notes, mean_log_likelihoods, reference_patients
from core.attacks.membership import attacks
from core.attacks.membership.attacks import relative_membership, zlib_score
from core.attacks.membership.decision import GRADIENTS
from core.attacks.membership.neighbours import neighbours
from core.attacks.membership.reference import POPULATION, SHADOWS, reference_notes
from core.attacks.membership.scores import min_k
from core.attacks.membership.shadow_models import BLOCK, left_out
from core.attacks.membership.shadow_scores import ShadowScores
from core.attacks.membership.white_box import attention_features, concentration, folds, gradient_features
from core.attacks.registry import Attack, Target, checked
from core.corpus.tables import Corpus
from core.evaluation.stats.roc import roc
from core.models.build import LanguageModel, load
from core.models.encoding import encode_samples
from core.models.likelihood import note_losses, pseudo_log_likelihoods, token_log_likelihoods, token_moments
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, ModelSpec, RunSpec
from core.training.losses import causal_batch, example_losses, masked_batch

pytestmark = pytest.mark.slow

TEXTS = ["The patient has a cough and fever.", "Ward 7", "No pain. Blood pressure 142/88, pulse 70, seen on Monday."]
WORDS = ["cough", "fever", "pain", "ward", "pulse", "seen", "rest", "walks", "home", "drug", "dose", "night", "lungs"]
MINE = [name for name, attack in REGISTRY.items() if "scores" in attack.tables]


def corpus(patients: int = 24, notes: int = 2, seed: int = 0) -> Corpus:
    """Notes of random words: a third of the patients each are members, held out, and population."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(patients):
        split = ("member", "heldout", "population")[number % 3]
        for note in range(notes):
            text = " ".join(rng.choice(WORDS, size=10)) + f" {rng.integers(1000)}."
            key = f"{number:02d}"
            rows.append((f"n{key}-{note}", f"p{key}", f"a{key}", split, "progress", text))
    columns = ["note_id", "patient_id", "admission_id", "split", "note_type", "text"]
    return Corpus(CorpusSpec(), pd.DataFrame(), pd.DataFrame(rows, columns=columns), pd.DataFrame())


def target(kind: str, models: dict, notes: Corpus | None = None) -> Target:
    spec = RunSpec(model=ModelSpec(kind=kind), audit=AuditSpec(mask_draws=2))
    loaders = {role: (lambda report, lm=lm: lm) for role, lm in models.items()}
    return Target(spec, notes or corpus(), lambda name: pd.DataFrame(), loaders, shadows=shadows)


def shadows(one: Target) -> ShadowScores:
    """As if models that read a note knew it as the target knows the members, and the others as the base does."""
    rng = np.random.default_rng(1)
    public, found = mean_log_likelihoods(one, "base"), mean_log_likelihoods(one, "target")
    gain = found[(evaluation_notes(one)["split"] == "member").to_numpy()].mean() - public.mean()
    patients = evaluation_notes(one)["patient_id"]
    rows = [~patients.isin(left_out(patients.unique().tolist(), 0, number)).to_numpy() for number in range(2 * BLOCK)]
    inside = np.stack(rows)
    return ShadowScores(np.minimum(public + gain * inside + rng.normal(0, 0.05, inside.shape), -1e-3), inside)


@pytest.fixture(scope="module")
def attacked(untrained, teach) -> dict[str, Target]:
    """A model that knows the members by heart, beside untrained references, for a causal and a masked kind."""
    found = {}
    for kind, steps in (("gpt2", 60), ("distilbert", 150)):
        notes = corpus()
        lm = teach(kind, notes.notes_of("member")["text"].tolist(), steps)
        others = {role: untrained[kind] for role in ("base", POPULATION, *SHADOWS)}
        found[kind] = target(kind, {"target": lm, **others}, notes)
    return found


# The registry --------------------------------------------------------------------------------------------------------


def test_the_battery_says_of_every_attack_what_a_reader_must_know():
    assert len(REGISTRY) >= 12
    for name, attack in REGISTRY.items():
        assert attack.name == name and attack.kinds and attack.sentence.endswith((".", "?"))
        assert set(attack.tables) <= set(registry.TABLES)


def test_what_an_attack_returns_is_checked(monkeypatch):
    monkeypatch.setitem(registry.TABLES, "sizes", {"name": "str", "size": "int64"})
    attack = Attack("sizes", "", "black-box", ("gpt2",), "cheap", "Counts.", ("sizes",), lambda target, report: {})
    frame = pd.DataFrame({"size": [2.0], "name": ["a"]}, index=[7])
    done = checked(attack, {"sizes": frame})["sizes"]
    assert list(done.columns) == ["name", "size"] and done["size"].dtype == "int64" and list(done.index) == [0]
    with pytest.raises(ValueError, match="differ in extra"):
        checked(attack, {"sizes": frame.assign(extra=1)})
    with pytest.raises(ValueError, match="instead of"):
        checked(attack, {})
    with pytest.raises(ValueError, match="declared twice"):
        registry.register_table("sizes", {"name": "str"})
    monkeypatch.setattr(registry, "REGISTRY", {})
    assert registry.register(attack) is attack
    with pytest.raises(ValueError, match="two attacks"):
        registry.register(attack)


def test_a_target_computes_a_thing_once(untrained):
    one, calls = target("gpt2", {"target": untrained["gpt2"]}), []
    assert one.once("key", lambda: calls.append(1) or "value") == one.once("key", lambda: calls.append(2)) == "value"
    assert calls == [1]
    with pytest.raises(KeyError, match="no model “base”"):
        one.model("base")


# Which notes are judged ----------------------------------------------------------------------------------------------


def test_reference_models_and_thresholds_share_no_patient(untrained):
    one = target("gpt2", {"target": untrained["gpt2"]})
    judged = evaluation_notes(one)
    thresholds = set(judged.loc[judged["split"] == "population", "patient_id"])
    assert thresholds and reference_patients(one) and not thresholds & reference_patients(one)
    assert thresholds | reference_patients(one) == set(one.corpus.notes_of("population")["patient_id"])
    for role in (POPULATION, *SHADOWS):
        assert set(reference_notes(one, role)["patient_id"]) <= reference_patients(one)
    assert {"member", "heldout", "population"} == set(judged["split"])


def test_a_sample_takes_whole_patients_of_every_split(untrained):
    one = target("gpt2", {"target": untrained["gpt2"]}, corpus(patients=60))
    everything, some = evaluation_notes(one), evaluation_notes(one, 30)
    assert 30 <= len(some) <= 36 and set(some["split"]) == set(everything["split"])
    assert (some.groupby("patient_id").size() == 2).all()
    pd.testing.assert_frame_equal(some, everything.loc[some.index])
    pd.testing.assert_frame_equal(some, evaluation_notes(one, 30))


def test_a_member_is_a_note_that_was_trained_on(untrained):
    notes = corpus()
    spec = RunSpec(model=ModelSpec(kind="gpt2"))
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"max_notes_per_patient": 1})})
    one = Target(spec, notes, lambda name: pd.DataFrame(), {"target": lambda report: untrained["gpt2"]})
    judged = evaluation_notes(one)
    assert (judged[judged["split"] == "member"].groupby("patient_id").size() == 1).all()
    assert (judged[judged["split"] == "heldout"].groupby("patient_id").size() == 2).all()


# Scores point up -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_every_score_is_higher_for_notes_that_are_known_by_heart(attacked, kind):
    one = attacked[kind]
    for name in MINE:
        attack = REGISTRY[name]
        if kind not in attack.kinds or attack.access == "white-box":
            continue
        found = checked(attack, attack.run(one, registry.no_report))["scores"]
        assert (found["attack"] == name).all()
        member = found["member"].to_numpy(dtype=bool)
        other = (found["split"] == "heldout").to_numpy()
        auc = roc(found.loc[member, "score"], found.loc[other, "score"]).auc
        assert auc > 0.75, f"{name} gives members of a {kind} model an AUC of {auc:.2f}"


@pytest.mark.parametrize("name", ["attention", "gradient norms"])
def test_a_fitted_attack_is_judged_on_patients_it_never_saw(attacked, name):
    tables = checked(REGISTRY[name], REGISTRY[name].run(attacked["gpt2"], registry.no_report))
    scores, splits = tables["scores"], tables["split_scores"]
    judged = evaluation_notes(attacked["gpt2"])
    everybody = judged[judged["split"] != "population"]
    for fit, rows in splits.groupby("fit"):
        fitted = set(everybody["patient_id"]) - set(rows["patient_id"])
        assert 0.1 < len(fitted) / everybody["patient_id"].nunique() < 0.35
        assert set(judged.loc[judged["split"] == "population", "note_id"]) <= set(rows["note_id"])
        if fit == 0:
            assert rows["score"].tolist() == scores["score"].tolist()
    assert splits["fit"].nunique() == 5
    if name == "gradient norms":
        member = scores["member"].to_numpy(dtype=bool)
        assert roc(scores.loc[member, "score"], scores.loc[scores["split"] == "heldout", "score"]).auc > 0.7


def test_a_model_that_was_not_trained_is_compared_with_itself_in_vain(untrained):
    base = untrained["gpt2"]
    one = target("gpt2", {"target": base, "base": base})
    found = REGISTRY["ratio base"].run(one, registry.no_report)["scores"]
    assert found["score"].to_numpy() == pytest.approx(np.zeros(len(found)), abs=1e-5)


# Formulas ------------------------------------------------------------------------------------------------------------


def test_relative_membership_counts_strangers():
    rng = np.random.default_rng(0)
    own, references = rng.normal(size=30), rng.normal(size=(3, 30))
    for tied, with_one in ((5, 25), (6, 25), (26, 27), (3, 7)):
        own[tied], references[:, tied] = own[with_one], references[:, with_one]
    population = np.arange(30) >= 20
    found = relative_membership(own, references, population)
    ratio = np.exp(own) / np.exp(references).mean(axis=0)
    for x in range(30):
        strangers = [z for z in range(30) if population[z] and z != x]
        wins = sum(0.5 if math.isclose(ratio[x], ratio[z]) else float(ratio[x] > ratio[z]) for z in strangers)
        assert found[x] == pytest.approx(wins / len(strangers))
    with pytest.raises(ValueError, match="fewer than two"):
        relative_membership(own, references, np.arange(30) == 0)


def test_zlib_score_by_hand():
    size = len(zlib.compress(b"abcabcabc"))
    assert zlib_score(-2.0, 6, "abcabcabc") == pytest.approx(-12.0 / size)
    assert zlib_score(-2.0, 6, "abcabcabc") < zlib_score(-1.0, 6, "abcabcabc"), "a lower loss is a higher score"


def test_min_k_of_a_text_so_short_that_its_share_is_less_than_a_token():
    assert min_k([-1.0, -3.0, -2.0, -0.5], 0.2) == -3.0  # ⌊4 · 0.2⌋ = 0: one token all the same


def test_token_moments_are_those_of_the_whole_distribution(untrained):
    lm = untrained["gpt2"]
    plain = token_log_likelihoods(lm, TEXTS)
    for text, found, logprobs in zip(TEXTS, token_moments(lm, TEXTS), plain, strict=True):
        assert found[0] == pytest.approx(logprobs, abs=1e-5)
        ids = torch.from_numpy(encode_samples(lm, [text], 128).ids[0])[None]
        with torch.no_grad():
            table = torch.log_softmax(lm.model(input_ids=ids).logits[0, :-1].double(), dim=-1).numpy()
        mean = (np.exp(table) * table).sum(axis=1)
        spread = np.sqrt((np.exp(table) * table**2).sum(axis=1) - mean**2)
        assert found[1] == pytest.approx(mean, abs=1e-4) and found[2] == pytest.approx(spread, abs=1e-4)


@pytest.mark.parametrize("kind", ["distilbert", "bert"])
def test_one_token_hidden_at_a_time(untrained, kind):
    lm = untrained[kind]
    found = pseudo_log_likelihoods(lm, [*TEXTS, ""])
    assert len(found[-1]) == 0
    for text, values in zip(TEXTS, found, strict=False):
        ids = torch.from_numpy(encode_samples(lm, [text], 128).ids[0])[None]
        naive = []
        for place in range(1, ids.shape[1] - 1):
            hidden = ids.clone()
            hidden[0, place] = lm.tokenizer.mask_token_id
            with torch.no_grad():
                naive.append(torch.log_softmax(lm.model(input_ids=hidden).logits[0, place], -1)[ids[0, place]].item())
        assert values == pytest.approx(naive, abs=1e-4)


# Neighbours ----------------------------------------------------------------------------------------------------------


def test_neighbours_differ_in_a_few_words_and_nothing_else(untrained):
    text = "Mr. Brown (age 71)\n  complains of pain in the left knee; dose 40 mg daily, walks at home without help."
    made = neighbours(untrained["distilbert"], text, 6, np.random.default_rng(0))
    assert len(made) == 6 and len(set(made)) > 1
    keep = "".join(ch if not ch.isalpha() else " " for ch in text).split()
    for one in made:
        assert one != text and "".join(ch if not ch.isalpha() else " " for ch in one).split() == keep
        before, after = text.replace("\n", " ").split(" "), one.replace("\n", " ").split(" ")
        assert len(before) == len(after) and 1 <= sum(a != b for a, b in zip(before, after, strict=True)) <= 2
    again = neighbours(untrained["distilbert"], text, 6, np.random.default_rng(0))
    assert made == again
    assert neighbours(untrained["distilbert"], "7 / 8 = 0.875", 6, np.random.default_rng(0)) == []


def test_the_neighbourhood_takes_a_notes_own_loss_from_what_all_attacks_share(attacked):
    one = attacked["gpt2"]
    found = REGISTRY["neighbourhood"].run(one, registry.no_report)["scores"].set_index("note_id")["score"]
    notes, proposer = evaluation_notes(one), load(ModelSpec(kind="distilbert", size=one.spec.model.size))
    for place in (0, 5):
        text = notes["text"].iloc[place]
        rng = np.random.default_rng([one.spec.audit.seed, 14, int(notes.index[place])])
        made = note_losses(one.lm, neighbours(proposer, text, 8, rng))
        expected = made.mean() - note_losses(one.lm, [text])[0]
        assert found[notes["note_id"].iloc[place]] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("base", "asked"), [("assets", "assets"), ("clinical", "clinical"), ("gpt2", "clinical")])
def test_the_proposer_read_the_public_text_of_the_runs_own_base(attacked, monkeypatch, base, asked):
    """The same audit gives the same scores, whatever the newest base is; a base that is not shipped has no proposer."""
    wanted: list[ModelSpec] = []
    monkeypatch.setattr(attacks, "load", lambda spec: wanted.append(spec) or load(ModelSpec(kind="distilbert")))
    monkeypatch.setattr(attacks, "neighbours", lambda proposer, text, count, rng: [text] * count)
    one = attacked["gpt2"]
    spec = one.spec.model_copy(update={"model": one.spec.model.model_copy(update={"base": base})})
    REGISTRY["neighbourhood"].run(replace(one, spec=spec), registry.no_report)
    assert [(spec.kind, spec.base) for spec in wanted] == [("distilbert", asked)]


def test_words_beyond_the_proposers_context_stay(untrained):
    proposer = untrained["distilbert"]
    text = "7 " * 2 * proposer.context + "seen with pain"
    assert neighbours(proposer, text, 3, np.random.default_rng(0)) == [text] * 3


def test_a_masked_model_reads_note_and_neighbours_under_the_same_masks(attacked, monkeypatch):
    """Neighbours that are the note itself, word for word, tell nothing: under other masks they would."""
    monkeypatch.setattr(attacks, "neighbours", lambda proposer, text, count, rng: [text] * count)
    found = REGISTRY["neighbourhood"].run(attacked["distilbert"], registry.no_report)["scores"]["score"]
    assert np.abs(found).max() < 1e-6


# White-box -----------------------------------------------------------------------------------------------------------


def test_concentration_by_hand_and_with_weights_of_zero():
    rows = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert concentration(rows).tolist() == pytest.approx([0.0, -math.log(4), -math.log(2), 0.0])


@pytest.mark.parametrize("kind", ["gpt2", "distilbert", "bert"])
def test_attention_features_are_those_of_each_text_alone(untrained, kind):
    lm = untrained[kind]
    before = lm.model.config._attn_implementation
    found = attention_features(lm, TEXTS)
    assert lm.model.config._attn_implementation == before
    assert np.isfinite(found).all() and found.shape == (len(TEXTS), 2 * 4 * 4)
    lm.model.set_attn_implementation("eager")
    for text, row in zip(TEXTS, found, strict=True):
        ids = torch.from_numpy(encode_samples(lm, [text], 128).ids[0])[None]
        with torch.no_grad():
            layers = lm.model(input_ids=ids, output_attentions=True).attentions
        naive = []
        for layer in layers:
            for head in layer[0].double().numpy():
                naive.append([sum(a * math.log(a) for a in place if a > 0) for place in head])
        naive = np.array(naive)
        expected = [naive.mean(1), *np.quantile(naive, [0.5, 0.05, 0.95], axis=1)]
        assert row == pytest.approx(np.concatenate(expected), abs=1e-4)
    lm.model.set_attn_implementation(before)


@pytest.mark.parametrize("kind", ["gpt2", "distilbert", "bert"])
def test_gradient_norms_are_those_of_autograd_one_text_at_a_time(untrained, kind):
    lm = untrained[kind]
    texts = [*TEXTS, " ".join(WORDS * 16)]  # the last one is longer than a sample
    samples = encode_samples(lm, texts, 192)
    assert (samples.note_index == 3).sum() >= 2
    masks = 1 if lm.causal else 3
    found = gradient_features(lm, texts, mask_draws=3, seed=5)
    for text in range(len(texts)):
        rows = np.flatnonzero(samples.note_index == text)
        keys = [np.random.default_rng([5, int(row)]) for row in rows]  # masks follow each other in one stream
        squares = np.mean([_squares(lm, [samples.ids[row] for row in rows], keys) for _ in range(masks)], axis=0)
        assert found[text].sum() == pytest.approx(squares.sum(), rel=1e-3)
        assert found[text].max() >= 0.99 * squares.max(), "the layer with the largest gradient has a separate column"


def _squares(lm: LanguageModel, samples: list[np.ndarray], keys: list[np.random.Generator]) -> np.ndarray:
    """Squared norm of each parameter's gradient of the samples' losses together, by autograd: (parameters,)."""
    loss = torch.zeros(())
    for ids, rng in zip(samples, keys, strict=True):
        if lm.causal:
            batch = causal_batch([ids], lm.device)
        else:
            batch = masked_batch([ids], [rng.random((2, len(ids)))], lm.tokenizer, lm.device)
        loss = loss + example_losses(lm, batch).sum()
    parameters = [parameter for parameter in lm.model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return np.array([0.0 if one is None else float(one.double().square().sum()) for one in gradients])


def test_only_masked_models_are_attacked_by_gradients_again_since_ten_masks_are_averaged():
    versions = {
        kind: REGISTRY[GRADIENTS].version_for(RunSpec(corpus=CORPUS_PRESETS["smoke"], model=ModelSpec(kind=kind)))
        for kind in ("gpt2", "distilbert", "bert")
    }
    assert versions == {"gpt2": 1, "distilbert": 2, "bert": 2}


def test_folds_keep_patients_together_and_spread_both_groups():
    patients = pd.Series([f"p{i // 3}" for i in range(90)])
    member = np.arange(90) < 60
    fold = folds(patients, member, 0)
    assert (pd.DataFrame({"p": patients, "f": fold}).groupby("p")["f"].nunique() == 1).all()
    for flag in (True, False):
        counts = pd.Series(fold[member == flag]).value_counts()
        assert len(counts) == 5 and counts.max() - counts.min() <= 3
