"""Which layers of a masked model know a name: vectors of names, and half a name read out, layer by layer.

Lehman 2021 reads the last layer alone (§6.4, §6.5). Here the same questions are put to every layer.

*Name seen*: a logistic regression on the [CLS] vector of “[CLS] First Last [SEP]” after each layer, fitted and
evaluated on the same halves of the patients as the probe.

*Half a name*: the model's own head on the vectors of the hidden last name's places after each layer, mean log p of its
tokens (nostalgebraist 2020, “logit lens”). Layer 0 are the embeddings, which know the place and nothing of the first
name.

After the last layer both are the probes of the battery.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.identities import identities, models_of
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.name_seen import learning_half, regression_scores
from core.attacks.probes.vectors import batches, padded, with_specials
from core.attacks.registry import NotPossible, Report, Target, no_report
from core.models.build import LanguageModel
from core.models.encoding import encode

NAME = "name layers"
COLUMNS = {
    "probe": "str",  # name seen | half a name
    "model": "str",  # target | public
    "layer": "int8",  # 0: the embeddings
    "patient_id": "str",
    "label": "bool",  # member
    "score": "float32",
}


def name_layers(target: Target, report: Report = no_report) -> pd.DataFrame:
    """A score for each probe, model, layer and patient: the columns are `COLUMNS`.

    Raises:
        NotPossible: for a causal model, which has no [CLS] and is asked from the left only.
    """
    if target.lm.causal:
        raise NotPossible("layers are compared in masked models")
    asked = identities(target)
    fitted = learning_half(target, asked.members)
    known = pd.DataFrame({"patient_id": asked.patients["patient_id"], "label": asked.members})
    frames = []
    for done, (role, lm) in enumerate(models_of(target)):
        for layer, features in enumerate(cls_by_layer(lm, asked.names)):
            if layer == 0:  # the embedding of [CLS] is the same for every name
                continue
            scores = regression_scores(features, asked.members, fitted)
            frames.append(known[~fitted].assign(probe=NAME_SEEN, model=role, layer=layer, score=scores))
        for layer, scores in enumerate(last_name_by_layer(lm, asked.patients)):
            frames.append(known.assign(probe=HALF_NAME, model=role, layer=layer, score=scores))
        report(done + 1, 2)
    return pd.concat(frames, ignore_index=True)


def cls_by_layer(lm: LanguageModel, texts: list[str]) -> np.ndarray:
    """The vector of [CLS] after the embeddings and after each layer: float32 (layers + 1, texts, width)."""
    whole = [with_specials(lm, ids) for ids in encode(lm, texts)]
    found: dict[int, np.ndarray] = {}
    with torch.inference_mode():
        for batch in batches([len(ids) for ids in whole]):
            states = _states(lm, *padded(lm, [whole[row] for row in batch]))
            vectors = torch.stack([state[:, 0] for state in states], dim=1).float().cpu().numpy()
            found |= dict(zip(batch, vectors, strict=True))
    return np.stack([found[row] for row in range(len(texts))], axis=1)


def last_name_by_layer(lm: LanguageModel, patients: pd.DataFrame) -> np.ndarray:
    """Mean log p in nats of each last name after its first name, read out after each layer: (layers + 1, patients)."""
    first, last = (encode(lm, patients[half].tolist()) for half in ("first", "last"))
    whole = [with_specials(lm, [*one, *other]) for one, other in zip(first, last, strict=True)]
    found: dict[int, np.ndarray] = {}
    with torch.inference_mode():
        for batch in batches([len(ids) for ids in whole]):
            ids, attention = padded(lm, [whole[row] for row in batch])
            hidden = torch.zeros_like(ids, dtype=torch.bool)
            for at, row in enumerate(batch):
                start = 1 + len(first[row])  # after [CLS]
                hidden[at, start : start + len(last[row])] = True
            means = []
            for state in _states(lm, ids.masked_fill(hidden, lm.tokenizer.mask_token_id), attention):
                logits = lm.head(state[hidden]).float()
                chosen = logits.gather(-1, ids[hidden][:, None]).squeeze(-1) - torch.logsumexp(logits, -1)
                every = torch.zeros(ids.shape, dtype=torch.double).masked_scatter(hidden.cpu(), chosen.double().cpu())
                means.append((every.sum(1) / hidden.sum(1).cpu()).numpy())
            found |= dict(zip(batch, np.stack(means, axis=1), strict=True))
    return np.stack([found[row] for row in range(len(whole))], axis=1)


def _states(lm: LanguageModel, ids: torch.Tensor, attention: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The hidden states (B, T, width) after the embeddings and after each layer."""
    body: Any = lm.model.base_model
    return body(input_ids=ids, attention_mask=attention, output_hidden_states=True).hidden_states
