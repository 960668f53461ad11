"""Fill in the blank (Lehman 2021, §6.1): how likely is a condition after a name, and how likely is it anyway?

The query is the sentence of the Template Only corpus: “Mr. First Last is a 63 yo patient with [MASK]…[MASK].”, with as
many masks as the condition has tokens. (The paper's sentence has no age, because its model never read digits; ours
does.) The score is the mean log p of the condition's tokens, all of them masked: minus the log of the paper's
perplexity. For GPT-2 it is that of its tokens after “… patient with”. Conditions of different length are not
comparable, so `bin` is the number of tokens. Controls: the same sentence with another patient's name, the template
without a name (“[MASK]…[MASK].”), and the frequency baseline, the number of named members who have the condition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from core.attacks.probes.identities import Identities, first_of_each_split, models_of, with_conditions
from core.attacks.probes.table import PROBES, TARGET, matrix_rows, rows
from core.attacks.probes.vectors import batches, padded
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, no_report, register
from core.models.build import LanguageModel
from core.models.encoding import encode

PROBE = "fill in the blank"
NAME, OTHER_NAME, CONDITION_ONLY, FREQUENCY = "name", "another name", "condition only", "frequency"
MOST_CAUSAL = 48  # patients of each split for GPT-2, which must read every condition after every name
GROUPS = 4  # of conditions of similar length that GPT-2 reads together, to reduce padding
_END = "."  # as the notes of the Template Only corpus end


def openings(patients: pd.DataFrame) -> list[str]:
    """“Mr. First Last is a 63 yo patient with” for every patient."""
    who = patients["title"] + " " + patients["first"] + " " + patients["last"]
    return (who + " is a " + patients["age"].astype(str) + " yo patient with").tolist()


def condition_ids(lm: LanguageModel, wordings: Sequence[str]) -> list[list[int]]:
    """Token ids of every condition as in a sentence (for GPT-2 with the space before it)."""
    return encode(lm, [f" {wording}" if lm.causal else wording for wording in wordings])


def condition_scores(
    lm: LanguageModel, opening_texts: Sequence[str], conditions: Sequence[list[int]], *, report: Report = no_report
) -> np.ndarray:
    """Mean log p in nats per token of every condition after every opening: float64 (openings, conditions).

    Masked models hide all tokens of the condition at once, so one forward pass per opening scores all conditions of one
    length. An empty opening is the template with the condition only.
    """
    prefixes = encode(lm, list(opening_texts))
    scores = np.empty((len(prefixes), len(conditions)))
    score = _causal if lm.causal else _masked
    with torch.inference_mode():
        score(lm, prefixes, conditions, scores, report)
    return scores


def _masked(
    lm: LanguageModel, prefixes: list[list[int]], conditions: Sequence[list[int]], scores: np.ndarray, report: Report
) -> None:
    words = lm.tokenizer
    end = [*encode(lm, ["|" + _END])[0][1:], words.sep_token_id]  # “.” tokenised as the continuation of a word
    lengths = np.array([len(ids) for ids in conditions])
    for place, length in enumerate(np.unique(lengths)):
        same = np.flatnonzero(lengths == length)
        tokens = torch.tensor([conditions[number] for number in same.tolist()], device=lm.device)  # (C, k)
        texts = [[words.cls_token_id, *prefix, *[words.mask_token_id] * int(length), *end] for prefix in prefixes]
        for batch in batches([len(text) for text in texts]):
            ids, attention = padded(lm, [texts[row] for row in batch])
            hidden = lm.hidden(ids, attention)[ids == words.mask_token_id]  # (B · k, width)
            chances = torch.log_softmax(lm.head(hidden).float(), -1).view(len(batch), int(length), -1)  # (B, k, V)
            chosen = chances[:, torch.arange(int(length), device=lm.device), tokens]  # (B, C, k)
            scores[np.ix_(np.array(batch), same)] = chosen.mean(-1).cpu().numpy()
        report(place + 1, len(np.unique(lengths)))


def _causal(
    lm: LanguageModel, prefixes: list[list[int]], conditions: Sequence[list[int]], scores: np.ndarray, report: Report
) -> None:
    """Read each opening once for each group of conditions of similar length, which share its keys and values."""
    order = np.argsort([len(ids) for ids in conditions], kind="stable")
    groups = [same for same in np.array_split(order, GROUPS) if len(same)]
    read = [padded(lm, [conditions[number] for number in same]) for same in groups]
    for row, prefix in enumerate(prefixes):
        start = torch.tensor([[lm.tokenizer.bos_token_id, *prefix]], device=lm.device)
        for same, (ids, attention) in zip(groups, read, strict=True):
            scores[row, same] = _after(lm, start, ids, attention)
        report(row + 1, len(prefixes))


def _after(lm: LanguageModel, start: torch.Tensor, ids: torch.Tensor, attention: torch.Tensor) -> np.ndarray:
    """Mean log p of each row of `ids` (C, k), right-padded according to `attention`, after `start` (1, T): (C,)."""
    before = lm.model.base_model(input_ids=start, use_cache=True)
    first = torch.log_softmax(lm.head(before[0][:, -1]).float(), -1)[0]  # (V,)
    before.past_key_values.batch_repeat_interleave(len(ids))
    seen = torch.cat([attention.new_ones(len(ids), start.shape[1]), attention], 1)
    hidden = lm.model.base_model(input_ids=ids, past_key_values=before.past_key_values, attention_mask=seen)[0]
    later = attention[:, 1:].bool()
    logits = lm.head(hidden[:, :-1][later]).float()
    rest = torch.zeros(later.shape, device=lm.device)
    rest[later] = logits.gather(-1, ids[:, 1:][later][:, None]).squeeze(-1) - torch.logsumexp(logits, -1)
    return ((first[ids[:, 0]] + rest.sum(1)) / attention.sum(1)).double().cpu().numpy()


def fill_in_the_blank(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe: a score for every patient and condition, and both baselines once for each condition."""
    asked = with_conditions(target)
    chosen = first_of_each_split(asked, MOST_CAUSAL) if target.lm.causal else np.arange(len(asked.patients))
    frames = []
    for role, lm in models_of(target)[: 1 if target.lm.causal else 2]:  # the public GPT-2 has a separate audit
        conditions = condition_ids(lm, asked.wordings)
        bins = [str(len(ids)) for ids in conditions]
        asking = [(NAME, asked.patients), (OTHER_NAME, asked.swapped)] if role == TARGET else [(NAME, asked.patients)]
        for method, named in asking:
            patients = named.iloc[chosen]
            scores = condition_scores(lm, openings(patients), conditions, report=report)
            frames.append(
                matrix_rows(PROBE, method, patients, asked.codes, scores, asked.has[chosen], model=role, bins=bins)
            )
        alone = condition_scores(lm, [""], conditions)[0]
        frames.append(_once(CONDITION_ONLY, asked, alone, role, bins))
        if role == TARGET:
            frames.append(_once(FREQUENCY, asked, asked.frequency, role, bins))
    return {PROBES: pd.concat(frames, ignore_index=True)}


def _once(method: str, asked: Identities, scores: np.ndarray, model: str, bins: Sequence[str]) -> pd.DataFrame:
    return rows(PROBE, method, model=model, target=list(asked.codes), bin=list(bins), score=scores, label=False)


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.1",
        access="grey-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Puts a patient's name before a blank and measures how likely the model finds each condition there.",
        tables=(PROBES,),
        run=fill_in_the_blank,
    )
)
