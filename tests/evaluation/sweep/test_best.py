"""The most useful private model: chosen by what it keeps, and said with the names it wrote beside the control."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.sweep.best import LOSS_AUCS, NAMES, best_private
from core.evaluation.sweep.sweeps import sweeps_of
from core.runs.events import Status
from core.runs.run import Run
from core.spec import PrivacySpec, RunSpec, TrainingSpec

PERPLEXITY = {"base": 100.0, "plain": 5.0}


def measured(written: dict[float, tuple], *, kept: dict[float, float], seeds: int = 1, missing: float | None = None):
    """Runs at some ε with these names: (of members, members, of held-out patients, held-out patients).

    `kept` is the perplexity of each ε. At ε = `missing` the held-out patients' names have no interval.
    """
    runs, rows = [], []
    for epsilon in (*written, math.inf):
        for seed in range(seeds):
            privacy = PrivacySpec(target_epsilon=None if math.isinf(epsilon) else epsilon)
            spec = RunSpec(privacy=privacy, training=TrainingSpec(seed=seed))
            runs.append(Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=False))
            settings = (runs[-1].id, "gpt2", "tiny", "clinical", "c", epsilon, seed)
            rows.append((*settings, LOSS_AUCS["patients"], "run", 0.52, 0.48, 0.55, 400))
            rows.append((*settings, LOSS_AUCS["notes"], "run", 0.5, 0.49, 0.52, 400))
            for arm, value in (("run", kept.get(epsilon, PERPLEXITY["plain"])), ("base", PERPLEXITY["base"])):
                rows.append((*settings, "perplexity_heldout", arm, value, value, value, 129))
            members, of_members, heldout, of_heldout = written.get(epsilon, (120, 301, 0, 129))
            for arm, count, of in (("run", members, of_members), ("heldout", heldout, of_heldout)):
                ends = proportion_interval(count, of)
                ends = (math.nan, math.nan) if epsilon == missing and arm == "heldout" else ends
                rows.append((*settings, NAMES, arm, count / of, *ends, of))
    columns = ["run_id", "kind", "size", "base", "corpus", "epsilon", "seed", "metric", "arm", "value", "low", "high"]
    return sweeps_of(runs), pd.DataFrame(rows, columns=[*columns, "n"])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            (9, 301, 0, 129),
            "and its counts do not show whether it writes full names more often than by chance (9 of 301 against 0 of ",
        ),
        ((0, 301, 0, 129), "and it wrote no patient's full name (0 of 301 trained on, 0 of 129 held out)."),
        ((1, 301, 20, 129), "and it names members in full less often than held-out patients (1 of 301 against 20"),
    ],
)
def test_the_sentence_has_the_counts_and_claims_no_more_than_they_show(written, said):
    found = best_private(*measured({8.0: written}, kept={8.0: 20.0}))
    assert found.epsilon == 8.0 and said in found.sentence() and "no more often" not in found.sentence()


def test_the_gain_is_said_with_the_model_from_which_it_is_counted():
    """Over a model that has read no clinical text, the same model would keep a larger share."""
    said = best_private(*measured({8.0: (0, 301, 0, 129)}, kept={8.0: 20.0})).sentence()
    assert "gains over the public model that both start from, which has read public clinical text, and it" in said


def test_counts_of_several_runs_are_added_up():
    found = best_private(*measured({8.0: (2, 301, 1, 129)}, kept={8.0: 20.0}, seeds=3))
    assert "(6 of 903 against 3 of 387, in 3 runs together)" in found.sentence()


def test_a_model_that_leaks_or_has_no_interval_is_passed_over():
    written = {1.0: (0, 301, 0, 129), 3.0: (1, 301, 0, 129), 8.0: (60, 301, 0, 129)}
    kept = {1.0: 40.0, 3.0: 30.0, 8.0: 10.0}
    assert best_private(*measured(written, kept=kept)).epsilon == 3.0
    assert best_private(*measured(written, kept=kept, missing=3.0)).epsilon == 1.0
    assert best_private(*measured({8.0: (60, 301, 0, 129)}, kept=kept)) is None


def test_what_was_tried_beyond_names_is_said():
    found = best_private(*measured({8.0: (0, 301, 0, 129)}, kept={8.0: 20.0}))
    loss = "(AUC on patients 0.52, 95\u00a0% interval 0.48 to 0.55; 0.5 is random guessing)"
    assert found.attacked(0) == (
        f"Of the membership attacks, only the loss attack was run on it {loss}; a full audit may find a stronger one."
    )
    assert found.attacked(1).endswith(f"was run on it {loss}, and 1 other membership attack was: see Membership.")
    assert len(found.run_ids) == 1 and found.run_ids[0] in found.sweep.run_ids
    sweeps, metrics = measured({8.0: (0, 301, 0, 129)}, kept={8.0: 20.0})
    older = metrics[metrics["metric"] != LOSS_AUCS["patients"]]
    assert "(AUC on notes 0.50, 95\u00a0% interval 0.49 to 0.52; 0.5 is" in best_private(sweeps, older).attacked(0)
    assert "AUC" not in best_private(sweeps, older[older["metric"] != LOSS_AUCS["notes"]]).attacked(9)
