"""Choosing a run: its name in words, always with the unit of ε, and which two runs make a fair pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.common.formatting import promised_text
from core.evaluation.memorisation.left_out import counts_own_values
from core.evaluation.wording import left_out_sentence, shared_values_sentence
from core.jobs.trained import TrainedRun, trained_runs
from core.runs.listing import OfRuns
from core.runs.run import Run
from core.runs.tables import TableMissing
from core.spec import CLINICAL, CORPUS_PRESETS, OPENING, SHIPPED_BASES, RunSpec
from core.spec.model_names import MODEL_NAMES
from pages.parts.pickers import gone_models, hospitals, linked_choice
from pages.parts.pickers.cohort_picker import hospital_name
from pages.parts.session import owner, resources

OWN = "own_run"  # in the session: the id of the run that it submitted last


def privacy_label(run: Run) -> str:
    """`no privacy`, `ε = 8 per note · DP`, or that it is the public model; a given σ is shown with its ε.

    A control that clips as DP does is `same training without noise (no privacy)`.
    """
    privacy = run.spec.privacy
    if run.spec.is_base:
        return "public model, not trained on notes"
    if not privacy.private:
        clipped = run.spec.training.clip_norm is not None
        return "same training without noise (no privacy)" if clipped else "no privacy"
    if run.spec.vocabulary is not None or privacy.target_epsilon is not None:
        assert run.epsilon is not None  # a private run
        words = "" if run.spec.vocabulary is None else ", vocabulary included"
        return f"ε = {promised_text(run.epsilon)} per {privacy.unit} · DP{words}"
    spent = _epsilon_spent(run)
    epsilon = "ε not recorded" if spent is None else f"ε = {promised_text(spent)} per {privacy.unit}"
    limit = "" if privacy.risk_limit is None else f", {privacy.risk_limit.label}"
    return f"{epsilon} · DP, σ = {privacy.noise_multiplier:.3g}{limit}"


def _epsilon_spent(run: Run) -> float | None:
    """ε after the last step, as recorded by the trainer; None if it was not recorded."""
    try:
        spent = run.table("history")["epsilon"].dropna()
    except TableMissing:
        return None
    return float(spent.iloc[-1]) if len(spent) else None


def label(run: Run, noisy: Sequence[Run] = ()) -> str:
    """A run's name in words: model, privacy, and what differs from the shipped runs that the pages open with.

    `noisy` are the private runs that a control without noise belongs to, if any are known: it is named after their ε.
    """
    spec = run.spec
    parts = [MODEL_NAMES[spec.model.kind], _control_label(noisy) if noisy else privacy_label(run)]
    if spec.model.size != "tiny":
        parts.append(spec.model.size)
    if spec.model.base != CLINICAL:
        parts.append(f"base: {SHIPPED_BASES.get(spec.model.base, spec.model.base)}")
    if spec.corpus != CORPUS_PRESETS[OPENING]:
        parts.append(hospital_name(spec.corpus))
    if spec.defence is not None:
        parts.append(spec.defence.label)
    if spec.without is not None:
        parts.append(f"without {', '.join(spec.without)}")
    if spec.vocabulary is not None and not spec.privacy.private:
        parts.append(spec.vocabulary.label)
    if spec.privacy.noise_source == "secret":
        parts.append("secret noise")
    if spec.training.seed:
        parts.append(f"seed {spec.training.seed}")
    if not run.shipped:
        parts.append("not audited yet" if isinstance(run, TrainedRun) else "made here")
    if run.figures_only:
        parts.append("figures only")
    return " · ".join(parts)


def _control_label(noisy: Sequence[Run]) -> str:
    """`as for ε = 8 and 3 per note, but without noise (no privacy)`."""
    epsilons = [promised_text(epsilon) for epsilon in sorted({run.epsilon or 0.0 for run in noisy}, reverse=True)]
    return f"as for ε = {' and '.join(epsilons)} per {noisy[0].spec.privacy.unit}, but without noise (no privacy)"


def labels(runs: Sequence[Run]) -> dict[str, str]:
    """The label of every run by its id; equal labels get the id at their end. Do not modify the result."""
    return _labels(runs)


def _labelled(runs: Sequence[Run]) -> dict[str, str]:
    noisy: dict[str, list[Run]] = {}
    for run in runs:
        if (control := run.spec.clipped_id) is not None:
            noisy.setdefault(control, []).append(run)
    named = {run.id: label(run, noisy.get(run.spec.run_id, ())) for run in runs}
    times = Counter(named.values())
    return {run_id: name if times[name] == 1 else f"{name} · {run_id}" for run_id, name in named.items()}


_labels = OfRuns(_labelled, keep=16)  # every box of runs asks at every click


def metrics(run: Run) -> pd.DataFrame:
    """A run's metrics table, read once and shared: do not modify it. Raises TableMissing."""
    return _metrics(str(run.folder), run)


@resources.cached_object(max_entries=128, show_spinner=False)
def _metrics(folder: str, _run: Run) -> pd.DataFrame:
    return _run.metrics


def shared_values_caption(run: Run) -> str:
    """Which identifiers the run's stored figures do not count, and why; empty if they count all."""
    shared = resources.shared_values(run.spec.corpus, owner.workspace())
    if not shared or not counts_own_values(metrics(run)):
        return ""
    return shared_values_sentence(shared)


def namesakes_caption(run: Run) -> str:
    """Who does not count in figures of full names, and why; empty if all do. The figures must be of this version."""
    shared = resources.shared_values(run.spec.corpus, owner.workspace())
    people = {patient_id for patient_id, field in shared if field == "full_name"} - set(run.spec.without or ())
    if not people:
        return ""
    splits = resources.patients(run.spec.corpus, owner.workspace())["split"]
    counts = splits[splits.index.isin(people)].value_counts()
    return left_out_sentence(int(counts.get("member", 0)), int(counts.get("heldout", 0)))


def promptable(*, unaudited: bool = False) -> list[Run]:
    """Every run that keeps its weights: shipped ones first, then the newest.

    A public model is stored once for each hospital, since its leaks are counted there. It is offered only beside a run
    that was trained from it on that hospital. With `unaudited`, also the runs whose training is over while their audit
    goes on, last.
    """
    trained = trained_runs(owner.workspace()) if unaudited else []  # first: a run that ends meanwhile is found below
    found = sorted((run for run in owner.workspace().runs() if run.has_model), key=lambda run: not run.shipped)
    there = {run.id for run in found}
    every = [*found, *(run for run in trained if run.id not in there)]
    bases = {run.spec.base_spec().run_id for run in every if not run.spec.is_base}
    beside = [run for run in every if not run.spec.is_base or run.spec.run_id in bases]
    return beside or every


def default_pair(runs: Sequence[Run]) -> tuple[Run | None, Run | None]:
    """A run without privacy, and the private run most like it: same model and cohort, ε closest to 8."""
    open_runs = [run for run in runs if not run.spec.privacy.private and not run.spec.is_base]
    open_runs = [run for run in open_runs if run.spec.training.clip_norm is None] or open_runs
    open_runs = [run for run in open_runs if not run.spec.on_other_notes and run.spec.vocabulary is None] or open_runs
    private = [run for run in runs if run.spec.privacy.private]
    left = next(iter(sorted(open_runs, key=lambda run: run.spec.model.kind != "gpt2")), None)
    if left is None:
        return (private[0], None) if private else (runs[0] if runs else None, None)
    return left, _most_like(left, private)


def _most_like(run: Run, others: Sequence[Run]) -> Run | None:
    """The run among the others to compare this one with: same model, same notes, nothing else changed, ε near 8."""

    def distance(other: Run) -> tuple:
        spec = other.spec
        unlike: tuple[bool, ...] = (spec.model != run.spec.model, spec.corpus != run.spec.corpus, spec.on_other_notes)
        unlike += (spec.vocabulary is not None, spec.training.clip_norm is not None)
        return (*unlike, abs((spec.privacy.target_epsilon or float("inf")) - 8.0))

    return min(others, key=distance, default=None)


def own(runs: Sequence[Run]) -> Run | None:
    """The run that this session trained last, if it is among `runs`: pages open with it."""
    return next((run for run in runs if run.id == st.session_state.get(OWN)), None)


def opening_pair(runs: Sequence[Run]) -> tuple[Run | None, Run | None]:
    """The run that this session trained last beside the one most like it; without one, `default_pair`."""
    mine = own(runs)
    if mine is None:
        return default_pair(runs)
    private = mine.spec.privacy.private
    other = _most_like(mine, [run for run in runs if run.spec.privacy.private != private and not run.spec.is_base])
    return (other, mine) if private and other is not None else (mine, other)


def opening_pair_of_one_cohort(runs: Sequence[Run]) -> tuple[Run | None, Run | None]:
    """`opening_pair` among the runs of one cohort: that of the run trained last here, or of the first of the pair."""
    first = own(runs) or default_pair(runs)[0]
    return opening_pair([run for run in runs if first is not None and run.spec.corpus == first.spec.corpus])


def side_of(spec: RunSpec, run_id: str) -> dict[str, str]:
    """The link that opens a run in Playground on its side: private runs stand on the right, beside one without privacy.

    The page chooses the other side.
    """
    return {"right" if spec.privacy.private else "left": run_id}


def in_order(runs: Sequence[Run]) -> list[Run]:
    """The runs as a box lists them: those made here first, newest on top; then hospital by hospital.

    Within a hospital: GPT-2, DistilBERT, BERT; of each no privacy, then ε from weak to strong, then what was trained on
    changed notes, controls without noise, and the public model.
    """
    presets = list(CORPUS_PRESETS.values())

    def place(run: Run) -> tuple:
        spec = run.spec
        if not run.shipped:
            return 0, -(run.status.finished or float("inf"))
        hospital = presets.index(spec.corpus) if spec.corpus in presets else len(presets)
        changed = spec.on_other_notes or spec.vocabulary is not None
        sort = (spec.is_base, spec.training.clip_norm is not None, changed, spec.privacy.private)
        kind = list(MODEL_NAMES).index(spec.model.kind)
        place_of_hospital = (spec.corpus != CORPUS_PRESETS[OPENING], hospital, spec.corpus.digest())
        by_privacy = (*sort, -(run.epsilon or 0.0), spec.privacy.unit, spec.training.seed)
        return 1, *place_of_hospital, spec.model.base != CLINICAL, kind, *by_privacy

    return sorted(runs, key=place)


def audited_first(runs: Sequence[Run]) -> list[Run]:
    """All runs: those with attacks of a full audit first, then shipped ones; the public base models last."""
    workspace = owner.workspace()
    begun = workspace.audited()
    there = {run.id for run in runs if run.id in begun and workspace.audit(run.id).outcomes()}
    return sorted(runs, key=lambda run: (run.spec.is_base, run.id not in there, not run.shipped))


def with_tables(runs: Sequence[Run]) -> list[Run]:
    """The runs with all their tables; `say_left_out` says how many others there are."""
    return [run for run in runs if not run.figures_only]


def say_left_out() -> None:
    """A caption: how many runs have figures only and are not offered on this page."""
    left = sum(run.figures_only for run in owner.workspace().runs())
    if left:
        st.caption(
            f"Not offered here: {left:,} {'run' if left == 1 else 'runs'} with figures only. Their scores and texts "
            "were left out to keep the software small. Train one of them to get all its tables."
        )


def pick_two(runs: Sequence[Run]) -> dict[str, Run]:
    """Two select boxes, one below the other.

    Returns:
        The chosen runs by a short name that distinguishes them; one entry if both boxes have the same run.
    """
    first, second = opening_pair(runs)
    one = pick("First model", runs, first, key="left")
    two = pick("Second model", runs, second or runs[-1], key="right")
    chosen = [one] if one.id == two.id else [one, two]
    if said := hospitals.differ(chosen):
        st.caption(said)
    return dict(zip(short_names(chosen), chosen, strict=True))


def short_names(chosen: Sequence[Run]) -> list[str]:
    """A name for each run: its privacy, what was changed in its notes, and what else is needed to distinguish them.

    `no privacy, deduplicated`; before it the model where they differ, behind it the first of size, public text,
    hospital and seed that differs, or a part of the id where nothing of these does.
    """
    names = [", ".join([privacy_label(run), *_changes(run.spec)]) for run in chosen]
    if len({run.spec.model.kind for run in chosen}) > 1:
        names = [f"{MODEL_NAMES[run.spec.model.kind]}, {name}" for run, name in zip(chosen, names, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({one})" for name, one in zip(names, _distinguished(chosen), strict=True)]
    return names


def _changes(spec: RunSpec) -> list[str]:
    """How the notes or words of a run differ from the hospital's: a defence, patients left out, its own vocabulary."""
    changes = [spec.defence.label] if spec.defence is not None else []
    if spec.without is not None:
        one = len(spec.without) == 1
        changes.append(f"without {spec.without[0]}" if one else f"without {len(spec.without)} patients")
    if spec.vocabulary is not None and not spec.privacy.private:
        changes.append(spec.vocabulary.label)
    return changes


def _distinguished(chosen: Sequence[Run]) -> list[str]:
    """What each run has that no other of these has: its size, public text, hospital or seed, else a part of its id."""
    specs = [run.spec for run in chosen]
    differences: Sequence[list[str]] = (
        [spec.model.size for spec in specs],
        [SHIPPED_BASES.get(spec.model.base, spec.model.base) for spec in specs],
        [hospital_name(spec.corpus) for spec in specs],
        [f"seed {spec.training.seed}" for spec in specs],
    )
    for values in differences:
        if len(set(values)) == len(values):
            return values
    return [run.id[-4:] for run in chosen]


def pick(title: str, runs: Sequence[Run], default: Run | None, *, key: str) -> Run:
    """A select box over `runs` (not empty). The choice is kept in the session and in the link (`?key=<run id>`).

    A name that is longer than the box is written below it.

    `bind="query-params"` would put the label into the link. Labels change when further runs appear; ids do not.
    """
    start = default or runs[0]
    runs = in_order(runs)
    ids = [run.id for run in runs]
    names, widget, last = labels(runs), f"pick_{key}", f"picked_{key}"
    asked = next((run_id for run_id in (st.query_params.get(key), st.session_state.get(last)) if run_id in ids), None)
    first = asked or start.id
    adopted = linked_choice.adopt(key, widget, ids)  # a value that is set allows no start value
    now = st.session_state.get(widget)

    def picked() -> None:
        gone_models.forget(key)
        linked_choice.share(key, widget, ids)

    chosen = st.selectbox(
        title,
        ids,
        # A browser that is slow to load the box draws it as a later run sends it: the start value must stay the value.
        index=0 if adopted else ids.index(now if now in ids else first),
        format_func=names.__getitem__,
        key=widget,
        on_change=picked,
    )
    found = runs[ids.index(chosen)] if chosen in ids else runs[ids.index(first)]
    if name := linked_choice.whole_name(names[found.id]):
        st.html(name)
    gone_models.say(key, [found], ids, names[found.id])
    if st.query_params.get(key) not in gone_models.said(key):
        linked_choice.say_missing(key, ids, names[found.id])
    linked_choice.shown(key, found.id)
    return found
