"""Is an unlearned model told from one that never read the patient? `python -m core bench forgetting --write FOLDER`.

For each seed one model of everybody and one without `PATIENTS`, each with the settings of a shipped run. Every model of
everybody then forgets each of these patients alone, by every method. All models score the patients' notes, and
`odd_one_out` and `likelihood_ratios` of `core.evaluation.forgetting` (U-LiRA, Hayes et al. 2024) compare the two kinds.
Beside them stands what an average attack says of the same models: where the patients stand among patients never seen.

FOLDER keeps the models and the scores, so that the same command goes on where it was stopped. The result is
FOLDER/<run>.json; a copy in assets/demo/forgetting is shown on the page Forget a patient. Minutes for each training.
"""

from __future__ import annotations

import json as json_format
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from core.attacks.forgetting import Judged, never_seen_loss, public_means, standing
from core.common.files import replace_text
from core.common.folders import building, publish
from core.corpus.tables import Corpus
from core.evaluation.forgetting import likelihood_ratios, odd_one_out, standings, told_apart
from core.evaluation.stats.bootstrap import patient_bootstrap, weighted_share
from core.evaluation.stats.intervals import proportion_interval
from core.models.build import LanguageModel, load, load_folder
from core.runs.run import Run
from core.runs.store import Workspace
from core.training.trainer import train
from core.training.unlearning import Method, patient_loss, settings_of, unlearn

RUN = "gpt2-804b3c7f558b"  # GPT-2 without privacy on the smallest hospital, shipped with its weights
SEEDS = (0, 1, 2)
# Three of those with most texts in the run's audit, and four drawn at random before anything was measured. (The two
# retrained models of the shipped result left out an eighth patient as well.)
PATIENTS = ("P0355", "P0038", "P0032", "P0150", "P0171", "P0309", "P0364")
NEVER_SEEN = 40  # held-out patients with whom each is compared
ORIGINAL, OUT = "original", "retrained"


@dataclass(frozen=True)
class Experiment:
    """The models of one run, in a folder; `epochs` shortens the trainings (for a test)."""

    run: Run
    corpus: Corpus
    folder: Path
    epochs: int | None = None
    patients: tuple[str, ...] = PATIENTS

    @cached_property
    def training(self) -> pd.DataFrame:
        """The notes that a model of everybody reads."""
        return self.corpus.training_notes(self.run.note_cap)

    @cached_property
    def public(self) -> LanguageModel:
        """The public model, as it was before any training."""
        return load(self.run.spec.model)

    @cached_property
    def judged(self) -> Judged:
        """The patients' notes and those of never-seen patients, with the public model's means."""
        own = self.training[self.training["patient_id"].isin(self.patients)].assign(forgotten=True)
        heldout = self.corpus.notes_of("heldout")
        chosen = sorted(heldout["patient_id"].unique())[:NEVER_SEEN]
        others = heldout[heldout["patient_id"].isin(chosen)].assign(forgotten=False)
        notes = pd.concat([own, others], ignore_index=True)[["note_id", "patient_id", "text", "forgotten"]]
        return public_means(self.public, notes, self.run.spec.audit)

    def model(self, kind: str, seed: int) -> LanguageModel:
        """The model of everybody (`full`) or without the patients (`out`), trained on first use and kept."""
        spec = self.run.spec
        if (kind, seed, self.epochs) == ("full", spec.training.seed, None):
            return self.run.model()
        place = self.folder / f"{kind}-{seed}"
        if not (place / "model.safetensors").exists():
            corpus = self.corpus if kind == "full" else self.corpus.without(self.patients)
            lm = load(spec.model)
            changes = {"seed": seed, "epochs": self.epochs or spec.training.epochs}
            training = spec.training.model_copy(update=changes)
            notes = corpus.training_notes(self.run.note_cap)
            train(lm, notes, training, spec.privacy, checkpoint=self.folder / f"checkpoint-{kind}-{seed}")
            with building(self.folder, private=False) as unfinished:
                lm.save(unfinished)
                publish(unfinished, place, lambda folder: (folder / "model.safetensors").exists())
        return load_folder(place)

    def rows(self, seed: int, done: set[tuple[str, int, str]]) -> Iterator[list[dict[str, Any]]]:
        """The gains on every note, of every model of a seed that is not `done`: (arm, seed, patient)."""
        for arm, kind in ((OUT, "out"), (ORIGINAL, "full")):
            if any((arm, seed, patient) not in done for patient in self.patients):
                found = self._standing(self.model(kind, seed))
                for patient in self.patients:
                    yield _told(arm, seed, patient, found)
        before, methods = None, cast("tuple[Method, ...]", ("ascent", "difference", "fine-tuning"))  # quick ones first
        for method in methods:
            for patient in self.patients:
                if (method, seed, patient) in done:
                    continue
                lm = self.model("full", seed)
                before = self._standing(lm) if before is None else before
                own = self.training["patient_id"] == patient
                forget = self.training.loc[own, "text"].tolist()
                settings = settings_of(method, self.run.spec.training.model_copy(update={"seed": seed}))
                unlearn(
                    lm,
                    forget,
                    self.training.loc[~own, "text"].tolist(),
                    settings,
                    stop_loss=never_seen_loss(patient_loss(self.public, forget, settings.max_tokens), before),
                )
                yield _told(method, seed, patient, self._standing(lm))

    def _standing(self, lm: LanguageModel) -> pd.DataFrame:
        return standing(lm, self.judged, self.run.spec.audit)


def _told(arm: str, seed: int, patient: str, found: pd.DataFrame) -> list[dict[str, Any]]:
    """A patient's notes with their gains, and where the patient stands."""
    own = found[found["patient_id"] == patient]
    place = float(standings(pd.concat([own, found[~found["forgotten"]]]).assign(arm=arm))["percentile"].iloc[0])
    about = {"arm": arm, "seed": seed, "patient_id": patient, "place": place}
    return [{**about, "note_id": row.note_id, "gain": float(row.gain)} for row in own.itertuples()]


def result(rows: pd.DataFrame, own: int = 0) -> list[dict[str, Any]]:
    """For each arm, with intervals: how often it is found out, and the mean place among never-seen patients.

    `odd` is the share of patients for whom the model of seed `own` is the odd one beside two retrained models of other
    seeds; ⅓ is chance. `auc` is U-LiRA's, once there are three seeds; ½ is chance. So it is for the place, which is
    what an average attack sees: the share of never-seen patients below the patient.
    """
    out = rows[rows["arm"] == OUT].assign(unlearned=False)
    told = []
    for arm, of_arm in rows.groupby("arm", sort=False):
        places = of_arm.groupby(["patient_id", "seed"])["place"].first()
        of_place = places.index.get_level_values("patient_id")
        mean = patient_bootstrap(weighted_share(places, np.ones(len(places))), of_place)
        about = {"arm": arm, "place": mean.value, "place_low": mean.low, "place_high": mean.high}
        if arm != OUT:
            others = [out[out["seed"] == seed] for seed in sorted(set(out["seed"]) - {own})[:2]]
            odd = odd_one_out(of_arm[of_arm["seed"] == own], (others[0], others[1]))
            low, high = proportion_interval(int(odd.sum()), len(odd))
            about |= {"odd": float(odd.mean()), "patients": len(odd), "low": low, "high": high}
            if len(set(of_arm["seed"]) & set(out["seed"])) >= 3:
                auc = told_apart(likelihood_ratios(pd.concat([of_arm.assign(unlearned=True), out])))
                about |= {"auc": auc.value, "auc_low": auc.low, "auc_high": auc.high}
        told.append(about)
    return told


def measured(experiment: Experiment, seeds: tuple[int, ...], say: Callable[[str], None] = lambda text: None) -> dict:
    """Train, forget and score what is missing; returns what is written to the result's file."""
    file = experiment.folder / "gains.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [json_format.loads(line) for line in lines]
    done = {(row["arm"], row["seed"], row["patient_id"]) for row in rows}
    for seed in seeds:
        for new in experiment.rows(seed, done):
            rows += new
            replace_text(file, "".join(f"{json_format.dumps(row)}\n" for row in rows))
            say(f"{new[0]['arm']}, seed {seed}, patient {new[0]['patient_id']}: place {new[0]['place']:.2f}")
    table = pd.DataFrame(rows).drop_duplicates(["arm", "seed", "patient_id", "note_id"])
    table = table[table["seed"].isin(seeds)]
    return {
        "run": experiment.run.id,
        "patients": list(experiment.patients),
        "seeds": list(seeds),
        "never_seen": NEVER_SEEN,
        "arms": result(table, experiment.run.spec.training.seed),
    }


def main(json: bool = False, write: str | None = None) -> None:
    """Print the result as JSON (`json` changes nothing). Without `write`, everything is done in a temporary folder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(write or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        workspace = Workspace()
        run = workspace.run(RUN)
        experiment = Experiment(run, workspace.corpus(run.spec.corpus, store=False), folder)
        text = json_format.dumps(measured(experiment, SEEDS, lambda line: print(line, flush=True)), indent=1)
        replace_text(folder / f"{RUN}.json", f"{text}\n")
        print(text)
