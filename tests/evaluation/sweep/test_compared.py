"""Figures that compare models, the models beside a private run, and sizes of a hospital."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from core.evaluation.across_sizes import named_texts
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.sweep import beside
from core.evaluation.sweep.beside import BITS, MODELS, NAMES, PATIENT_AUC, PRIVATE, about
from core.evaluation.sweep.derived import bits_per_character, derived, tokens_per_character
from core.evaluation.sweep.sizes import bought, notes_text, other_sizes
from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.sweep.tradeoff import points
from core.runs.events import Status
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec


def run(
    patients: int = 100, *, epsilon: float | None = 8.0, naming: float = 0.5, delta: float = 1e-5, **training
) -> Run:
    spec = RunSpec(
        corpus=CorpusSpec(patients=patients, population=patients // 4, notes_per_patient=10, naming_rate=naming),
        model=ModelSpec(),
        privacy=PrivacySpec(target_epsilon=epsilon, delta=delta),
        training=TrainingSpec(**training),
    )
    return Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=False)


def test_bits_per_character_are_those_of_a_known_code():
    """Perplexity 8 is 3 bits a token; with 2 tokens in 5 characters that is 1.2 bits per character."""
    metrics = pd.DataFrame(
        [("perplexity_heldout", "run", 8.0, 4.0, 16.0), ("auc_loss", "run", 0.5, 0.4, 0.6)],
        columns=["metric", "arm", "value", "low", "high"],
    )
    row = bits_per_character(metrics, 0.4).iloc[0]
    assert (row["metric"], row["value"], row["low"], row["high"]) == (
        "bits_per_character",
        *(0.4 * b for b in (3, 2, 4)),
    )


def test_texts_with_a_name_count_each_text_once_and_scale_the_control():
    generations = pd.DataFrame({"generation_id": range(10)})
    hits = pd.DataFrame(
        [
            (0, "full_name", "member", "value"),
            (0, "full_name", "member", "value"),
            (1, "full_name", "member", "value"),
            (2, "mrn", "member", "value"),
            (3, "full_name", "member", "old"),
            (4, "full_name", "heldout", "value"),
            (5, "full_name", "population", "value"),
        ],
        columns=["generation_id", "field", "split", "rule"],
    )
    own, control = named_texts(generations, hits, {"run": 70, "heldout": 30})
    assert (own.value, own.low, own.high) == (0.2, *proportion_interval(2, 10)) and own.n == 10
    assert control.value == pytest.approx(1 - 0.9 ** (70 / 30))
    assert not list(named_texts(generations, hits, {"run": 70})), "no control, no figure"


def test_an_old_run_gets_them_from_its_tables(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    run, base = workspace.run(smoke_specs["plain"].run_id), workspace.run(smoke_specs["base"].run_id)
    corpus, names = workspace.corpus(run.spec.corpus, store=False), {NAMES, PATIENT_AUC, BITS}
    ratio = tokens_per_character(run.table("scores"), corpus)
    old = _Old(run, names)
    found = derived(old, base, ratio).set_index(["metric", "arm"])
    arms = {NAMES: ("run", "heldout"), PATIENT_AUC: ("run", "base"), BITS: ("run", "base")}
    assert set(found.index) == {(name, arm) for name in names for arm in arms[name]}
    notes = corpus.notes[corpus.notes["split"] == "heldout"]
    scores = run.table("scores").query("attack == 'loss'")
    heldout = scores[scores["split"] == "heldout"]
    bits = -(heldout["score"] * heldout["tokens"]).sum() / math.log(2) / notes["text"].str.len().sum()
    assert found.loc[(BITS, "run"), "value"] == pytest.approx(bits), "the length of a code for all held-out notes"
    mean = scores.groupby("patient_id").agg(score=("score", "mean"), member=("member", "first"))
    pairs = [(a > b) + (a == b) / 2 for a in mean["score"][mean["member"]] for b in mean["score"][~mean["member"]]]
    assert found.loc[(PATIENT_AUC, "run"), "value"] == pytest.approx(sum(pairs) / len(pairs)), "every pair of patients"
    measured = pd.concat([old.metrics, found.reset_index()])
    nothing = derived(_Old(run, set(), measured), base, ratio)
    assert nothing.empty, "what is measured is not computed again"
    joined = pd.concat([run.metrics, nothing], ignore_index=True)
    assert joined.dtypes.equals(run.metrics.dtypes), "joined to it, numbers stay numbers and not slow objects"
    assert derived(old, None, None)["arm"].isin(["run", "heldout"]).all()


class _Old:
    """A run whose metrics lack some figures."""

    def __init__(self, run: Run, without: set[str], metrics: pd.DataFrame | None = None):
        stored = run.metrics if metrics is None else metrics
        self._run, self.metrics = run, stored[~stored["metric"].isin(without)]

    def table(self, name: str) -> pd.DataFrame:
        return self._run.table(name)


def test_the_control_without_noise_is_found_by_its_settings_and_is_no_plain_run():
    private, other = run(epochs=2), run(epsilon=1.0, epochs=2, learning_rate=1e-4)
    controls = [
        Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=False)
        for spec in (private.spec.clipped_spec(), other.spec.clipped_spec())
    ]
    plain = run(epsilon=None)
    every = [private, other, plain, *controls]
    assert beside.noiseless([private], every) == controls[:1]
    assert [beside.is_noiseless(one) for one in every] == [False, False, False, True, True]


def test_models_stand_beside_each_other_with_means_over_their_runs():
    rows = [
        (run_id, 8.0, seed, metric, "run", value, value - 1, value + 1)
        for run_id, seed, value in (("a", 0, 2.0), ("b", 1, 4.0), ("c", 0, 9.0))
        for metric in ("perplexity_heldout",)
    ]
    metrics = pd.DataFrame(rows, columns=["run_id", "epsilon", "seed", "metric", "arm", "value", "low", "high"])
    metrics = metrics.assign(kind="gpt2", size="tiny", base="clinical", corpus="c")
    metrics.loc[metrics["run_id"] == "c", "epsilon"] = 0.0  # a base model
    found = beside.beside(metrics, {beside.BASE: ["c"], beside.PRIVATE: ["a", "b"]})
    assert found[["model", "value", "seeds"]].values.tolist() == [[beside.BASE, 9.0, 1], [beside.PRIVATE, 3.0, 2]]
    assert beside.beside(metrics, {}).empty


def test_sizes_differ_in_people_alone():
    small, large = run(100), run(400, delta=1e-6, batch_size=64)
    found = sweeps_of([small, large, run(400, naming=0.1), run(400, epsilon=None)])
    first = next(sweep for sweep in found if sweep.corpus == small.spec.corpus)
    sizes = other_sizes(first, found)
    assert list(sizes) == [700, 2800] and sizes[2800].corpus == large.spec.corpus and sizes[700] is first
    assert [notes_text(notes) for notes in (48_160, 12_040, 3_010, 700, 58)] == [
        *("about 48,000 notes", "about 12,000 notes", "about 3,000 notes", "about 700 notes", "about 58 notes")
    ]


def test_what_patients_buy_is_each_hospitals_own_share_of_the_gain():
    """Base 64, plain 4, private 16: log₂ 6, 2 and 4, so half the gain."""

    def metrics(private: float) -> pd.DataFrame:
        rows = [
            (epsilon, seed, metric, arm, value, value, value)
            for seed in (0, 1)
            for epsilon, own in ((8.0, private), (math.inf, 4.0))
            for arm, pp in (("run", own), ("base", 64.0))
            for metric, value in (("perplexity_heldout", pp), ("bits_per_character", 0.5 * math.log2(pp)))
        ]
        frame = pd.DataFrame(rows, columns=["epsilon", "seed", "metric", "arm", "value", "low", "high"])
        return frame.assign(kind="gpt2", size="tiny", base="clinical", corpus="c")

    sizes = {3_000: metrics(16.0), 12_000: metrics(8.0)}
    found = bought(sizes, {notes: points(frame) for notes, frame in sizes.items()})
    assert [(one.notes, one.epsilon, one.bits.value, one.seeds) for one in found] == [
        (3_000, 8.0, 2.0, 2),
        (3_000, math.inf, 1.0, 2),
        (12_000, 8.0, 1.5, 2),
        (12_000, math.inf, 1.0, 2),
    ]
    assert [one.gain.value for one in found] == pytest.approx([0.5, 1.0, 0.75, 1.0])
    alone = {3_000: sizes[3_000][sizes[3_000]["epsilon"] == 8.0]}
    assert bought(alone, {3_000: points(alone[3_000])})[0].gain is None, "no run without privacy, no gain"


def test_what_a_private_run_clips_is_named_by_its_unit() -> None:
    assert about(PRIVATE, "patient").startswith("each patient's gradient clipped")
    assert about(PRIVATE, "note").startswith("each note's gradient clipped")
    assert all("{" not in about(name, "note") for name in MODELS)
