"""The same cohort and attacks under each defence: one row per defence and risk, with interval and controls.

A defence is a way to train a run (its spec), or a filter in front of a run, or both. Runs that differ only in the
training seed share one row (`core.evaluation.sweep.tradeoff.points`); a defence that has not been trained yet has rows
without values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import pandas as pd

from core.attacks.memorisation.extraction import index_of
from core.common.formatting import setting_text
from core.corpus.tables import Corpus
from core.evaluation.defences.filtering import filtered_metrics, filters, hits_after
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import points
from core.phi.detector.engine import Detector
from core.phi.index import PhiIndex
from core.phi.output_filter import OutputFilter
from core.runs import queries
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import DefenceSpec, PrivacySpec, RunSpec

RISKS = ("full_name_patients", "direct_patients", "attempts_with_leak", "auc_loss")
FILTERED_RISKS = RISKS[:3]  # what a filter of text can change
FILTER = "both"  # of `filters`: the strongest one, so that the comparison does not blame filters for a weak choice
UTILITY, WORDS = "perplexity_heldout", "known_words"
COLUMNS: dict[str, str] = {
    "defence": "str",
    "name": "str",
    "metric": "str",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "control": "float64",  # the same figure on held-out patients (for canaries: never planted); NaN if there is none
    "control_low": "float64",
    "control_high": "float64",
    "base": "float64",  # the same figure of the public base model
    "base_low": "float64",
    "base_high": "float64",
    "perplexity": "float64",
    "perplexity_low": "float64",
    "perplexity_high": "float64",
    "base_perplexity": "float64",
    "known_words": "float64",
    "training_seconds": "float64",  # mean over seeds, as recorded on the machine that trained them
    "seeds": "int64",  # runs of the risk; 0: not trained yet, or (with training_seconds) none with texts to filter
}


@dataclass(frozen=True)
class Defence:
    """One row of the comparison. `spec` is its run at seed 0; `filtered` adds the output filter in front of it."""

    key: str
    name: str
    sentence: str  # what it does, in words for students
    spec: RunSpec
    filtered: bool = False

    def runs(self, runs: Sequence[Run]) -> list[Run]:
        """The runs with this defence, one per training seed, lowest seed first."""
        wanted = _at_seed_zero(self.spec)
        near = (run for run in runs if (run.spec.corpus, run.spec.model) == (wanted.corpus, wanted.model))
        same = [run for run in near if _at_seed_zero(run.spec) == wanted]
        return sorted(same, key=lambda run: run.spec.training.seed)


def _at_seed_zero(spec: RunSpec) -> RunSpec:
    """The spec at seed 0; without privacy, δ, clipping and unit are not used and do not count."""
    privacy = spec.privacy if spec.privacy.private else PrivacySpec()
    return spec.model_copy(update={"training": spec.training.model_copy(update={"seed": 0}), "privacy": privacy})


def settings(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """For line-ups: of each cohort, model and audit the sweep per note if any, and of those the one with most runs."""
    chosen: dict[tuple, Sweep] = {}
    for sweep in sorted(sweeps, key=lambda one: one.privacy.unit != "note"):
        chosen.setdefault((sweep.corpus, sweep.model, sweep.audit), sweep)
    return [sweep for sweep in sweeps if sweep in chosen.values()]


def lineup(sweep: Sweep, *, epsilon: float = 8.0, recall: float = 0.95) -> list[Defence]:
    """The defences of one cohort, model, audit and recipe, in the order in which they are shown.

    Args:
        sweep: Cohort, model, audit and recipe.
        epsilon: ε of every DP row.
        recall: Share of identifiers that scrubbing finds.

    Raises:
        ValueError: A spec cannot be made with these settings.
    """
    plain = sweep.spec(None)
    private = {unit: _per(sweep.spec(epsilon), unit) for unit in ("note", "patient")}
    by_note = f"DP per note, ε = {setting_text(epsilon)}"
    return [
        Defence("nothing", "Nothing", "The model trains on the notes as they are.", plain),
        Defence(
            "deduplication",
            "Deduplication",
            "Copies, near copies and repeated paragraphs are removed before training, so that each is read once.",
            _with(plain, DefenceSpec(deduplicate=True)),
        ),
        Defence(
            "scrubbing",
            f"Scrubbing, recall {100 * recall:g} %",
            "Names, numbers, dates of birth and addresses are replaced before training; what the search misses stays.",
            _with(plain, DefenceSpec(scrub_recall=recall)),
        ),
        Defence(
            "dp-note",
            by_note,
            "Each note's influence on the model is clipped and covered by noise, to the extent that ε promises.",
            private["note"],
        ),
        Defence(
            "dp-patient",
            f"DP per patient, ε = {setting_text(epsilon)}",
            "The same for all notes of a patient together.",
            private["patient"],
        ),
        Defence(
            "dp-filter",
            f"{by_note} + filter",
            "In addition, text that looks like PHI or matches a known value is blacked out of every answer.",
            private["note"],
            True,
        ),
        Defence(
            "filter",
            "Filter alone",
            "The model trains on the notes as they are and knows them; only its answers are blacked out.",
            plain,
            True,
        ),
    ]


def _with(spec: RunSpec, defence: DefenceSpec) -> RunSpec:
    return RunSpec.model_validate({**spec.model_dump(), "defence": defence.model_dump()})


def _per(spec: RunSpec, unit: str) -> RunSpec:
    return RunSpec.model_validate({**spec.model_dump(), "privacy": {**spec.privacy.model_dump(), "unit": unit}})


def compare(
    lineup: Sequence[Defence],
    metrics: Mapping[str, pd.DataFrame],
    seconds: Mapping[str, float],
    tried: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """One row per defence and risk (`COLUMNS`), in the line-up's order; NaN and 0 seeds for a defence without runs.

    Args:
        lineup: The defences.
        metrics: By defence, the rows of `core.runs.queries.metrics` for its runs (for a filtered defence as
            `core.evaluation.defences.filtering.filtered_metrics` changes them).
        seconds: By defence, the mean training time.
        tried: By filtered defence, the number of runs whose texts are stored, so that the filter was tried on them.
    """
    tried = tried or {}
    curves = {key: points(frame) for key, frame in metrics.items() if len(frame)}
    risks = [*RISKS, *_exposure(curves.values())]
    rows = []
    for defence in lineup:
        found = curves.get(defence.key)
        for risk in risks:
            seeds = tried.get(defence.key) if risk in FILTERED_RISKS else None
            cost = (seconds.get(defence.key, math.nan), _seeds(found) if seeds is None else seeds)
            rows.append((defence.key, defence.name, risk, *_figures(found, risk), *cost))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _exposure(curves: Iterable[pd.DataFrame]) -> list[str]:
    """The exposure of the canaries that were planted most often, if any was measured."""
    names = {name for curve in curves for name in curve["metric"] if name.startswith("exposure:")}
    copies = {int(name.partition(":")[2]) for name in names}
    return [f"exposure:{max(copies)}"] if copies else []


def _seeds(curve: pd.DataFrame | None) -> int:
    return 0 if curve is None or curve.empty else int(curve["seeds"].max())


def _figures(curve: pd.DataFrame | None, risk: str) -> list[float]:
    """Risk, control and base with intervals, perplexity with its interval and the base's, and known words."""
    wanted = [(risk, arm) for arm in ("run", "heldout", "base")] + [(UTILITY, "run")]
    figures = [value for metric, arm in wanted for value in _at(curve, metric, arm)]
    return [*figures, _at(curve, UTILITY, "base")[0], _at(curve, WORDS, "run")[0]]


def _at(curve: pd.DataFrame | None, metric: str, arm: str) -> tuple[float, float, float]:
    rows = None if curve is None else curve[(curve["metric"] == metric) & (curve["arm"] == arm)]
    if rows is None or rows.empty:
        return math.nan, math.nan, math.nan
    row = rows.iloc[0]
    return float(row["value"]), float(row["low"]), float(row["high"])


# From existing runs --------------------------------------------------------------------------------------------------


def measured(lineup: Sequence[Defence], workspace: Workspace, detector: Detector | None = None) -> pd.DataFrame:
    """`compare` for the runs in the workspace; `detector` is that of the output filter (None: the cohort's)."""
    every = workspace.runs()
    chosen = {defence.key: defence.runs(every) for defence in lineup}
    described = queries.metrics(workspace, {run.id for runs in chosen.values() for run in runs})
    metrics, seconds, tried, through = {}, {}, {}, None
    for defence in lineup:
        runs = chosen[defence.key]
        if not runs:
            continue
        seconds[defence.key] = fmean(float(run.table("history")["seconds"].iloc[-1]) for run in runs)
        own = described[described["run_id"].isin([run.id for run in runs])]
        if defence.filtered:
            written = [run for run in runs if not run.figures_only]  # a filter needs the texts
            tried[defence.key] = len(written)
            parts = [own[~own["run_id"].isin([run.id for run in written]) & own["metric"].map(_unfiltered)]]
            if written:
                through = through or FilteredMetrics.of(workspace, defence.spec, detector)
                parts += [through.metrics(run) for run in written]
            own = pd.concat(parts, ignore_index=True)
        metrics[defence.key] = own
    return compare(lineup, metrics, seconds, tried)


def _unfiltered(metric: str) -> bool:
    """Whether a filter leaves this figure as it is; these alone are taken from runs without stored texts."""
    return metric in (UTILITY, WORDS, "auc_loss") or metric.startswith("exposure:")


@dataclass(frozen=True)
class FilteredMetrics:
    """The output filter of a cohort, ready for its runs: a detector and known values, with the prompt in view."""

    corpus: Corpus
    index: PhiIndex
    through: OutputFilter
    base_hits: pd.DataFrame

    @classmethod
    def of(cls, workspace: Workspace, spec: RunSpec, detector: Detector | None = None) -> FilteredMetrics:
        """The filter for the cohort of `spec`, with the hits that pass it in what the base model writes."""
        corpus, base = workspace.corpus(spec.corpus, store=False), workspace.control(spec)
        index, through = index_of(corpus), filters(corpus, detector)[FILTER]
        return cls(corpus, index, through, hits_after(base.table("generations"), base.table("hits"), through, index))

    def metrics(self, run: Run) -> pd.DataFrame:
        """The run's filtered metrics with its settings, in the form of `core.runs.queries.metrics`."""
        generations = run.table("generations")
        hits = hits_after(generations, run.table("hits"), self.through, self.index)
        after = filtered_metrics(run.metrics, generations, hits, self.base_hits, corpus=self.corpus)
        return queries.settings([run]).merge(after, how="cross")
