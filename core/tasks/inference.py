"""Inference: does a note entail a claim, contradict it or leave it open? (As MedNLI: Romanov & Shivade 2018.)

The model reads note and claim one after the other. A head on its vectors, fitted on notes of population patients, says
which of the three holds for notes of held-out patients. Jagannatha 2021 (§5.2) measures utility in this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import normalize

from core.attacks.probes.vectors import batches, padded
from core.models.build import LanguageModel
from core.models.encoding import encode
from core.tasks.claims import LABELS, Pair
from core.tasks.heads import Report, fit, reported_from

TASK, CLAIM_ONLY = "inference", "inference, claim alone"
CLAIM_TOKENS = 48  # most tokens of a claim; a note is cut so that both fit
_SHARPNESS = 10.0  # of the alignment: weights are softmax(10 · cosine)


def inference_counts(
    lm: LanguageModel, learned: Sequence[Pair], judged: Sequence[Pair], *, seed: int, report: Report | None = None
) -> pd.DataFrame:
    """Fit heads on `learned`, and count right answers on `judged` by patient and family of claims.

    `trials` are pairs and `correct` the right answers among them. Rows of the task `CLAIM_ONLY` are those of a head
    that saw no note.

    Raises:
        ValueError: there is nothing to learn from.
    """
    labels = np.array([LABELS.index(pair.label) for pair in learned])
    wanted = np.array([LABELS.index(pair.label) for pair in judged])
    total = len(learned) + len(judged)
    rows = []
    for task, alone in ((TASK, False), (CLAIM_ONLY, True)):
        progress = None if alone else report
        known = pair_vectors(lm, learned, alone=alone, report=reported_from(progress, 0, total))
        asked = pair_vectors(lm, judged, alone=alone, report=reported_from(progress, len(learned), total))
        right = fit(known, labels, len(LABELS), seed=seed).predict(asked) == wanted
        rows.append(
            pd.DataFrame(
                {
                    "task": task,
                    "kind": [pair.family for pair in judged],
                    "patient_id": [pair.patient_id for pair in judged],
                    "trials": 1,
                    "correct": right.astype(int),
                }
            )
        )
    counted = pd.concat(rows).groupby(["task", "kind", "patient_id"], sort=True, as_index=False).sum()
    return counted.assign(predicted=counted["trials"])


def pair_vectors(
    lm: LanguageModel, pairs: Sequence[Pair], *, alone: bool = False, report: Report | None = None
) -> np.ndarray:
    """One row a pair, float32: note and claim read together, or the claim `alone`.

    With u the mean over the note's last hidden states and v that over the claim's, a row holds u, v, |u − v| and u·v
    (Conneau et al. 2017, §3.2), the last state of the claim (for GPT-2 the only one that has read everything), and the
    means of |h − a| and h·a over the claim's states h, where a is the mean of the note's states weighted by their
    likeness to h (after Parikh et al. 2016, eq. 2; here without any weights to learn).
    """
    claims = [ids[:CLAIM_TOKENS] for ids in encode(lm, [pair.claim for pair in pairs])]
    tokenizer = lm.tokenizer
    begin, between = (
        ([tokenizer.bos_token_id], []) if lm.causal else ([tokenizer.cls_token_id], [tokenizer.sep_token_id])
    )
    if alone:
        notes: list[list[int]] = [[] for _ in pairs]
    else:
        room = lm.context - CLAIM_TOKENS - 3
        notes = [ids[:room] for ids in encode(lm, [pair.premise for pair in pairs])]
    rows = [[*begin, *note, *between, *claim, *between] for note, claim in zip(notes, claims, strict=True)]
    found: list[np.ndarray] = [np.empty(0)] * len(pairs)
    done = 0
    with torch.inference_mode():
        for batch in batches([len(row) for row in rows]):
            ids, attention = padded(lm, [rows[row] for row in batch])
            for row, states in zip(batch, lm.hidden(ids, attention).float().cpu(), strict=True):
                start = 1 + len(notes[row]) + len(between)
                claim = states[start : start + len(claims[row])]
                found[row] = _joined(None if alone else states[1 : 1 + len(notes[row])], claim).numpy()
            done += len(batch)
            if report is not None:
                report(done, len(pairs))
    return np.stack(found)


def _joined(note: torch.Tensor | None, claim: torch.Tensor) -> torch.Tensor:
    """Features of the states of a note (n, width) and of a claim (m, width): one vector."""
    v = claim.mean(0)
    if note is None:
        return torch.cat([v, claim[-1]])
    u = note.mean(0)
    likeness = normalize(claim, dim=1) @ normalize(note, dim=1).T  # (m, n)
    aligned = torch.softmax(_SHARPNESS * likeness, dim=1) @ note
    return torch.cat(
        [u, v, (u - v).abs(), u * v, claim[-1], (claim - aligned).abs().mean(0), (claim * aligned).mean(0)]
    )
