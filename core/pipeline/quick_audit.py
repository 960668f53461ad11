"""The quick audit: the attacks that every complete run has had, and the metrics computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from core.corpus.tables import Corpus
from core.runs.tables import READING, UTILITY
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

Report = Callable[[int, int], None]  # (done, total)
Stop = Callable[[], bool]
Frames = tuple[pd.DataFrame, ...]


@dataclass(frozen=True)
class QuickAttack:
    """One stage of the quick audit: `make(lm, corpus, spec, report, stop)` returns its `tables`, in that order.

    `report` is called between batches and may raise to stop the attack; long batches also poll `stop`.
    """

    stage: str
    message: str
    tables: tuple[str, ...]
    make: Callable[[LanguageModel, Corpus, RunSpec, Report, Stop], Frames]


def attacks_of(spec: RunSpec) -> tuple[QuickAttack, ...]:
    """The attacks on a run: the same for all runs, plus word likelihoods if it has a vocabulary from its notes."""
    return ATTACKS if spec.vocabulary is None else (*ATTACKS, READS)


def figures(
    spec: RunSpec,
    corpus: Corpus,
    tables: Mapping[str, pd.DataFrame],
    control: Mapping[str, pd.DataFrame] | None,
    entries: Sequence[str] | None,
) -> pd.DataFrame:
    """The metrics table, computed from a run's other tables and its control's alone (None: it is the control).

    `entries` are the new entries of a vocabulary from the notes, None for a run with the public vocabulary.
    """
    from core.attacks.memorisation.extraction import searched_again
    from core.evaluation.memorisation.vocabulary import with_vocabulary_figures
    from core.evaluation.summary import summarise

    tables = searched_again(tables, corpus)
    control = None if control is None else searched_again(control, corpus)
    metrics = summarise(tables, control, corpus=corpus, audit=spec.audit, base=spec.model.base)
    if entries is None:
        return metrics
    return with_vocabulary_figures(metrics, entries, tables[READING], corpus, spec.audit)


def _extract(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Report, stop: Stop) -> Frames:
    from core.attacks.memorisation.extraction import extract, index_of

    return extract(lm, corpus, index_of(corpus), spec.audit, on_progress=report, should_stop=stop)


def _score(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Report, stop: Stop) -> Frames:
    """Scores of members' notes and of others. Notes beyond the cap were not trained on and are left out."""
    from core.attacks.membership.scores import loss_scores, public_scores

    notes = corpus.evaluation_notes(spec.note_cap, spec.audit)
    return (pd.concat([loss_scores(lm, notes, spec.audit, on_progress=report), public_scores(lm, spec.audit)]),)


def _expose(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Report, stop: Stop) -> Frames:
    from core.attacks.exposure import canary_exposures
    from core.models.build import load

    base = None if spec.is_base else lambda: load(spec.model)
    return (canary_exposures(lm, corpus.canaries, base, on_progress=report),)


def _read(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Report, stop: Stop) -> Frames:
    """How well this model and the public one predict held-out notes, in figures that do not depend on vocabularies."""
    from core.attacks.word_likelihood import word_likelihoods
    from core.models.build import load

    return (word_likelihoods({"run": lm, "base": load(spec.model)}, corpus, spec.audit, on_progress=report),)


def _use(lm: LanguageModel, corpus: Corpus, spec: RunSpec, report: Report, stop: Stop) -> Frames:
    """What the model is good for: entities, inference and texts. Heads learn from population patients alone."""
    from core.models.build import load
    from core.tasks.utility import utility_counts

    base = lm if spec.is_base else None
    return (utility_counts(lm, lambda: base or load(spec.model), corpus, spec, report=report, should_stop=stop),)


USES = QuickAttack(
    "audit: utility", "Using the model: tagging entities, judging claims, writing notes", (UTILITY,), _use
)
ATTACKS = (
    QuickAttack(
        "audit: extraction", "Prompting the model with 14 prompts, many times each", ("generations", "hits"), _extract
    ),
    QuickAttack(
        "audit: membership",
        "Comparing the loss on members' notes with that on other patients' notes",
        ("scores",),
        _score,
    ),
    QuickAttack(
        "audit: exposure", "Ranking the canaries among all sequences they could have been", ("canaries",), _expose
    ),
    USES,
)
READS = QuickAttack(
    "audit: reading", "Comparing with the public model word by word, since their vocabularies differ", (READING,), _read
)
