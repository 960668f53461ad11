"""Prefix attack and exact memorisation: given the beginning of a note, does the model write the rest word for word?

The definition is that of Carlini et al. 2023 ("Quantifying memorization"): given the first k tokens of a training note,
greedy decoding must return the rest verbatim. The PrivAI-Leak report (§4.2.4) tests exact memorisation with neither a
definition nor a control. Here, held-out patients' notes (which share the hospital's phrases) and the public base model
are the controls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch

from core.models.build import LanguageModel
from core.models.encoding import encode
from core.models.likelihood import BATCH_TOKENS

PREFIXES = (8, 16, 32)  # tokens that the attacker knows
EXACT_PREFIX = 32  # the prefix that defines exact memorisation: as close to the paper's 50 as short notes allow
REST_TOKENS = 50  # at most this much of the rest is requested (as in the paper)…
FEWEST_REST = 16  # …and at least this much, because a few words can match by chance
MOST_NOTES = 1_500  # of each split, drawn at random

PREFIX_COLUMNS = {
    "model": "str",  # target | base
    "note_id": "str",
    "patient_id": "str",
    "split": "str",
    "prefix_tokens": "int32",
    "rest_tokens": "int32",
    "matched_tokens": "int32",
    "verbatim": "bool",
    "prefix_end": "int32",  # characters of the note's text: [prefix_end, matched_end) came back word for word
    "matched_end": "int32",
}


def asked_notes(
    lm: LanguageModel, notes: pd.DataFrame, *, seed: int, prefixes: Sequence[int] = PREFIXES, limit: int = MOST_NOTES
) -> pd.DataFrame:
    """Notes long enough for every prefix and `FEWEST_REST` tokens after it, at most `limit` of a split, drawn by seed.

    `notes` has columns `note_id`, `patient_id`, `split`, `text`. Every prefix is thus evaluated on the same notes.
    """
    needed = max(prefixes) + FEWEST_REST
    shuffled = notes.iloc[np.random.default_rng([seed, 7061]).permutation(len(notes))]
    kept = []
    for _, of_split in shuffled.groupby("split"):
        missing = limit
        for start in range(0, len(of_split), limit):  # in parts: a large cohort need not be encoded for a sample
            part = of_split.iloc[start : start + limit]
            long_enough = np.array([len(ids) >= needed for ids in encode(lm, part["text"].tolist())], dtype=bool)
            kept.append(part[long_enough].head(missing))
            missing -= len(kept[-1])
            if not missing:
                break
    return pd.concat(kept).sort_values("note_id").reset_index(drop=True) if kept else notes.head(0)


def prefix_attack(
    lm: LanguageModel,
    notes: pd.DataFrame,
    *,
    role: str = "target",
    prefixes: Sequence[int] = PREFIXES,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Longest verbatim continuation of every note after each prefix: the `prefixes` table with `model` = `role`.

    Greedy decoding reproduces a note as long as the most likely token after the note's own tokens is the next one, so
    one pass over a note answers for all prefixes. (A test compares this with `generate.sample(greedy=True)`.)

    Args:
        lm: a causal model.
        notes: from `asked_notes`.
        role: `target` or `base`.
        prefixes: lengths in tokens.
        on_progress: called with (notes done, all notes).

    Returns:
        A row for every note and every prefix that leaves at least one token of it. `verbatim` is true when all of the
        rest, at most `REST_TOKENS` tokens, was reproduced.

    Raises:
        ValueError: for a masked model, and for prefixes that are not positive or do not fit into the context.
    """
    if not lm.causal:
        raise ValueError(f"a {lm.kind} model does not continue a text, so it cannot be asked for the rest of a note")
    if not prefixes or min(prefixes) < 1:
        raise ValueError(f"a prefix needs at least one token; got {list(prefixes)}")
    longest = max(prefixes) + REST_TOKENS
    if longest >= lm.context:
        raise ValueError(f"a prefix of {max(prefixes)} tokens and its rest do not fit into {lm.context} tokens")
    encodings = lm.tokenizer.backend_tokenizer.encode_batch(notes["text"].tolist(), add_special_tokens=False)
    ids = [encoding.ids[:longest] for encoding in encodings]
    rows: list[tuple] = []
    for done, (place, right) in enumerate(_predicted(lm, ids), start=1):
        note, ends = notes.iloc[place], [end for _, end in encodings[place].offsets]
        for prefix in prefixes:
            rest = right[prefix : prefix + REST_TOKENS]
            if not len(rest):
                continue
            matched = len(rest) if rest.all() else int(rest.argmin())
            rows.append(
                (
                    role,
                    note["note_id"],
                    note["patient_id"],
                    note["split"],
                    prefix,
                    len(rest),
                    matched,
                    matched == len(rest),
                    ends[prefix - 1],
                    ends[prefix + matched - 1],
                )
            )
        if on_progress is not None and (done % 64 == 0 or done == len(ids)):
            on_progress(done, len(ids))
    frame = pd.DataFrame(rows, columns=list(PREFIX_COLUMNS)).astype(PREFIX_COLUMNS)
    return frame.sort_values(["note_id", "prefix_tokens"], ignore_index=True)


def _predicted(lm: LanguageModel, ids: Sequence[Sequence[int]]) -> Iterator[tuple[int, np.ndarray]]:
    """For every text (place, bool (tokens,)): which of its tokens is the most likely one after those before it."""
    order = sorted((place for place in range(len(ids)) if len(ids[place])), key=lambda place: len(ids[place]))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * len(ids[order[end]]) <= BATCH_TOKENS:
            end += 1
        batch = order[start:end]
        width = len(ids[batch[-1]])
        filled = torch.full((len(batch), width + 1), lm.tokenizer.bos_token_id)
        for row, place in enumerate(batch):
            filled[row, 1 : len(ids[place]) + 1] = torch.tensor(ids[place])
        filled = filled.to(lm.device)
        with torch.inference_mode():
            best = lm.head(lm.hidden(filled)[:, :-1]).argmax(-1)  # (B, T)
        right = (best == filled[:, 1:]).cpu().numpy()
        for row, place in enumerate(batch):
            yield place, right[row, : len(ids[place])]
        start = end
