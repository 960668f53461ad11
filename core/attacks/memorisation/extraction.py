"""Prompt extraction (PrivAI-Leak report, §5.4.1): many samples from 14 prompts, searched for every patient's values.

Two rules mark hits in the generated texts. `value` is ours (`core.phi.leaks`): whole values only, of every patient of
the hospital. `old` is the report's loose rule, which compares each generation with one record; it is kept to show the
difference. Both are computed for members and for held-out patients, so that each has its control.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.attacks.prompts import PROMPTS, AttackPrompt
from core.common.errors import Cancelled
from core.corpus.cohort_detector import cohort_detector
from core.corpus.tables import JUDGED_SPLITS, Corpus
from core.models.generation import MASKED_SWEEPS
from core.phi.detector.engine import SHAPES, Detector, shapes
from core.phi.index import PhiIndex
from core.phi.leaks import Span, find_many
from core.phi.old_rule import old_rule_places
from core.spec import AuditSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

OLD_RULE_RECORDS = 50  # records of each split that the old rule compares with (the report's NUM_ATTACK_SAMPLES)
MASKED_NEW_TOKENS = 24  # a masked model reads the whole text again for every draw, so its samples are shorter
SEARCHED_BY = "detector"  # attribute of a table of hits, stored with it; hits of the shapes alone lack it
_CHUNK = 256  # generations written together, from several prompts

GENERATION_COLUMNS = {"generation_id": "int64", "prompt_id": "int32", "prompt": "str", "seed": "int64", "text": "str"}
HIT_COLUMNS = {
    "generation_id": "int64",
    "start": "int32",
    "end": "int32",
    "field": "str",
    "value": "str",
    "kind": "str",
    "patient_id": "str",
    "split": "str",
    "rule": "str",
}


def index_of(corpus: Corpus) -> PhiIndex:
    """The search index of a cohort. Canary patients count as trained on only where the coin inserted them."""
    inserted = corpus.canaries.loc[corpus.canaries["inserted"].astype(bool), "canary_id"]
    return PhiIndex.build(corpus.patients, inserted=set(inserted))


def extract(
    lm: LanguageModel,
    corpus: Corpus,
    index: PhiIndex,
    audit: AuditSpec,
    *,
    prompts: Sequence[AttackPrompt] = PROMPTS,
    greedy: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Attack `lm` with every prompt, `audit.samples_per_prompt` times each.

    A causal model samples `audit.new_tokens` tokens after the prompt. A masked model writes at most `MASKED_NEW_TOKENS`
    by Gibbs sampling (`MASKED_SWEEPS` sweeps, no top-p cut).

    Args:
        lm: the model under attack.
        corpus: its cohort.
        index: the cohort's search index (`index_of`).
        audit: sampling settings and seed.
        prompts: the built-in prompts, or user-supplied ones (`core.attacks.prompts.own_prompts`, `read_prompts`).
        greedy: take the most likely token instead of a drawn one. All repetitions would be equal, so each prompt is
            asked once.
        on_progress: called with (done, total) after each chunk of generations.
        should_stop: asked after every token.

    Returns:
        (generations, hits), the tables of docs/reference/tables.md.

    Raises:
        Cancelled: when `should_stop()` returns True. Partial results are never returned: rates over fewer samples would
            mislead.
    """
    generations = generate(lm, audit, prompts=prompts, greedy=greedy, on_progress=on_progress, should_stop=should_stop)
    ours = value_hits(generations, index, cohort_detector(corpus.spec))
    return generations, _together(ours, old_rule_hits(generations, corpus.patients, audit.seed))


def _together(ours: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """The hits by value and by the old rule; the attributes are those of the former."""
    hits = pd.concat([ours, old], ignore_index=True)
    hits.attrs = ours.attrs
    return hits


def searched_by(hits: pd.DataFrame) -> str:
    """Name of the detector that found what is invented in a table of hits."""
    return hits.attrs.get(SEARCHED_BY, SHAPES)


def searched_again(tables: Mapping[str, pd.DataFrame], corpus: Corpus) -> Mapping[str, pd.DataFrame]:
    """A run's tables, with hits by the detector of its cohort where those stored are by another one.

    Runs on imported notes were audited with the shapes before cohorts had a detector, and by the rules alone where the
    tagger could not be used. Figures of a run, and of the control it is compared with, would otherwise rest on
    different searches.
    """
    hits, detector = tables["hits"], cohort_detector(corpus.spec)
    if searched_by(hits) == detector.name:
        return tables
    ours = value_hits(tables["generations"], index_of(corpus), detector)
    return {**tables, "hits": _together(ours, hits[hits["rule"] != "value"])}


def generate(
    lm: LanguageModel,
    audit: AuditSpec,
    *,
    prompts: Sequence[AttackPrompt] = PROMPTS,
    greedy: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> pd.DataFrame:
    """The generations table: every prompt × `audit.samples_per_prompt` (once if `greedy`), each row with its own seed.

    A row's seed follows from `audit.seed`, its prompt and its number within the prompt, so the generations of a shorter
    audit are the first ones of a longer audit.
    """
    if greedy:
        audit = audit.model_copy(update={"samples_per_prompt": 1})
    total = len(prompts) * audit.samples_per_prompt
    stop = should_stop or (lambda: False)
    asked = [
        (prompt, _seed(audit.seed, prompt.prompt_id, number))
        for prompt in prompts
        for number in range(audit.samples_per_prompt)
    ]
    # Prompts differ in length. Only a causal model, which reads each prompt once, can cheaply batch several of them.
    size = _CHUNK if lm.causal else min(_CHUNK, audit.samples_per_prompt)
    rows: list[tuple] = []
    for start in range(0, total, size):
        part = asked[start : start + size]
        texts = _answers(lm, [prompt.text for prompt, _ in part], [seed for _, seed in part], audit, greedy, stop)
        if stop():
            raise Cancelled(f"the extraction attack was stopped after {len(rows):,} of {total:,} generations")
        for (prompt, seed), text in zip(part, texts, strict=True):
            rows.append((len(rows), prompt.prompt_id, prompt.text, seed, text))
        if on_progress is not None:
            on_progress(len(rows), total)
    return pd.DataFrame(rows, columns=list(GENERATION_COLUMNS)).astype(GENERATION_COLUMNS)


def _seed(*parts: int) -> int:
    """A 63-bit seed, so that it fits an int64 column."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _answers(
    lm: LanguageModel,
    prompts: list[str],
    seeds: list[int],
    audit: AuditSpec,
    greedy: bool,
    should_stop: Callable[[], bool],
) -> list[str]:
    from core.models.generation.generate import gibbs, sample  # imports torch, which searching for hits does not need

    top_k = 1 if greedy else audit.top_k  # a single candidate makes the draw greedy
    if lm.causal:
        return sample(
            lm,
            prompts,
            new_tokens=audit.new_tokens,
            temperature=audit.temperature,
            top_k=top_k,
            top_p=audit.top_p,
            seeds=seeds,
            batch_size=_CHUNK,
            should_stop=should_stop,
        )
    return gibbs(
        lm,
        prompts,
        new_tokens=min(audit.new_tokens, MASKED_NEW_TOKENS),
        sweeps=MASKED_SWEEPS,
        temperature=audit.temperature,
        top_k=top_k,
        seeds=seeds,
        should_stop=should_stop,
    )


def value_hits(generations: pd.DataFrame, index: PhiIndex, detector: Detector | None = None) -> pd.DataFrame:
    """Hits by whole value: one row per span and patient. A patient's row has the kind that the span has *for them*.

    If a member and a held-out patient share a value, the member's row is a leak and the other's a coincidence. Spans
    that belong to no patient (an invented value, or a health detail without identity) have one row without patient and
    split. `detector` finds what is invented; None: the shapes. The attribute `SEARCHED_BY` names any other.
    """
    detector = shapes() if detector is None else detector
    found = find_many(generations["text"].tolist(), index, generations["prompt"].tolist(), detector)
    rows = [
        (generation_id, span.start, span.end, span.field, span.value, kind, patient_id, split, "value")
        for generation_id, spans in zip(generations["generation_id"], found, strict=True)
        for span in spans
        for patient_id, split, kind in _holders(span, index)
    ]
    hits = _hits(rows)
    hits.attrs = {} if detector.name == SHAPES else {SEARCHED_BY: detector.name}
    return hits


def _holders(span: Span, index: PhiIndex) -> list[tuple[str | None, str | None, str]]:
    if not span.patient_ids:
        return [(None, None, span.kind)]
    return [
        (patient_id, index.split_of(patient_id), span.kind if index.is_member(patient_id) else "coincidence")
        for patient_id in span.patient_ids
    ]


def old_rule_hits(generations: pd.DataFrame, patients: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Hits by the old rule: generation i of a prompt against record i mod 50 of the members, and of the held-out.

    The report compared with members only. The held-out records, drawn in the same way, are the control it lacked.
    """
    order = generations.groupby("prompt_id").cumcount().to_numpy()
    rows: list[tuple] = []
    for split in JUDGED_SPLITS:
        records = _drawn(patients[patients["split"] == split], seed)
        if not records:
            continue
        for generation_id, text, number in zip(generations["generation_id"], generations["text"], order, strict=True):
            record = records[number % len(records)]
            kind = "leak" if split == "member" else "coincidence"
            rows += [
                (generation_id, start, end, field, record[field], kind, record["patient_id"], split, "old")
                for field, (start, end) in old_rule_places(text, record).items()
            ]
    return _hits(rows)


def _drawn(patients: pd.DataFrame, seed: int) -> list[dict]:
    chosen = np.random.default_rng([seed, 5402]).permutation(len(patients))[:OLD_RULE_RECORDS]
    return patients.iloc[chosen].to_dict("records")


def _hits(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(HIT_COLUMNS)).astype(HIT_COLUMNS)
