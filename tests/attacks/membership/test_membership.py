from __future__ import annotations

import numpy as np
import pytest

from core.attacks.membership.scores import loss_scores, min_k, min_k_plus_plus, public_scores
from core.corpus.synthetic.hospital import build
from core.evaluation.stats.roc import roc
from core.models.encoding import can_be_scored
from core.models.likelihood import perplexity, token_log_likelihoods
from core.pipeline import quick_audit
from core.runs.tables import SCHEMAS, write_table
from core.spec import CORPUS_PRESETS, AuditSpec, RunSpec, TrainingSpec

AUDIT = AuditSpec(mask_draws=2)


@pytest.fixture(scope="module")
def notes():
    return build(CORPUS_PRESETS["smoke"]).notes


def test_scores_are_minus_the_mean_token_loss_of_members_and_heldout_notes_only(untrained, notes, tmp_path):
    lm = untrained["gpt2"]
    steps = []
    scores = loss_scores(lm, notes, AUDIT, on_progress=lambda done, total: steps.append((done, total)))
    judged = notes[notes["split"].isin(["member", "heldout"])]
    assert scores["note_id"].tolist() == judged["note_id"].tolist()
    assert {"canary", "population"} & set(notes["split"]) and set(scores["split"]) == {"member", "heldout"}
    assert (scores["member"] == (scores["split"] == "member")).all() and set(scores["attack"]) == {"loss"}
    assert steps[-1] == (len(judged), len(judged))
    for place in (0, len(judged) - 1):
        logprobs = token_log_likelihoods(lm, [judged["text"].iloc[place]])[0]
        assert scores["score"].iloc[place] == pytest.approx(logprobs.mean(), abs=1e-5)
        assert scores["tokens"].iloc[place] == len(logprobs)
    write_table(tmp_path, "scores", scores)
    assert list(scores.columns) == SCHEMAS["scores"].names


def test_the_quick_audit_judges_the_notes_that_were_trained_on(untrained):
    corpus = build(CORPUS_PRESETS["smoke"])
    few = RunSpec(corpus=corpus.spec, training=TrainingSpec(max_notes_per_patient=2), audit=AUDIT)
    (attack,) = [one for one in quick_audit.ATTACKS if one.tables == ("scores",)]
    (scores,) = attack.make(untrained["gpt2"], corpus, few, lambda done, total: None, lambda: False)
    members = set(scores.loc[scores["split"] == "member", "note_id"])
    assert members == set(corpus.training_notes(2)["note_id"]) - set(corpus.notes_of("canary")["note_id"])
    assert members < set(corpus.notes_of("member")["note_id"])
    assert set(scores.loc[scores["split"] == "heldout", "note_id"]) == set(corpus.notes_of("heldout")["note_id"])
    assert corpus.evaluation_notes(50) is corpus.notes, "nothing is copied where nothing is left out"


def test_an_audit_of_some_patients_judges_the_same_ones_in_every_run(untrained):
    corpus = build(CORPUS_PRESETS["smoke"])
    audit = AUDIT.model_copy(update={"patients": 5})
    (attack,) = [one for one in quick_audit.ATTACKS if one.tables == ("scores",)]
    judged = {}
    for seed in (0, 1):
        spec = RunSpec(corpus=corpus.spec, training=TrainingSpec(seed=seed), audit=audit)
        (scores,) = attack.make(untrained["gpt2"], corpus, spec, lambda done, total: None, lambda: False)
        judged[seed] = scores[scores["attack"] == "loss"]
    assert judged[0].groupby("split")["patient_id"].nunique().to_dict() == {"member": 5, "heldout": 5}
    assert judged[0]["note_id"].tolist() == judged[1]["note_id"].tolist(), "runs of a cohort share their patients"
    everybody = corpus.notes[corpus.notes["patient_id"].isin(judged[0]["patient_id"])]
    assert set(judged[0]["note_id"]) == set(everybody["note_id"]), "a judged patient keeps every note"
    others = corpus.judged_patients(audit.model_copy(update={"seed": 1}))
    assert corpus.judged_patients(audit) != others, "another audit draws other patients"
    kept = corpus.evaluation_notes(None, audit)
    for split in ("population", "canary"):
        assert (kept["split"] == split).sum() == (corpus.notes["split"] == split).sum()
    everyone = audit.model_copy(update={"patients": 10_000})
    assert corpus.evaluation_notes(None, everyone) is corpus.notes, "fewer patients than may be judged: all are"


def test_progress_in_chunks_changes_no_score(untrained, notes, monkeypatch):
    from core.attacks.membership import scores as membership

    together = loss_scores(untrained["gpt2"], notes, AUDIT)["score"]
    monkeypatch.setattr(membership, "_CHUNK", 7)
    np.testing.assert_allclose(loss_scores(untrained["gpt2"], notes, AUDIT)["score"], together, atol=1e-5)


def test_notes_learned_by_heart_score_higher(teach, notes):
    judged = notes[notes["split"].isin(["member", "heldout"])].groupby("split").head(3).copy()
    judged["text"] = judged["text"].str[:120]
    lm = teach("gpt2", judged.loc[judged["split"] == "member", "text"].tolist(), 40)
    scores = loss_scores(lm, judged, AUDIT)
    assert roc(scores.loc[scores["member"], "score"], scores.loc[~scores["member"], "score"]).auc == 1.0


def test_public_rows_give_the_public_perplexity(untrained):
    from core.corpus.public_text import heldout_text

    lm = untrained["gpt2"]
    rows = public_scores(lm, AUDIT)
    assert set(rows["attack"]) == {"public loss"} and not rows["member"].any() and rows["patient_id"].isna().all()
    nats = -(rows["score"] * rows["tokens"]).sum() / rows["tokens"].sum()
    assert np.exp(nats) == pytest.approx(perplexity(lm, heldout_text()), rel=1e-5)


def test_a_masked_model_scores_too_and_repeats_itself(untrained, notes):
    few = notes[notes["split"].isin(["member", "heldout"])].groupby("split").head(4)
    first, again = (loss_scores(untrained["distilbert"], few, AUDIT)["score"] for _ in range(2))
    assert first.tolist() == again.tolist() and (first < 0).all()


def test_a_note_of_unknown_words_alone_is_not_judged(untrained, notes):
    """Another alphabet: a masked model has no token to hide there, and one such note must not end a whole audit."""
    judged = notes[notes["split"].isin(["member", "heldout"])].head(12).copy()
    judged["split"] = ["member", "heldout"] * 6
    judged.loc[judged.index[3], "text"] = "患者 нет"
    for kind, left in (("bert", 11), ("gpt2", 12)):
        scores = loss_scores(untrained[kind], judged, AUDIT)
        assert len(scores) == left and np.isfinite(scores["score"]).all()
        assert (judged["note_id"].iloc[3] in set(scores["note_id"])) is (kind == "gpt2")
    assert can_be_scored(untrained["bert"], ["", "患者", "患者 a"]).tolist() == [False, False, True]


def test_a_cohort_without_heldout_notes_is_refused(untrained, notes):
    with pytest.raises(ValueError, match="heldout"):
        loss_scores(untrained["gpt2"], notes[notes["split"] == "member"], AUDIT)


def test_min_k_known_answers():
    logprobs = [-1.0, -5.0, -2.0, -4.0, -3.0]
    assert min_k(logprobs, 0.4) == pytest.approx(-4.5)
    assert min_k(logprobs, 1.0) == pytest.approx(-3.0)
    assert min_k(logprobs, 0.1) == -5.0  # int(5 × 0.1) = 0, yet one token is taken
    assert min_k(np.arange(-10.0, 0.0), 0.7) == pytest.approx(np.arange(-10, -3).mean())  # 10 × 0.7 = 6.999…


def test_min_k_plus_plus_known_answers():
    logprobs, mu, sigma = [-1.0, -6.0, -2.0, 0.0], [-2.0, -2.0, -2.0, 0.0], [1.0, 2.0, 4.0, 0.0]
    # standardised: 1, −2, 0, and 0 where the model is certain
    assert min_k_plus_plus(logprobs, mu, sigma, 0.25) == pytest.approx(-2.0)
    assert min_k_plus_plus(logprobs, mu, sigma, 0.5) == pytest.approx(-1.0)
    assert min_k_plus_plus(logprobs, mu, sigma, 1.0) == pytest.approx(-0.25)


@pytest.mark.parametrize(("values", "k"), [([], 0.2), ([-1.0], 0.0), ([-1.0], 1.5)])
def test_min_k_refuses_nothing_to_average(values, k):
    with pytest.raises(ValueError, match="tokens"):
        min_k(values, k)


def test_min_k_plus_plus_refuses_shapes_that_differ():
    with pytest.raises(ValueError, match="every token needs"):
        min_k_plus_plus([-1.0, -2.0], [-1.0], [1.0], 0.5)
