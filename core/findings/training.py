"""Which runs a claim needs, training those that are missing, and how long all of that takes.

Training goes through `core.demo.training`: a run that was interrupted goes on from its checkpoint, and two processes
share the work. Shadow models are trained by `core.pipeline.shadows`, which keeps each that is finished. Tables that
no attack writes come from a run's weights (`core.findings.from_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory

from core.demo.plan import Planned, estimated_seconds
from core.demo.training import train_missing
from core.demo.work_left import WorkLeft
from core.findings.after_training import Attacks, ShadowModels, Tables, Task, work_off
from core.findings.claim import Claim
from core.findings.from_weights.tables import MEASUREMENTS
from core.findings.judging import needed
from core.findings.labelled_abstracts import labelled_abstracts
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.models.shipped_bases import shipped_folder
from core.pipeline.full_audit import SUMMARY
from core.pipeline.progress_lines import Say
from core.pipeline.shadows import folder_name
from core.runs.store import Workspace
from core.spec import RunSpec


@dataclass(frozen=True)
class State:
    """One run that the claims need, and whether everything they read from it is there.

    `seconds` estimates what is missing on one slow core: training and quick audit of the run, its shadow models, tables
    from its weights, and attacks as far as their time is recorded with the shipped run; 0 if all is there, and None
    for models from a hub, which are of any size.
    """

    need: Need
    there: bool
    seconds: float | None
    shadows: int = 0  # shadow models that are missing
    tables: tuple[str, ...] = ()  # from the run's weights, that are missing


def states(claims: Sequence[Claim], runs: StoredRuns) -> list[State]:
    """Every run that these claims need, with its state. Shadow models that several runs share are counted once."""
    found, counted = [], set()
    needs = needed(claims)
    attacks = {one.spec.run_id: one.seconds for one in _attacks([need for need in needs if _lacks_the_run(need, runs)])}
    for need in needs:
        there, shared = runs.has(need), folder_name(need.spec)
        shadows = 0 if shared in counted else runs.shadows_missing(need)
        counted |= {shared} if shadows else set()
        tables = tuple(runs.unmeasured(need))
        seconds = estimated_seconds(need.spec) if _lacks_the_run(need, runs) else 0.0
        seconds += ShadowModels(need.spec, shadows).seconds + Tables(need.spec, tables).seconds
        seconds += attacks.pop(need.spec.run_id, 0.0)
        found.append(State(need, there, seconds if need.spec.model.shipped or there else None, shadows, tables))
    return found


def _lacks_the_run(need: Need, runs: StoredRuns) -> bool:
    """Whether the run has to be trained: it is not there, or lacks tables or the weights that others are made from."""
    run = runs.find(need.spec)
    return not runs.has(need.of_the_run()) or (run is not None and bool(runs.unmeasured(need)) and not run.has_model)


def train(claims: Sequence[Claim], workspace: Workspace, say: Say, *, processes: int = 1) -> None:
    """Train what these claims miss, and attack what has to be attacked. Finished runs and attacks are kept.

    A shipped run without the tables or weights that a claim needs is trained again in the data folder. Several
    processes work on as many runs at a time, the longest first; then `say` has to be a function that can be pickled.

    Raises:
        ValueError: Some runs failed; the message names them.
    """
    here, runs = Workspace(workspace.root, shared=()), StoredRuns(workspace)
    missing = _possible([one for one in states(claims, runs) if not one.there], here, say)
    needs = [one.need for one in missing if _lacks_the_run(one.need, runs)]
    rows = [Planned("findings", need.spec, "missing", _left(here, need)) for need in needs]
    later: list[Task] = [
        *(ShadowModels(one.need.spec, one.shadows) for one in missing if one.shadows),
        *_attacks(needs),
        *(Tables(one.need.spec, one.tables) for one in missing if one.tables),
    ]
    if processes > 1:  # so that no long one is left when the others are done
        rows.sort(key=lambda row: -row.seconds)
        later.sort(key=lambda task: -task.seconds)
    left = WorkLeft([row.seconds for row in rows] + [task.seconds for task in later])
    try:
        train_missing(here, rows, say=say, left=left, processes=processes)
    finally:  # one run that failed does not keep the others from being attacked
        work_off(later, workspace, say, left, processes)


def _possible(missing: Sequence[State], here: Workspace, say: Say) -> list[State]:
    """Those that need no public text or base model that lacks here."""
    found = list(missing)
    for lacks, said in (
        (
            _lacks_notes,
            "The public reports are not in {}, so {} on them {} left out. Give their file with --public-notes.",
        ),
        (
            _lacks_abstracts,
            "The labelled abstracts are not in {}, so {} that should read them {} left out. Give their "
            "folder with --labelled.",
        ),
        (
            _lacks_base,
            "Larger base models are not shipped, so {1} that should start from them {2} left out. Make them first with "
            "`python -m core pretrain --size small`.",
        ),
    ):
        kept = [one for one in found if not lacks(one, here)]
        if lacking := len(found) - len(kept):
            runs, verb = ("1 run", "is") if lacking == 1 else (f"{lacking} runs", "are")
            say(said.format(here.root, runs, verb))
        found = kept
    return found


def _lacks_notes(state: State, here: Workspace) -> bool:
    corpus = state.need.spec.corpus
    return corpus.imported is not None and here.corpus_folder(corpus) is None


def _lacks_abstracts(state: State, here: Workspace) -> bool:
    return any(MEASUREMENTS[name].of_abstracts for name in state.tables) and not labelled_abstracts(here)


def _lacks_base(state: State, here: Workspace) -> bool:
    model = state.need.spec.model
    return model.shipped and not (shipped_folder(model) / "config.json").exists()


def _left(here: Workspace, need: Need) -> float:
    return 0.0 if here.find(need.spec) is not None else estimated_seconds(need.spec)


def _attacks(needs: Sequence[Need]) -> list[Attacks]:
    """The attacks that each run has to get: all of them, if a need names a summary and no attack."""
    specs = {need.spec.run_id: need.spec for need in needs if need.audit}
    found = []
    for run_id, spec in specs.items():
        named = [[one for one in need.audit if not one.startswith(SUMMARY)] for need in needs if _audits(need, run_id)]
        found.append(Attacks(spec, tuple(dict.fromkeys(chain(*named))) if all(named) else None))
    return found


def _audits(need: Need, run_id: str) -> bool:
    return bool(need.audit) and need.spec.run_id == run_id


def within(claims: Sequence[Claim], runs: StoredRuns, seconds: float) -> list[Claim]:
    """Those of the claims that can be judged after an estimated `seconds` of one core.

    As long as all of them take more, the claims that read one run are left out: of that run which saves most time for
    each claim that is lost. Those that fit nevertheless are taken back. A model from a hub counts as nothing, because
    its time is unknown.
    """
    times = {one.need.spec: one.seconds or 0.0 for one in states(claims, runs)}
    kept = list(claims)
    while _together(kept, times) > seconds:
        read = dict.fromkeys(need.spec for claim in kept for need in claim.needs)
        without = {spec: [claim for claim in kept if all(need.spec != spec for need in claim.needs)] for spec in read}
        whole, count = _together(kept, times), len(kept)
        kept = max(without.values(), key=lambda rest: (whole - _together(rest, times)) / (count - len(rest)))
    for claim in claims:
        if claim not in kept and _together([*kept, claim], times) <= seconds:
            kept.append(claim)
    return [claim for claim in claims if claim in kept]


def _together(claims: Sequence[Claim], times: Mapping[RunSpec, float]) -> float:
    """Seconds of all runs that these claims read."""
    return sum(times[spec] for spec in {need.spec for claim in claims for need in claim.needs})


def hours_from_nothing(claims: Sequence[Claim]) -> float:
    """Estimated hours for every run, shadow model, attack and table of these claims on one slow core."""
    with TemporaryDirectory() as empty:
        every = states(claims, StoredRuns(Workspace(empty, shared=())))
    return sum(one.seconds or 0.0 for one in every) / 3_600


def within_from_nothing(claims: Sequence[Claim], hours: float) -> list[Claim]:
    """`within` for a data folder in which nothing is, and hours of one slow core."""
    with TemporaryDirectory() as empty:
        return within(claims, StoredRuns(Workspace(empty, shared=())), 3_600 * hours)
