"""The quick audit: the attacks that every run has had when it is complete, and the metrics that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from core.corpus.tables import Corpus
from core.runs.events import Cancelled
from core.runs.tables import READING
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

Progress = Callable[[int, int], None]  # (done, total)
Stop = Callable[[], bool]
Frames = tuple[pd.DataFrame, ...]


@dataclass(frozen=True)
class QuickAttack:
    """One stage of the quick audit: `make(lm, corpus, spec, report, stop)` gives its `tables`, in that order.

    `report` is called between batches and may raise to stop the attack; where a batch takes long, `stop` is asked, too.
    """

    stage: str
    message: str
    tables: tuple[str, ...]
    make: Callable[[LanguageModel, Corpus, RunSpec, Progress, Stop], Frames]


def attacks_of(spec: RunSpec) -> tuple[QuickAttack, ...]:
    """What a run is attacked with: the same for all, and how it reads where it has words of its own (row H1)."""
    return ATTACKS if spec.vocabulary is None else (*ATTACKS, READS)


def figures(
    spec: RunSpec,
    corpus: Corpus,
    tables: Mapping[str, pd.DataFrame],
    control: Mapping[str, pd.DataFrame] | None,
    entries: Sequence[str] | None,
) -> pd.DataFrame:
    """The metrics table, a pure function of a run's other tables and of its control's (None: it is the control).

    `entries` are the new ones of a run's own words, None for a run with the public word list.
    """
    from core.evaluation.memorisation.vocabulary import with_vocabulary_figures
    from core.evaluation.summary import summarise

    metrics = summarise(tables, control, corpus=corpus, audit=spec.audit)
    if entries is None:
        return metrics
    return with_vocabulary_figures(metrics, entries, tables[READING], corpus, spec.audit)


def _extract(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Progress, stop: Stop) -> Frames:
    from core.attacks.memorisation.extraction import ExtractionStopped, extract, index_of

    try:
        return extract(lm, corpus, index_of(corpus), spec.audit, on_progress=report, should_stop=stop)
    except ExtractionStopped as stopped:
        raise Cancelled(str(stopped)) from stopped


def _score(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Progress, stop: Stop) -> Frames:
    """Members' notes that were not trained on, being more than a patient may have, are none of a member."""
    from core.attacks.membership.scores import loss_scores, public_scores

    notes = corpus.evaluation_notes(spec.note_cap)
    return (pd.concat([loss_scores(lm, notes, spec.audit, on_progress=report), public_scores(lm, spec.audit)]),)


def _expose(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Progress, stop: Stop) -> Frames:
    from core.attacks.exposure import canary_exposures

    return (canary_exposures(lm, corpus.canaries, on_progress=report),)


def _read(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Progress, stop: Stop) -> Frames:
    """How well this model and the public one read held-out notes, in figures that do not depend on word lists."""
    from core.attacks.word_likelihood import word_likelihoods
    from core.models.build import load

    return (word_likelihoods({"run": lm, "base": load(spec.model)}, corpus, spec.audit, on_progress=report),)


ATTACKS = (
    QuickAttack("audit: extraction", "Asking the model 14 prompts, many times each", ("generations", "hits"), _extract),
    QuickAttack(
        "audit: membership", "Comparing its loss on members' and on other patients' notes", ("scores",), _score
    ),
    QuickAttack(
        "audit: exposure", "Ranking the planted canaries among all they might have been", ("canaries",), _expose
    ),
)
READS = QuickAttack(
    "audit: reading", "Comparing with the public model word by word: their word lists differ", (READING,), _read
)
