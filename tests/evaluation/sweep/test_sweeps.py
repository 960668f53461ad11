"""Only runs that differ in ε and seed share a curve."""

from __future__ import annotations

from pathlib import Path

from core.evaluation.sweep import sweeps
from core.evaluation.sweep.sweeps import sweeps_of
from core.runs.events import Status
from core.runs.run import Run
from core.spec import AuditSpec, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, VocabularySpec, recipe


def run(
    *, epsilon=None, sigma=None, finished=0.0, kind="gpt2", corpus_seed=0, unit="note", accountant="prv", **training
) -> Run:
    spec = RunSpec(
        corpus=CorpusSpec(seed=corpus_seed),
        model=ModelSpec(kind=kind),
        privacy=PrivacySpec(target_epsilon=epsilon, noise_multiplier=sigma, unit=unit, accountant=accountant),
        training=TrainingSpec(**training),
        audit=AuditSpec(),
    )
    return Run(Path("runs") / spec.run_id, spec, Status(state="done", finished=finished), shipped=False)


def test_seeds_and_epsilons_of_one_recipe_are_one_family():
    runs = [run(epsilon=epsilon, seed=seed) for epsilon in (1, 8, None) for seed in (0, 1)]
    (sweep,) = sweeps_of(runs)
    assert set(sweep.run_ids) == {one.id for one in runs}


def test_another_recipe_unit_kind_or_cohort_is_another_family():
    private = [
        run(epsilon=8),
        run(epsilon=8, batch_size=64),
        run(epsilon=8, unit="patient"),
        run(epsilon=8, kind="bert"),
        run(epsilon=8, corpus_seed=1),
    ]
    assert [len(sweep.run_ids) for sweep in sweeps_of(private)] == [1] * 5


def test_runs_without_privacy_join_every_family_of_their_cohort_and_model():
    plain = run(finished=3.0, epochs=20)
    found = sweeps_of([run(epsilon=8), run(epsilon=8, unit="patient"), plain, run(kind="bert")])
    assert sum(plain.id in sweep.run_ids for sweep in found) == 2
    assert sum(sweep.training is None for sweep in found) == 1, "BERT has no private run here"


def test_of_several_recipes_without_privacy_one_counts():
    """The one with most runs, then the latest: a curve has one end."""
    few, many = run(finished=9.0, epochs=3), [run(epochs=5, seed=seed) for seed in (0, 1)]
    (sweep,) = sweeps_of([run(epsilon=8), few, *many])
    assert few.id not in sweep.run_ids and {one.id for one in many} < set(sweep.run_ids)
    later = run(finished=10.0, epochs=4)
    (sweep,) = sweeps_of([run(epsilon=8), few, later])
    assert later.id in sweep.run_ids and few.id not in sweep.run_ids


def test_base_models_raw_sigmas_and_runs_planned_by_gdp_are_on_no_curve():
    """GDP chooses too little noise for most ε: such a run guarantees another ε than the one it would stand at."""
    base, sigma, gdp = run(epochs=0), run(sigma=1.0), run(epsilon=8, accountant="gdp")
    assert sweeps_of([base, sigma, gdp]) == []
    assert len(sweeps_of([run(epsilon=8, accountant="rdp"), gdp])) == 1


def test_the_largest_family_comes_first():
    runs = [run(epsilon=8, unit="patient"), run(epsilon=8), run(epsilon=1)]
    assert [len(sweep.run_ids) for sweep in sweeps_of(runs)] == [2, 1]


def test_a_family_names_the_run_it_lacks():
    have = [run(epsilon=8, batch_size=64, seed=2), run(epochs=5)]
    (sweep,) = sweeps_of(have)
    assert sweep.spec(8.0, seed=2) == have[0].spec
    assert sweep.spec(None) == have[1].spec
    lacking = sweep.spec(3.0)
    assert lacking.privacy.target_epsilon == 3.0 and lacking.training.batch_size == 64


def test_a_rate_that_falls_with_epsilon_is_one_recipe():
    """The usual rate differs with ε, and the run that a family asks for has the usual rate of its ε."""

    def usual(epsilon: float, seed: int = 0) -> Run:
        training = recipe("gpt2", PrivacySpec(target_epsilon=epsilon), seed=seed)
        return run(epsilon=epsilon, **training.model_dump())

    runs = [usual(epsilon, seed) for epsilon in (0.5, 1, 8, 10) for seed in (0, 1)]
    assert len({one.spec.training.learning_rate for one in runs}) == 3
    (sweep,) = sweeps_of(runs)
    assert set(sweep.run_ids) == {one.id for one in runs}
    for one in runs:
        assert sweep.spec(one.spec.privacy.target_epsilon, one.spec.training.seed).run_id == one.id
    assert sweep.spec(2.0).training.learning_rate == recipe("gpt2", PrivacySpec(target_epsilon=2.0)).learning_rate


def test_one_rate_for_every_epsilon_is_another_recipe():
    at_eight = recipe("gpt2", PrivacySpec(target_epsilon=8.0)).model_dump()
    fixed = [run(epsilon=epsilon, **at_eight) for epsilon in (1, 2)]
    usual = run(epsilon=1, **recipe("gpt2", PrivacySpec(target_epsilon=1.0)).model_dump())
    found = sweeps_of([*fixed, usual])
    assert sorted(len(sweep.run_ids) for sweep in found) == [1, 2]
    of_fixed = next(sweep for sweep in found if not sweep.usual_rate)
    assert of_fixed.spec(1.0).run_id == fixed[0].id


def test_of_two_families_with_as_many_runs_gpt2s_is_first():
    masked = [run(epsilon=8, kind="distilbert"), run(epsilon=8, kind="bert")]
    assert [sweep.model.kind for sweep in sweeps_of([*masked, run(epsilon=8)])] == ["gpt2", "distilbert", "bert"]
    assert [sweep.model.kind for sweep in sweeps_of([*masked, run(epsilon=1, kind="bert")])][0] == "bert"


def test_runs_with_words_of_their_own_belong_to_no_family():
    """Their ε in all is another, and their perplexity is per token of another word list."""
    plain = [run(epsilon=8, kind="bert"), run(kind="bert")]
    own = []
    for one, words in zip(plain, (VocabularySpec(epsilon=1.0), VocabularySpec()), strict=True):
        spec = RunSpec.model_validate(one.spec.model_dump() | {"vocabulary": words.model_dump()})
        own.append(Run(Path("runs") / spec.run_id, spec, one.status, shipped=False))
    assert [sweep.run_ids for sweep in sweeps_of([*plain, *own])] == [sweep.run_ids for sweep in sweeps_of(plain)]
    assert sweeps_of(own) == []


def test_recipes_that_differ_by_epsilon_in_more_than_the_rate_are_one_curve(monkeypatch):
    """Each private run has what the recipe gives for its ε, the cohort and its number of notes."""

    def longer(kind, privacy, corpus):
        epsilon = privacy.target_epsilon or 8.0
        return TrainingSpec(epochs=1 + int(epsilon), batch_size=corpus.patients, learning_rate=1e-3 * epsilon)

    monkeypatch.setattr(sweeps, "_RECIPES", (longer,))
    corpus = CorpusSpec(seed=0)
    runs = [
        run(
            epsilon=epsilon, **longer("gpt2", PrivacySpec(target_epsilon=epsilon), corpus).model_dump() | {"seed": seed}
        )
        for epsilon in (1.0, 8.0)
        for seed in (0, 1)
    ]
    (sweep,) = sweeps_of(runs)
    assert set(sweep.run_ids) == {one.id for one in runs} and sweep.usual == 0
    for one in runs:
        assert sweep.spec(one.spec.privacy.target_epsilon, one.spec.training.seed).run_id == one.id
    assert sweep.spec(3.0).training.epochs == 4


def test_a_training_without_noise_is_the_control_of_the_sweep_that_it_repeats():
    private = [run(epsilon=8, seed=seed) for seed in (0, 1)]
    other = run(epsilon=8, batch_size=64)
    control = private[0].spec.clipped_spec()
    clipped = Run(Path("runs") / control.run_id, control, Status(state="done"), shipped=False)
    of_none = run(clip_norm=3.0)
    plain = run()
    found = sweeps_of([*private, other, clipped, of_none, plain])
    first = next(sweep for sweep in found if private[0].id in sweep.run_ids)
    assert first.controls == (clipped.id,)
    assert all(not {clipped.id, of_none.id} & set(sweep.run_ids) for sweep in found), "clipped is not unconstrained"
    assert [sweep.controls for sweep in found if sweep is not first] == [()]
    assert all(plain.id in sweep.run_ids for sweep in found)


def test_runs_of_the_first_recipe_stay_one_curve():
    """The shipped runs of version 0.1, whatever the recipe is now."""
    rates = {0.5: 0.0013, 1.0: 0.0018, 2.0: 0.0025, 8.0: 0.005, 10.0: 0.005}
    runs = [
        run(epsilon=epsilon, epochs=4, batch_size=256, learning_rate=rate, warmup=0.0)
        for epsilon, rate in rates.items()
    ]
    (sweep,) = sweeps_of(runs)
    assert set(sweep.run_ids) == {one.id for one in runs}
