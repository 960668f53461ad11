"""Commands that train runs: `train` and `sweep`."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.settings import (
    GRID,
    SIGMAS,
    USUAL_DELTA,
    CommonSettings,
    epsilon_value,
    fitting,
    held_limit,
    model_spec,
    noise_source,
    noise_targets,
    refuse_beside_grid,
    risk_limit,
    stored_corpus,
    vocabulary_spec,
    weight_of,
)
from core.common.formatting import REPRODUCIBLE, figure_text
from core.spec import CLINICAL, PrivacySpec, RunSpec, TrainingSpec

if TYPE_CHECKING:
    from core.jobs.engine import Engine
    from core.runs.run import Run
    from core.runs.store import Workspace


Model = Annotated[str, typer.Option("--model", help="gpt2, distilbert or bert.")]
Size = Annotated[
    str, typer.Option(help="Size of the base model: tiny (shipped), micro (shipped from clinical), or small.")
]
Base = Annotated[str, typer.Option(help="Model to start from: clinical or assets (shipped), a folder, or a hub name.")]
Cohort = Annotated[
    str, typer.Option("--corpus", help="A preset (classroom, study, …), or a folder written by `corpus --out`.")
]
Delta = Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy.")]
Unit = Annotated[str, typer.Option(help="What is protected: note or patient.")]
Accountant = Annotated[str, typer.Option(help="prv, rdp or gdp.")]
Norm = Annotated[float, typer.Option("--max-grad-norm", help="Clipping norm C, at least 1e-6.")]
Epochs = Annotated[int | None, typer.Option(help="Number of epochs. Default: by the measured recipe.")]
Batch = Annotated[
    int | None, typer.Option("--batch-size", help="Expected number of notes per step. Default: by the recipe.")
]
Rate = Annotated[float | None, typer.Option("--learning-rate", help="Learning rate. Default: by the recipe.")]
MaskShare = Annotated[
    float | None,
    typer.Option("--mask-share", help="DistilBERT, BERT: share of tokens hidden in training. Default: by the recipe."),
]
Masks = Annotated[
    int | None,
    typer.Option("--masks", help="DistilBERT, BERT: masks of a note averaged before clipping. Default: by the recipe."),
]
Catches = Annotated[
    float | None,
    typer.Option(
        "--attacker-catches",
        metavar="PERCENT",
        help="Choose σ so that no attacker catches more than this percentage of the training units, …",
    ),
]
Accused = Annotated[
    float | None,
    typer.Option(
        "--falsely-accused", metavar="PERCENT", help="… when accusing this percentage of others by mistake. Default: 1."
    ),
]
RightGuesses = Annotated[
    float | None,
    typer.Option(
        "--right-guesses",
        metavar="OF_100",
        help="Choose σ so that of 100 guesses “in or out”, at even odds, at most this many are right on average.",
    ),
]
SecretNoise = Annotated[
    bool,
    typer.Option(
        "--secret-noise",
        help="Noise and samples from a secret key that is destroyed, so that ε holds. Always on for imported notes.",
    ),
]
Samples = Annotated[
    int | None, typer.Option("--samples-per-prompt", help="Size of the quick audit (14 prompts × this).")
]


def train(
    model: Model = "gpt2",
    size: Size = "tiny",
    base: Base = CLINICAL,
    corpus: Cohort = "classroom",
    epsilon: Annotated[str | None, typer.Option(help="Target ε; inf, or omitted: no privacy.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise multiplier σ, instead of a target ε.")] = None,
    attacker_catches: Catches = None,
    falsely_accused: Accused = None,
    right_guesses: RightGuesses = None,
    unit: Unit = "note",
    delta: Delta = USUAL_DELTA,
    accountant: Accountant = "prv",
    max_grad_norm: Norm = 1.0,
    epochs: Epochs = None,
    batch_size: Batch = None,
    learning_rate: Rate = None,
    mask_share: MaskShare = None,
    masks: Masks = None,
    weighting: Annotated[
        str | None, typer.Option(help="Without ε: what counts alike in training, note (default) or token.")
    ] = None,
    clip_norm: Annotated[
        float | None,
        typer.Option(
            "--clip-norm",
            help="Without ε: sample and clip to this norm (at least 1e-6) as the private run of ε = 8, without noise.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
    secret_noise: SecretNoise = False,
    vocabulary_epsilon: Annotated[
        str | None, typer.Option(help="ε of a vocabulary from the notes; inf: without noise.")
    ] = None,
    vocabulary_delta: Annotated[float | None, typer.Option(help="δ of this vocabulary. Default: 1e-6.")] = None,
    vocabulary_words: Annotated[
        int | None, typer.Option(help="Different words counted per note or patient. Default: 10.")
    ] = None,
    vocabulary_pieces: Annotated[int | None, typer.Option(help="Maximum new entries. Default: 512.")] = None,
    vocabulary_noise: Annotated[str | None, typer.Option(help="gaussian (default) or laplace.")] = None,
    samples_per_prompt: Samples = None,
    sigma_grid: Annotated[
        bool,
        typer.Option(
            "--sigma-grid",
            help=f"The table of Jagannatha 2021: a run for each σ of {SIGMAS}, clipping norm 1, δ = 1e-6, 3 epochs.",
        ),
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on a cohort, with or without privacy, and audit it. The same settings are never trained twice."""
    with errors_as_sentences():
        from core.runs.store import Workspace

        if sigma_grid:
            decided = (epsilon, noise_multiplier, attacker_catches, falsely_accused, right_guesses, epochs, clip_norm)
            refuse_beside_grid(decided, delta, max_grad_norm)
        workspace = Workspace(data)
        cohort, target = stored_corpus(corpus, workspace), epsilon_value(epsilon)
        limit = risk_limit(attacker_catches, falsely_accused, right_guesses)
        if limit is not None and target is not None:
            raise BadInput("Give either --epsilon or a limit on the attacker, not both: each determines the noise.")
        private = target is not None or noise_multiplier is not None or limit is not None or sigma_grid
        given = {
            "delta": delta,
            "max_grad_norm": max_grad_norm,
            "unit": unit,
            "accountant": accountant,
            "noise_source": noise_source(secret_noise, cohort, private=private),
        }
        public = model_spec(model, size, base)
        words = vocabulary_spec(
            vocabulary_epsilon,
            delta=vocabulary_delta,
            words=vocabulary_words,
            pieces=vocabulary_pieces,
            noise=vocabulary_noise,
        )
        changes: dict[str, object] = {"batch_size": batch_size, "learning_rate": learning_rate}
        changes |= {"mask_share": mask_share, "masks": masks, "clip_norm": clip_norm}
        changes |= {"weighting": weight_of(weighting)}
        common = CommonSettings(cohort, public, epochs, changes, samples_per_prompt, words)
        if sigma_grid:
            specs = checked(workspace, _grid(common, given, seed), batch_given=batch_size is not None)
            _answer_all(_in_turn(workspace, specs), as_json=as_json)
            return
        settings = partial(common.training, seed=seed)
        if limit is not None and noise_multiplier is None:
            privacy, training = held_limit(limit, given, settings, workspace.corpus(cohort, store=False), batch_size)
        else:
            privacy = PrivacySpec(target_epsilon=target, noise_multiplier=noise_multiplier, risk_limit=limit, **given)
            training = settings(privacy)
        (spec,) = checked(workspace, [common.run(privacy, training)], batch_given=batch_size is not None)
        run = _execute(spec, workspace)
        answer(described(run), _summary_text(run), as_json=as_json)


def _grid(common: CommonSettings, given: Mapping[str, Any], seed: int) -> list[RunSpec]:
    """The runs of `--sigma-grid`, one for each σ. δ, clipping norm and epochs are the grid's, whatever was given."""
    common = replace(common, epochs=int(GRID["epochs"]))
    given = {**given, "delta": GRID["delta"], "max_grad_norm": GRID["max_grad_norm"]}
    noises = [PrivacySpec(**one, **given) for one in noise_targets(None, SIGMAS)]
    return [common.run(privacy, common.training(privacy, seed)) for privacy in noises]


def sweep(
    epsilon: Annotated[str | None, typer.Option(help="Comma-separated values of ε; inf = no privacy.")] = None,
    sigma: Annotated[
        str | None,
        typer.Option(help=f"Comma-separated noise multipliers σ, instead of or beside ε. Jagannatha 2021: {SIGMAS}."),
    ] = None,
    model: Model = "gpt2",
    size: Size = "tiny",
    base: Base = CLINICAL,
    corpus: Cohort = "classroom",
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs per ε, with seeds 0, 1, …")] = 1,
    unit: Unit = "note",
    delta: Delta = USUAL_DELTA,
    accountant: Accountant = "prv",
    secret_noise: SecretNoise = False,
    epochs: Epochs = None,
    batch_size: Batch = None,
    mask_share: MaskShare = None,
    masks: Masks = None,
    clip_norm: Annotated[
        float | None,
        typer.Option(
            "--clip-norm",
            help="Clipping norm C of private runs, at least 1e-6; beside each, also make the same run without noise.",
        ),
    ] = None,
    samples_per_prompt: Samples = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            envvar="PHILAB_SCHEDULER",
            help="Address of a dask scheduler (tcp://host:port); its workers share the data folder, or PHILAB_STORE.",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Train a model at several values of ε or σ, and seeds, for the trade-off page."""
    with errors_as_sentences():
        from core.runs.store import Workspace

        targets = noise_targets(epsilon, sigma)
        workspace = Workspace(data)
        cohort, start = stored_corpus(corpus, workspace), model_spec(model, size, base)
        changes = {"batch_size": batch_size, "mask_share": mask_share, "masks": masks}
        common = CommonSettings(cohort, start, epochs, changes, samples_per_prompt)
        TrainingSpec(clip_norm=clip_norm)  # refuses a norm that is too small, by the name that it has here
        norm = GRID["max_grad_norm"] if clip_norm is None else clip_norm
        given = {"delta": delta, "max_grad_norm": norm, "unit": unit, "accountant": accountant}
        specs = []
        for target in targets:
            source = noise_source(secret_noise, cohort, private=any(target.values()))
            privacy = PrivacySpec(**target, **given, noise_source=source)
            for seed in range(seeds):
                spec = common.run(privacy, common.training(privacy, seed))
                specs += [spec, spec.clipped_spec()] if clip_norm is not None and privacy.private else [spec]
        specs = checked(workspace, specs, batch_given=batch_size is not None)
        make = (
            _by_scheduler(workspace, scheduler.strip())
            if scheduler and scheduler.strip()
            else partial(_in_turn, workspace)
        )
        runs = make(list(dict.fromkeys(specs)))
        _answer_all(runs, as_json=as_json)


def checked(workspace: Workspace, specs: list[RunSpec], *, batch_given: bool) -> list[RunSpec]:
    """The specs, fitted to their cohort. Raises ValueError for what cannot be trained, before anything is written."""
    from core.models.build import load
    from core.models.dp_vocabulary import check_extensible
    from core.training.plan import check, plan

    corpus = workspace.corpus(specs[0].corpus, store=False)
    lm = load(specs[0].model)  # raises ModelNotFound now and not after minutes
    if specs[0].vocabulary is not None:
        check_extensible(lm)
    fitted = []
    for spec in specs:
        notes = corpus.training_notes(spec.note_cap)
        spec = fitting(spec, len(notes), batch_given)
        if not spec.is_base:
            sizes = {"notes": len(notes), "patients": notes["patient_id"].nunique()}
            for warning in check(spec.privacy, spec.training, **sizes, vocabulary=spec.vocabulary):
                say(f"Warning: {warning}")
            if spec.privacy.risk_limit is not None:  # refuse a σ that does not hold it before anything is trained
                plan(spec.privacy, spec.training, **sizes)
        fitted.append(spec)
    return fitted


def _execute(spec: RunSpec, workspace: Workspace, *, wait: bool = True) -> Run:
    from core.pipeline.progress_lines import training_lines
    from core.pipeline.training_run import execute

    return execute(spec, workspace, on_event=training_lines(say, stage=f"{spec.run_id}: {{}}"), wait=wait)


def _in_turn(workspace: Workspace, specs: list[RunSpec]) -> list[Run]:
    """Make the runs in order, those that another process or machine is making last."""
    from core.pipeline.training_run import RunBusy

    made: dict[str, Run] = {}
    for wait in (False, True):
        for spec in specs:
            if spec.run_id not in made:
                with contextlib.suppress(RunBusy):
                    made[spec.run_id] = _execute(spec, workspace, wait=wait)
    return [made[spec.run_id] for spec in specs]


def _by_scheduler(workspace: Workspace, address: str) -> Callable[[list[RunSpec]], list[Run]]:
    """A function that makes runs on the workers of a dask scheduler. Raises BadInput for an invalid address."""
    from distributed.comm.addressing import get_address_host_port

    from core.jobs.engine import Engine

    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError):
        raise BadInput(f"--scheduler: “{address}” is not an address such as tcp://127.0.0.1:8786.") from None
    for name in ("distributed", "tornado", "asyncio"):  # a lost scheduler is reported in one sentence instead
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    def make(specs: list[RunSpec]) -> list[Run]:
        engine = Engine.connect(address, workspace)
        try:
            for spec in specs:
                engine.submit(spec)
            return _awaited(engine, specs)
        finally:
            engine.close()

    return make


def _awaited(engine: Engine, specs: list[RunSpec]) -> list[Run]:
    """The runs when all are done. A lost scheduler interrupts them: they are submitted again, and wait for it.

    Raises:
        RuntimeError: A run failed or was cancelled.
    """
    pause = threading.Event()
    made: dict[str, Run] = {}
    while len(made) < len(specs):
        for spec in specs:
            if spec.run_id in made or (job := engine.status(spec.run_id)).active:
                continue
            if job.state == "interrupted":
                say(f"{spec.run_id}: interrupted. It resumes as soon as the scheduler has a worker for it.")
                engine.submit(spec)
                continue
            if job.state != "done":
                raise RuntimeError(f"Run {spec.run_id} is {job.state}: {job.message or 'its worker is gone.'}")
            say(f"{spec.run_id}: done")
            made[spec.run_id] = engine.run(spec.run_id)
        pause.wait(0.5)
    return [made[spec.run_id] for spec in specs]


def described(run: Run) -> dict[str, Any]:
    """A run as JSON: id, folder, spec, the ε that was spent, metrics."""
    mechanism = run.privacy
    return {
        "run": run.id,
        "folder": str(run.folder),
        "shipped": run.shipped,
        "epsilon": mechanism.epsilon() if mechanism else (0.0 if run.spec.is_base else float("inf")),
        "noise_source": mechanism.noise_source if mechanism else None,
        "spec": run.spec.model_dump(mode="json"),
        "metrics": run.metrics.to_dict("records"),
    }


def _answer_all(runs: Sequence[Run], *, as_json: bool) -> None:
    answer([described(run) for run in runs], "\n\n".join(map(_summary_text, runs)), as_json=as_json)


def _summary_text(run: Run) -> str:
    public = run.noise_source == "public seed"
    lines = [f"{run.id}  {run.folder}{f'  ({REPRODUCIBLE})' if public else ''}"]
    for row in run.metrics.itertuples():
        between = "no interval" if math.isnan(row.low) else f"[{figure_text(row.low)}, {figure_text(row.high)}]"
        lines.append(f"  {row.metric:<34} {row.arm:<8} {figure_text(row.value):>10}   {between}  n={row.n}")
    return "\n".join(lines)
