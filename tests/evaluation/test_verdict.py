"""The verdict on a run: its counts, what it is compared with, and what its control allows to say."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pytest

from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import extraction_rows
from core.evaluation.verdict import (
    Count,
    Found,
    chance_sentence,
    counterparts,
    found,
    identifier_sentence,
    role,
    treatment,
    verdict,
)
from core.spec import (
    CORPUS_PRESETS,
    AuditSpec,
    CorpusSpec,
    DefenceSpec,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
)

SMOKE = CORPUS_PRESETS["smoke"]


def spec_of(
    epsilon: float | None = None, seed: int = 0, clip: float | None = None, epochs: int = 2, **changes
) -> RunSpec:
    training = TrainingSpec(epochs=epochs, seed=seed, clip_norm=clip)
    return RunSpec(**{"corpus": SMOKE, "training": training, "privacy": PrivacySpec(target_epsilon=epsilon), **changes})


@dataclass(frozen=True)
class Made:
    """Of a run, what a comparison reads."""

    spec: RunSpec

    @property
    def id(self) -> str:
        return self.spec.run_id


def count(named: int, patients: int) -> Count:
    return Count(named, patients, *proportion_interval(named, patients))


def test_counts_are_those_of_the_generated_texts(smoke_workspace, smoke_specs) -> None:
    from core.runs.store import Workspace

    workspace = Workspace(smoke_workspace, shared=())
    run = workspace.run(smoke_specs["plain"].run_id)
    hits = run.table("hits")
    names = hits[(hits["rule"] == "value") & (hits["field"] == "full_name")]
    own = found(run.metrics, run.spec)
    for split, told in (("member", own.run), ("heldout", own.control)):
        patients = workspace.corpus(run.spec.corpus).patients
        assert told.named == names.loc[names["split"] == split, "patient_id"].nunique()
        assert told.patients == (patients["split"] == split).sum()
        assert (told.low, told.high) == pytest.approx(proportion_interval(told.named, told.patients))
    assert own.texts == len(run.table("generations"))
    rows = pd.DataFrame(extraction_rows(run.table("generations"), hits, workspace.corpus(run.spec.corpus)))
    assert found(rows, run.spec) == own


def test_a_metrics_table_without_the_figure_has_no_verdict() -> None:
    assert found(pd.DataFrame({"metric": ["auc_loss"], "arm": ["run"], "value": [0.5]}), spec_of()) is None


def test_of_several_counterparts_the_closest_is_taken_and_no_other_cohort_model_or_audit() -> None:
    run = Made(spec_of())
    wrong = [
        spec_of(8.0, corpus=CORPUS_PRESETS["classroom"]),
        spec_of(8.0, model=ModelSpec(kind="distilbert")),
        spec_of(8.0, audit=AuditSpec(samples_per_prompt=7)),
        spec_of(8.0, defence=DefenceSpec(scrub_recall=0.9)),
        spec_of(epochs=3),
        spec_of(8.0, without=("P0001",)),
    ]
    right = [spec_of(2.0), spec_of(10.0), spec_of(8.0, seed=1), spec_of(clip=1.0), spec_of(clip=1.0, epochs=9)]
    chosen = counterparts(run, [run, *map(Made, [*wrong, *right])])
    assert set(chosen) == {"private", "noiseless"}
    assert chosen["private"].spec == spec_of(10.0) and chosen["noiseless"].spec == spec_of(clip=1.0)
    assert counterparts(run, [run, *map(Made, wrong)]) == {}
    own = Made(spec_of(8.0))
    assert {name: one.spec for name, one in counterparts(own, [run, own, Made(spec_of(2.0))]).items()} == {
        "plain": run.spec
    }


def test_a_run_that_left_a_patient_out_is_not_the_one_without_privacy() -> None:
    plain, retrained = Made(spec_of()), Made(spec_of(without=("P0001",)))
    assert counterparts(Made(spec_of(8.0)), [retrained, plain])["plain"] is plain


def test_a_run_without_noise_is_put_beside_the_private_run_whose_control_it_is_alone() -> None:
    def private(epsilon: float, rate: float, **changes) -> RunSpec:
        training = TrainingSpec(epochs=2, learning_rate=rate, **changes)
        return RunSpec(corpus=SMOKE, training=training, privacy=PrivacySpec(target_epsilon=epsilon))

    eight, one, large = private(8.0, 2.1e-3), private(1.0, 1.1e-3), private(100.0, 2.1e-3, batch_size=64)
    controls = [Made(spec.clipped_spec()) for spec in (one, eight)]
    plain = Made(spec_of())
    for others in ([plain, *controls], [*reversed(controls), plain]):
        beside = counterparts(Made(eight), others)
        assert beside == {"noiseless": Made(eight.clipped_spec()), "plain": plain}
        assert counterparts(Made(large), others) == {"plain": plain}, "its control was not trained"
    every = [Made(one), *controls, Made(eight), Made(large)]
    assert counterparts(plain, every) == {"private": Made(eight), "noiseless": Made(eight.clipped_spec())}
    assert counterparts(plain, [Made(large), *controls]) == {"private": Made(large)}
    assert counterparts(controls[0], [Made(eight), Made(one), plain]) == {"private": Made(one), "plain": plain}
    assert counterparts(controls[0], [Made(eight)]) == {}


def test_words_with_an_epsilon_of_their_own_have_no_control() -> None:
    words = {"model": ModelSpec(kind="distilbert"), "vocabulary": VocabularySpec(epsilon=1.0)}
    private, bare = Made(spec_of(8.0, **words)), spec_of(clip=1.0, model=ModelSpec(kind="distilbert"))
    assert counterparts(private, [Made(bare), Made(spec_of(2.0, **words))]) == {}
    assert counterparts(Made(bare), [private]) == {}


def test_roles_and_their_words() -> None:
    words = {treatment(one) for one in (spec_of(), spec_of(8.0), spec_of(clip=1.0))}
    assert words == {"without privacy", "with ε = 8 per note", "with clipping but without noise"}
    sigma = spec_of(privacy=PrivacySpec(noise_multiplier=1.5, unit="patient"))
    assert treatment(sigma) == "with σ = 1.5 per patient" and role(sigma) == "private"


def test_the_verdict_says_the_counts_with_the_intervals_of_the_others() -> None:
    own, other = Found(count(5, 17), count(0, 7), 1_400), Found(count(0, 17), count(0, 7), 1_400)
    said = verdict(own, spec_of(), [(spec_of(8.0), other)])
    assert said == (
        "Without privacy, 5 of 17 training patients were named in full. "
        "With ε = 8 per note: none of 17 (95\u00a0% interval 0\u00a0% to 18\u00a0%)."
    )
    assert verdict(Found(count(1, 17), None, 14), spec_of(8.0)) == (
        "With ε = 8 per note, 1 of 17 training patients was named in full."
    )
    assert verdict(other, spec_of(8.0)).startswith("With ε = 8 per note, none of 17")


def test_a_single_patient_is_no_plural() -> None:
    none, one = Found(count(0, 1), count(0, 1), 1_400), Found(count(1, 1), count(1, 1), 1_400, imported=True)
    assert verdict(none, spec_of()) == "Without privacy, the one training patient was not named in full."
    assert verdict(one, spec_of()) == (
        "Without privacy, the one training patient whose name is known was named in full."
    )
    assert chance_sentence(none).startswith("Control: it did not name the one patient whom it never saw (95")
    known = "Control: it named the one patient whose name is known and whom it never saw, by chance or because a "
    assert chance_sentence(one).startswith(known)


def test_a_leak_is_called_one_only_where_it_exceeds_its_control() -> None:
    said = chance_sentence(Found(count(300, 400), count(3, 200), 1_400))
    assert (
        "it named 3 of 200 patients whom it never saw, by chance" in said and "repeats what it was trained on" in said
    )
    assert "may be chance" in chance_sentence(Found(count(8, 17), count(0, 7), 1_400))
    assert chance_sentence(Found(count(0, 17), count(0, 7), 1_400)).endswith("0\u00a0% to 35\u00a0%).")
    below = chance_sentence(Found(count(1, 1_000), count(5, 100), 2_800))
    assert (
        below.endswith("a smaller share of training patients than by chance: no sign of memorising.")
        and "overlap" not in below
    )
    assert "no control" in chance_sentence(Found(count(3, 17), None, 1_400))


def test_of_imported_notes_it_says_that_only_patients_whose_name_is_known_are_counted() -> None:
    own = Found(count(2, 5), count(1, 2), 1_400, imported=True)
    assert (
        verdict(own, spec_of()) == "Without privacy, 2 of 5 training patients whose name is known were named in full."
    )
    assert chance_sentence(own).startswith(
        "Control: it named 1 of 2 patients whose name is known and whom it never saw, by chance or because a training "
        "patient has the same name (95"
    )
    alone = Found(count(2, 5), None, 1_400, imported=True)
    assert chance_sentence(alone) == "There is no control: this cohort has no held-out patients whose name is known."
    rows = {"metric": "full_name_patients", "arm": ["run"], "value": 0.4, "low": 0.1, "high": 0.8, "n": 5}
    imported = spec_of(corpus=CorpusSpec(imported="0" * 16))
    assert found(pd.DataFrame(rows), imported).imported and not found(pd.DataFrame(rows), spec_of()).imported


def test_a_model_that_names_nobody_may_still_give_patients_away() -> None:
    """The record numbers of 15 of 28 patients were written, and the names of none."""
    own = Found(count(0, 28), count(0, 12), 1_400, True, count(15, 28), count(1, 12))
    said = identifier_sentence(own).replace("\u00a0", " ")
    assert said.startswith(
        "It wrote a direct identifier, such as a name or a record number, of 15 of 28 training patients (95 % interval "
    )
    assert "of 1 of 12 held-out ones (95 % interval" in said and said.endswith("So it repeats what it was trained on.")
    few = Found(count(0, 28), count(0, 12), 1_400, True, count(3, 28), count(1, 12))
    assert identifier_sentence(few).endswith("so the difference may be chance.")
    alone = Found(count(0, 28), None, 1_400, True, count(15, 28))
    assert identifier_sentence(alone).endswith("%).")
    for no_more in (Found(count(3, 17), None, 14), Found(count(3, 17), None, 14, False, count(3, 17))):
        assert identifier_sentence(no_more) == "", "the headline has said as much"


def test_identifiers_are_counted_beside_names(smoke_workspace, smoke_specs) -> None:
    from core.runs.store import Workspace

    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    own = found(run.metrics, run.spec)
    rows = run.metrics[run.metrics["metric"] == "direct_patients"].set_index("arm")
    for arm, counted in (("run", own.identified), ("heldout", own.identified_control)):
        assert (
            counted.named == round(rows.loc[arm, "value"] * rows.loc[arm, "n"])
            and counted.patients == rows.loc[arm, "n"]
        )
