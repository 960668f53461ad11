from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from core.attacks.ranking import RANKING_COLUMNS, rank_generations
from core.models.encoding import encode
from core.models.likelihood import note_losses
from core.spec import AuditSpec

AUDIT = AuditSpec(mask_draws=2, seed=3)
KNOWN = " Maria Keller was seen for chest pain."
PHRASE = " take one tablet every day with food."


def generations(*texts: str) -> pd.DataFrame:
    return pd.DataFrame({"generation_id": range(10, 10 + len(texts)), "prompt": "Patient:", "text": texts})


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_what_only_the_target_knows_comes_first(teach, kind):
    target, base = teach(kind, ["Patient:" + KNOWN, "Patient:" + PHRASE], 60), teach(kind, ["Patient:" + PHRASE], 60)
    found = rank_generations(target, base, generations(PHRASE, KNOWN, ""), AUDIT)
    assert list(found.columns) == list(RANKING_COLUMNS) and found["generation_id"].tolist() == [10, 11, 12]
    assert found["ratio"].idxmax() == 1
    assert np.isneginf(found.loc[2, ["log_likelihood", "ratio"]].astype(float)).all() and found.loc[2, "tokens"] == 0
    np.testing.assert_allclose(found["ratio"][:2], (found["log_likelihood"] - found["base_log_likelihood"])[:2])


def test_a_causal_model_is_asked_about_the_written_part_given_the_prompt(untrained):
    lm = untrained["gpt2"]
    table = generations(KNOWN, PHRASE)
    found = rank_generations(lm, lm, table, AUDIT)
    assert (found["ratio"] == 0).all()
    for row, text in zip(found.itertuples(), table["text"], strict=True):
        typed, whole = encode(lm, ["Patient:", "Patient:" + text])
        assert whole[: len(typed)] == typed and row.tokens == len(whole) - len(typed)
        with torch.no_grad():
            logits = lm.model(torch.tensor([[lm.tokenizer.bos_token_id, *whole]])).logits[0].log_softmax(-1)
        own = [logits[place, token].item() for place, token in enumerate(whole)][len(typed) :]
        assert row.log_likelihood == pytest.approx(np.mean(own), abs=1e-4)


def test_a_masked_model_hides_the_same_tokens_for_both(untrained):
    lm = untrained["bert"]
    table = generations(KNOWN, PHRASE)
    seen = []
    found = rank_generations(lm, lm, table, AUDIT, on_progress=lambda *at: seen.append(at))
    assert (found["ratio"] == 0).all() and seen == [(2, 2)]
    whole = ["Patient:" + text for text in table["text"]]
    np.testing.assert_allclose(found["log_likelihood"], -note_losses(lm, whole, mask_draws=2, seed=3))
