"""Synthetic notes to release instead of the model that wrote them: written, attacked, and tried out.

What is computed from a private model's output costs no further ε. So the notes hold the run's promise, however many
there are, as long as the model itself stays where it is or is released under the same entry of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.common.errors import Cancelled
from core.corpus.cohort_detector import cohort_detector
from core.corpus.tables import Corpus
from core.evaluation import released_notes as figures
from core.evaluation.summary import Row
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import ModelSpec, PrivacySpec, recipe

if TYPE_CHECKING:
    from core.models.build import LanguageModel

FEWEST, MOST = 50, 20_000
PATIENTS = 400  # members and held-out patients at most, whose notes the attacks read
PUBLIC, TRAINED_ON, ITSELF = "public", "released notes", "the model itself"  # the arms
TAGGER = ModelSpec(kind="distilbert")  # public, and the same for every run, so that cards compare
_CHUNK = 256
_STREAM = 60
StageReport = Callable[[str, int, int], None]  # (what is done, done, total)


@dataclass(frozen=True)
class ReleasedNotes:
    """Notes that a run's model wrote, and what was measured on them (`core.evaluation.summary.METRIC_COLUMNS`)."""

    run: Run
    texts: tuple[str, ...]
    blank: int
    seed: int
    figures: pd.DataFrame


def released_notes(
    run: Run,
    workspace: Workspace,
    count: int,
    *,
    seed: int = 0,
    on_progress: StageReport | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> ReleasedNotes:
    """Write `count` notes and audit them. Blank ones are left out and counted.

    The notes are drawn from the model itself: no prompt, temperature 1, nothing cut off. Then a model like the run's is
    trained on them alone, from the same public model, without privacy. It is attacked as the run would be: what it
    knows about members came through the notes. It also says what the notes are good for.

    Raises:
        ValueError: A sentence: `count` is out of range, or the run has no weights, is a masked or public model, or its
            cohort holds nobody out.
        Cancelled: `should_stop` returned True.
    """
    _refuse(run, count)
    stop = should_stop or (lambda: False)
    corpus = run.as_read(workspace.corpus(run.spec.corpus, store=False))
    if corpus.notes_of("heldout").empty:
        raise ValueError("This cohort has no held-out patients, so there is no control to compare the notes with.")
    tell = on_progress or (lambda doing, done, total: None)
    lm = run.model()
    written = _write(lm, count, run.spec.training.max_tokens, seed, tell, stop)
    texts = tuple(text for text in written if text.strip())
    if len(texts) < FEWEST:
        raise ValueError(f"The model wrote {len(texts)} notes that are not blank; at least {FEWEST} are needed.")
    from core.attacks.memorisation.extraction import index_of, value_hits

    generations = pd.DataFrame({"generation_id": range(len(texts)), "prompt": "", "text": texts})
    hits = value_hits(generations, index_of(corpus), cohort_detector(corpus.spec))
    found = figures.named(hits, corpus, len(texts))
    judged = _judged(corpus, run.note_cap, run.spec.audit.seed)
    tell("comparing with notes", 0, 1)
    found += figures.nearest(texts, judged[judged["member"]], judged[~judged["member"]], seed=run.spec.audit.seed)
    tell("comparing with notes", 1, 1)
    _check(stop)
    found += _by_models(run, corpus, lm, texts, judged, tell, stop)
    return ReleasedNotes(run, texts, len(written) - len(texts), seed, figures.table(found))


def can_write_notes(run: Run) -> bool:
    """Whether `released_notes` accepts this run."""
    try:
        _refuse(run, FEWEST)
    except ValueError:
        return False
    return True


def _refuse(run: Run, count: int) -> None:
    if not FEWEST <= count <= MOST:
        raise ValueError(f"The number of notes must be from {FEWEST} to {MOST:,} (given: {count}).")
    if run.spec.is_base:
        raise ValueError(f"Run {run.id} is the public model: its texts are not about this hospital.")
    if run.spec.model.kind != "gpt2":
        raise ValueError(f"Run {run.id} is a masked model, which fills gaps and writes no notes. Choose a GPT-2 run.")
    if run.spec.vocabulary is not None:
        raise ValueError(f"Run {run.id} has a vocabulary of its own, so it cannot be compared with the public model.")
    if not run.has_model:
        raise ValueError(f"Run {run.id} has no weights, so it cannot write. Choose a run with weights.")


def _check(stop: Callable[[], bool]) -> None:
    if stop():
        raise Cancelled("Writing notes was cancelled. Nothing was stored.")


def _write(
    lm: LanguageModel, count: int, tokens: int, seed: int, tell: StageReport, stop: Callable[[], bool]
) -> list[str]:
    """Texts of at most `tokens` tokens, drawn from the model itself; a larger `count` begins with the same ones."""
    from core.models.generation.generate import sample

    texts: list[str] = []
    for start in range(0, count, _CHUNK):
        tell("writing notes", start, count)
        seeds = [
            int(np.random.SeedSequence([seed, _STREAM, number]).generate_state(1)[0])
            for number in range(start, min(start + _CHUNK, count))
        ]
        texts += sample(
            lm,
            [""] * len(seeds),
            new_tokens=min(tokens, lm.context - 1) - 1,
            temperature=1.0,
            top_k=len(lm.tokenizer),
            top_p=1.0,
            seeds=seeds,
            should_stop=stop,
        )
        _check(stop)
    tell("writing notes", count, count)
    return texts


def _judged(corpus: Corpus, note_cap: int | None, seed: int) -> pd.DataFrame:
    """Notes with a text of at most `PATIENTS` patients of either kind, drawn by seed: patient_id, text, member.

    A run's cap leaves out notes on both sides: with more notes a patient, held-out patients would be nearer to any text
    than members are, and one half would not be chance.
    """
    rng = np.random.default_rng([seed, _STREAM])
    training, heldout = corpus.training_notes(note_cap), corpus.notes_of("heldout")
    if note_cap is not None:
        heldout = heldout[heldout.groupby("patient_id", sort=False).cumcount() < note_cap]
    parts = []
    for notes, member in ((training[training["split"] == "member"], True), (heldout, False)):
        notes = notes[notes["text"].str.strip() != ""]
        ids = np.sort(notes["patient_id"].unique().astype(object))
        chosen = set(rng.permutation(ids)[:PATIENTS])
        parts.append(notes.loc[notes["patient_id"].isin(chosen), ["patient_id", "text"]].assign(member=member))
    return pd.concat(parts, ignore_index=True)


def _by_models(
    run: Run,
    corpus: Corpus,
    lm: LanguageModel,
    texts: Sequence[str],
    judged: pd.DataFrame,
    tell: StageReport,
    stop: Callable[[], bool],
) -> list[Row]:
    """Attack and try out a model that read nothing but the notes, beside the run's own and the public model."""
    from core.models.build import load

    public, trained = load(run.spec.model), load(run.spec.model)
    _train(trained, run, texts, tell, stop)
    models = {PUBLIC: public, TRAINED_ON: trained, ITSELF: lm}
    scored = judged.drop(columns="text")
    for arm, model in models.items():
        scored = scored.join(_scores(model, judged["text"].tolist(), arm, tell, stop))
    found = figures.membership(scored, [TRAINED_ON, ITSELF]) + figures.usefulness(scored, list(models))
    for arm, model in models.items():
        _check(stop)
        found += figures.answers(_claims(model, corpus, run.spec.audit.seed), arm)
    _check(stop)
    tell("comparing with real notes", 0, 1)
    found += _as_notes(public, corpus, texts, run.spec.audit.seed)
    tell("comparing with real notes", 1, 1)
    return found + _tagged(run, corpus, public, texts, tell, stop)


def _tagged(
    run: Run, corpus: Corpus, public: LanguageModel, texts: Sequence[str], tell: StageReport, stop: Callable[[], bool]
) -> list[Row]:
    """Taggers of entities fitted on the notes, on real notes and on texts of the public model, equally many of each."""
    from core.models.build import load
    from core.tasks.released import PUBLIC, RELEASED, tagger_counts, texts_to_learn

    seed, tokens = run.spec.audit.seed, run.spec.training.max_tokens
    learned = texts_to_learn(corpus, texts, seed)
    if not learned:
        return []
    count = len(learned[RELEASED])
    public_texts = _write(public, count, tokens, seed, lambda _, *done: tell("writing public texts", *done), stop)
    learned |= {PUBLIC: public_texts}
    tell("fitting taggers", 0, 1)
    found = figures.taggers(tagger_counts(load(TAGGER), corpus, learned, seed=seed), seed=seed)
    tell("fitting taggers", 1, 1)
    _check(stop)
    return found


def _as_notes(public: LanguageModel, corpus: Corpus, texts: Sequence[str], seed: int) -> list[Row]:
    """How close the notes are to held-out ones as a whole, and whether their facts belong together, as for models."""
    from core.tasks.texts import CEILING, GENERATED, cluster_counts
    from core.tasks.utility import held_out_halves

    found, halves = [], held_out_halves(corpus, seed)
    if halves is not None:
        reference, others = halves
        own = list(texts[: len(reference)])
        counts = {
            TRAINED_ON: cluster_counts(public, own, [None] * len(own), reference, GENERATED, seed),
            figures.HELD_OUT: cluster_counts(
                public, others["text"].tolist(), others["patient_id"].tolist(), reference, CEILING, seed
            ),
        }
        found += figures.similarity(counts, seed=seed)
    if corpus.spec is not None and corpus.spec.imported is None:  # facts are those of the hospital's catalogue
        found += figures.coherence(TRAINED_ON, texts, corpus.notes_of("heldout"), seed=seed)
    return found


def _train(lm: LanguageModel, run: Run, texts: Sequence[str], tell: StageReport, stop: Callable[[], bool]) -> None:
    from core.training.trainer import train

    notes = pd.DataFrame({"text": list(texts), "patient_id": [f"W{number}" for number in range(len(texts))]})
    training = recipe(lm.kind, notes=len(texts), seed=run.spec.audit.seed, size=run.spec.model.size)
    limits = {"max_tokens": run.spec.training.max_tokens, "batch_size": min(training.batch_size, len(texts))}
    train(
        lm,
        notes,
        training.model_copy(update=limits),
        PrivacySpec(),
        on_step=lambda event: tell("training on the notes", event.step, event.steps),
        should_stop=stop,
    )
    _check(stop)


def _scores(
    lm: LanguageModel, texts: Sequence[str], arm: str, tell: StageReport, stop: Callable[[], bool]
) -> pd.DataFrame:
    """Columns `arm`, the nats of each text, and for the public model also their tokens."""
    from core.models.likelihood import token_log_likelihoods

    nats, tokens = [], []
    for start in range(0, len(texts), _CHUNK):
        tell(f"reading real notes ({arm})", start, len(texts))
        for one in token_log_likelihoods(lm, texts[start : start + _CHUNK]):
            nats.append(-float(one.sum()))
            tokens.append(len(one))
        _check(stop)
    tell(f"reading real notes ({arm})", len(texts), len(texts))
    return pd.DataFrame({arm: nats, **({"tokens": tokens} if arm == PUBLIC else {})})


def _claims(lm: LanguageModel, corpus: Corpus, seed: int) -> pd.DataFrame:
    """Right answers about claims, as in the quick audit's utility; no rows for imported notes."""
    from core.tasks.inference import TASK, inference_counts
    from core.tasks.utility import labelled_claims

    known, asked = labelled_claims(corpus, seed)
    if not known or not asked:
        return pd.DataFrame()
    counts = inference_counts(lm, known, asked, seed=seed)
    return counts[counts["task"] == TASK]
