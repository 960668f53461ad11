"""A first answer at once: attempts that the models' audits recorded, shown while the models write the same ones live.

The audit asked the same prompts with the same sampling, and a seed determines a text. So the live answer is the
recorded one again, and nothing is shown that the models would not write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from core.attacks.prompts import PROMPTS
from core.runs.run import Run
from core.serving.server import Sampling
from pages.parts.playground import stored_attempts
from pages.parts.playground.side_by_side import Answer, Try
from pages.parts.session import classroom, owner, resources


@dataclass(frozen=True)
class Replay:
    """Recorded answers to one prompt by run id, all with the same seeds."""

    seeds: tuple[int, ...]
    answers: dict[str, Answer]


def find(prompt: str, runs: Sequence[Run], samples: int, sampling: Sampling, tries: Sequence[Try]) -> Replay | None:
    """The next recorded attempts of this prompt that the session has not seen; None if there are not enough.

    Also None in a class: all students would get the same samples, and the class's counts would be of one of them.

    Args:
        prompt: one of the audit's prompts, or any other text, which has no attempts.
        runs: the models. Those without recorded attempts with these seeds have no answer in the result.
        samples: number of attempts.
        sampling: how the live texts are sampled; a run audited with other sampling has no answer.
        tries: what the session has asked so far.
    """
    number = next((one.prompt_id for one in PROMPTS if one.text == prompt), None)
    if number is None or classroom.room():
        return None
    seen = {seed for one in tries if one.prompt == prompt for answer in one.answers for seed in answer.seeds}
    seeds: tuple[int, ...] = ()
    answers = {}
    for run in runs:
        rows, marks = _stored(run, number, sampling)
        if rows is None:
            continue
        if not seeds:
            seeds = tuple(seed for seed in rows.index if seed not in seen)[:samples]
        if len(seeds) == samples and rows.index.isin(seeds).sum() == samples:
            own = rows.loc[list(seeds)]
            spans = tuple(marks.get(text, ()) for text in own["generation_id"])
            judged = resources.leaks_can_be_found(run.spec.corpus, owner.workspace())
            answers[run.id] = Answer(run.id, seeds, tuple(own["text"]), spans, judged=judged)
    return Replay(seeds, answers) if answers else None


def _stored(
    run: Run, prompt: int, sampling: Sampling
) -> tuple[pd.DataFrame | None, dict[int, tuple[stored_attempts.Mark, ...]]]:
    """A run's attempts by seed, and their marks; None if it has none that this sampling would give again."""
    asked = run.spec.audit
    audited = Sampling(asked.new_tokens, asked.temperature, asked.top_k, asked.top_p)
    if run.spec.model.kind != "gpt2" or audited != sampling:
        return None, {}
    rows, marks = stored_attempts.of_prompt(str(owner.workspace().root), run.id, prompt, run)
    if rows is None or "seed" not in rows or rows["seed"].duplicated().any():
        return None, {}
    return rows.set_index("seed"), marks
