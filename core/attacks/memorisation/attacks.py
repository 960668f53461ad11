"""The registered attacks that extract what a model memorised.

Formulas and sources: docs/methods/extraction.md and docs/methods/exposure.md.
"""

from __future__ import annotations

import pandas as pd

from core.attacks.evaluation_set import evaluation_notes, mean_log_likelihoods
from core.attacks.memorisation import skew_exposure
from core.attacks.memorisation.extraction import GENERATION_COLUMNS, HIT_COLUMNS, extract, index_of
from core.attacks.memorisation.prefix import PREFIX_COLUMNS, asked_notes, prefix_attack
from core.attacks.memorisation.text_features import FEATURE_COLUMNS, features
from core.attacks.ranking import RANKING_COLUMNS, rank_generations
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, register, register_table
from core.corpus.tables import JUDGED_SPLITS
from core.models.encoding import encode

register_table("greedy_generations", GENERATION_COLUMNS)
register_table("greedy_hits", HIT_COLUMNS)
register_table("ranking", RANKING_COLUMNS)
register_table("prefixes", PREFIX_COLUMNS)
register_table("exposures", skew_exposure.SKEW_COLUMNS)
register_table("note_features", FEATURE_COLUMNS)


def _greedy(target: Target, report: Report) -> Tables:
    index = target.once("PHI index", lambda: index_of(target.corpus))
    generations, hits = extract(target.lm, target.corpus, index, target.spec.audit, greedy=True, on_progress=report)
    return {"greedy_generations": generations, "greedy_hits": hits}


def _ranking(target: Target, report: Report) -> Tables:
    generations = target.tables("generations")
    ranked = rank_generations(target.lm, target.base, generations, target.spec.audit, on_progress=report)
    return {"ranking": ranked}


def _prefixes(target: Target, report: Report) -> Tables:
    notes = target.corpus.evaluation_notes(target.spec.note_cap, target.spec.audit)
    notes = notes[notes["split"].isin(JUDGED_SPLITS)]
    asked = asked_notes(target.lm, notes, seed=target.spec.audit.seed)
    models = {"target": target.lm} if target.spec.is_base else {"target": target.lm, "base": target.base}
    found = [prefix_attack(lm, asked, role=role, on_progress=report) for role, lm in models.items()]
    return {"prefixes": pd.concat(found, ignore_index=True)}


def _exposures(target: Target, report: Report) -> Tables:
    return {"exposures": skew_exposure.skew_exposures(target.lm, target.corpus.canaries, on_progress=report)}


def _features(target: Target, report: Report) -> Tables:
    """Text features of the evaluation notes, with the likelihood ratio that marks some of them as memorised.

    Source: Mireshghallah 2022, §4.4.
    """
    notes = evaluation_notes(target)
    ratio = mean_log_likelihoods(target, "target", report) - mean_log_likelihoods(target, "base", report)
    texts = notes["text"].tolist()
    table = features(texts, encode(target.lm, texts), encode(target.lm, target.trained_texts))
    keys = notes[["note_id", "patient_id", "split"]].reset_index(drop=True)
    whole = pd.concat([keys.assign(ratio=ratio), table], axis=1)
    return {"note_features": whole[whole["split"].isin(JUDGED_SPLITS)].reset_index(drop=True)}


register(
    Attack(
        name="greedy extraction",
        source="PrivAI-Leak report, §5.4.1",
        access="black-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Asks every prompt once and always takes the most likely token, so chance plays no part.",
        tables=("greedy_generations", "greedy_hits"),
        run=_greedy,
    )
)
register(
    Attack(
        name="extraction ranking",
        source="Carlini 2021, §5.2",
        access="grey-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Sorts the generated texts by how much more likely they are here than under the public model.",
        tables=("ranking",),
        run=_ranking,
    )
)
register(
    Attack(
        name="prefix",
        source="PrivAI-Leak report, §4.2.4; Carlini 2023",
        access="black-box",
        kinds=("gpt2",),
        cost="moderate",
        sentence="Gives the model the beginning of a note and checks whether it writes the rest word for word.",
        tables=("prefixes",),
        run=_prefixes,
    )
)
register(
    Attack(
        name="canary exposure",
        source="Hoory 2021, §5.2; Carlini 2019",
        access="grey-box",
        kinds=KINDS,
        cost="moderate",
        sentence="Measures how low a planted secret's loss is among all the secrets it could have been.",
        tables=("exposures",),
        run=_exposures,
    )
)
register(
    Attack(
        name="memorised notes",
        source="Mireshghallah 2022, §4.4",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Measures text features of every note, to show what the memorised notes have in common.",
        tables=("note_features",),
        run=_features,
    )
)
