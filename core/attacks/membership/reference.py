"""Reference models that an attacker trains like the target, on patients who are not members (Mireshghallah 2022, §2.2).

`population` is trained on all notes of the population's reference part. `shadow 0`, `shadow 1` … are each trained on a
random half of its patients, for attacks that compare with several models (RMIA). They depend only on the cohort, the
kind of model and the default recipe, so all runs of a cohort share them. Runs with their own vocabulary are the
exception: an attacker who has such a model has its vocabulary and trains with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import reference_patients
from core.attacks.registry import NotPossible, Report, Target
from core.common.files import make_folder
from core.common.folders import building, publish
from core.models.build import LanguageModel, load_folder
from core.spec import FORMAT, PrivacySpec, TrainingSpec, recipe

POPULATION = "population"
SHADOWS = tuple(f"shadow {number}" for number in range(2))
_STREAM = 13  # shared with `core.corpus.tables`, which chooses among other patients and says why that does no harm


def reference_models(target: Target, folder: Path) -> dict[str, Callable[[Report], LanguageModel]]:
    """Loaders of every reference model by role, for `Target.models`. Each is trained on first use and kept in `folder`.

    A loader raises ValueError when the cohort has no population to train on.
    """
    return {role: partial(_reference, target, folder, role) for role in (POPULATION, *SHADOWS)}


def reference_names(target: Target) -> set[str]:
    """Names of the folders of a run's reference models, whether or not they were trained; none if they cannot be."""
    names = set()
    for role in (POPULATION, *SHADOWS):
        try:
            notes = reference_notes(target, role)
        except NotPossible:
            return set()
        names.add(_name(target, reference_training(target, notes), notes))
    return names


def reference_notes(target: Target, role: str) -> pd.DataFrame:
    """The notes a reference model is trained on. Raises NotPossible when the population's reference part is empty."""
    patients = np.array(sorted(reference_patients(target)), dtype=object)
    if role != POPULATION:
        rng = np.random.default_rng([target.spec.audit.seed, _STREAM, SHADOWS.index(role)])
        patients = rng.permutation(patients)[: max(1, len(patients) // 2)] if len(patients) else patients
    notes = target.corpus.notes_of("population")
    notes = notes[notes["patient_id"].isin(set(patients))].reset_index(drop=True)
    if notes.empty:
        raise NotPossible(
            "Reference models are trained on patients who are not members, and this cohort's population is too small: "
            "choose a cohort with more population patients. Where you bring your own notes, import them again with a "
            "share of the patients set aside as population patients."
        )
    return notes


def reference_training(target: Target, notes: pd.DataFrame) -> TrainingSpec:
    """The default recipe with the target's sample length, and batches that the notes can fill."""
    chosen = recipe(target.kind, seed=target.spec.audit.seed, size=target.spec.model.size)
    batch = min(chosen.batch_size, len(notes))
    return chosen.model_copy(update={"max_tokens": target.spec.training.max_tokens, "batch_size": batch})


def _reference(target: Target, folder: Path, role: str, report: Report) -> LanguageModel:
    from core.training.trainer import train

    notes = reference_notes(target, role)
    training = reference_training(target, notes)
    place = folder / _name(target, training, notes)
    if _is_whole(place):
        return load_folder(place)
    lm = target.public()
    train(lm, notes, training, PrivacySpec(), on_step=lambda event: report(event.step, event.steps))
    _store(lm, place, private=target.spec.corpus.imported is not None)
    return lm


def _name(target: Target, training: TrainingSpec, notes: pd.DataFrame) -> str:
    """A folder name that identifies everything the model depends on."""
    content = hashlib.sha256("\0".join(notes["note_id"] + "\1" + notes["text"]).encode()).hexdigest()
    settings = [FORMAT, target.spec.model.model_dump(mode="json"), training.model_dump(mode="json"), content]
    if target.own_words is not None:
        settings.append(list(target.own_words))
    return f"{target.kind}-{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]}"


def _store(lm: LanguageModel, place: Path, *, private: bool) -> None:
    """Publish the model in its folder. If another audit was first, its copy stays, since both are the same."""
    make_folder(place.parent, private=private)
    with building(place.parent, private=private) as unfinished:
        lm.save(unfinished)
        publish(unfinished, place, _is_whole)


def _is_whole(place: Path) -> bool:
    return (place / "model.safetensors").exists()
