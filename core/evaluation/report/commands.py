"""The commands that reproduce the runs of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from core.attacks.membership.shadow_models import USUAL
from core.evaluation.guarantee.step_audit import stored_proofs
from core.evaluation.sweep.limits import Limits
from core.runs.audits import StoredAudit
from core.runs.ledger.totals import DELTA
from core.runs.run import Run
from core.spec import (
    CLINICAL,
    CORPUS_PRESETS,
    CorpusSpec,
    RiskLimit,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
    audit_of,
    recipe,
)
from core.spec.recipes import USUAL_MASKS

# Settings of a training for which `python -m core train` has options.
OPTIONS = ("epochs", "batch_size", "learning_rate", "seed", "mask_share", "masks", "weighting", "clip_norm")


def commands(specs: Sequence[RunSpec]) -> list[str]:
    """One command per run, in order, without repeats; a cohort that is not a preset is written to a file first."""
    lines: list[str] = []
    for spec in specs:
        lines += _cohort_file(spec.corpus)
        lines.append(command(spec))
    return list(dict.fromkeys(lines))


def command(spec: RunSpec) -> str:
    """The command that trains this run; the public base model is made as the control of another run.

    A run with secret noise cannot be repeated: its command trains one with the same settings and new noise. A spec with
    settings that the command line does not have is trained from its run's spec.json.
    """
    if spec.is_base:
        return f"# {spec.run_id} is the public base model: every run of this cohort makes it as its control"
    if not _has_options(spec):
        return (
            f"python -c 'import core.pipeline.training_run as p, core.runs.store as s, core.spec.schema as c, pathlib; "
            f'p.execute(c.read(pathlib.Path("{spec.run_id}/spec.json").read_text()).spec, '
            "s.Workspace())'"
        )
    privacy, training, usual = spec.privacy, spec.training, _recipe(spec)
    options = {
        "--model": spec.model.kind,
        "--size": None if spec.model.size == "tiny" else spec.model.size,
        "--base": None if spec.model.base == CLINICAL else _quoted(spec.model.base),
        "--corpus": _corpus_name(spec.corpus),
        "--epsilon": None if privacy.target_epsilon is None else repr(privacy.target_epsilon),
        "--noise-multiplier": None if privacy.noise_multiplier is None else repr(privacy.noise_multiplier),
        **_risk(privacy.risk_limit),
        "--unit": privacy.unit if privacy.private or training.clip_norm is not None else None,
        "--delta": repr(privacy.delta) if privacy.private else None,
        "--accountant": privacy.accountant if privacy.private else None,
        "--max-grad-norm": None if privacy.max_grad_norm == 1.0 else repr(privacy.max_grad_norm),
        "--epochs": None if training.epochs == usual.epochs else training.epochs,
        "--batch-size": training.batch_size,
        "--learning-rate": repr(training.learning_rate),
        **_masks(training, usual),
        "--weighting": training.weighting,
        "--clip-norm": None if training.clip_norm is None else repr(training.clip_norm),
        "--seed": training.seed,
        "--secret-noise": "" if privacy.noise_source == "secret" else None,
        **_vocabulary(spec.vocabulary),
        "--samples-per-prompt": None if spec.audit == audit_of(spec.corpus) else spec.audit.samples_per_prompt,
    }
    given = " ".join(f"{name} {value}".rstrip() for name, value in options.items() if value is not None)
    return f"python -m core train {given}"


def _risk(limit: RiskLimit | None) -> dict[str, str | None]:
    """The options of a limit on the attacker, in percent. σ is given beside them, so that the run's id is the same."""
    if limit is None:
        return {}
    return {
        name: None if share is None else f"{100 * share:.12g}"
        for name, share in (
            ("--attacker-catches", limit.caught),
            ("--falsely-accused", limit.accused),
            ("--right-guesses", limit.right),
        )
    }


def audit_command(run_id: str) -> str:
    """The command that runs a full audit."""
    return f"python -m core audit {run_id} --suite full"


def shadows_command(run_id: str, count: int = USUAL) -> str:
    """The command that trains shadow models like a run and attacks it with them."""
    return f"python -m core shadows {run_id}" + ("" if count == USUAL else f" --count {count}")


def prove_command(run_id: str, canaries: int = 5_000, seed: int = 0) -> str:
    """The command that trains a private run again with planted gradients."""
    return f"python -m core prove {run_id} --canaries {canaries}" + (f" --seed {seed}" if seed else "")


def report_command(
    run_ids: Sequence[str], limits: Limits | None, delta: float, subject: str | None = None, *, decided: bool = False
) -> str:
    """The command that writes this report again, once its runs and audits exist.

    A board's answers (`decided`) are the value of `decision` in the JSON, to be stored as decision.json.
    """
    words = ["python -m core report", *run_ids, "--out report.html"]
    if subject is not None:
        words.append(f"--about {subject}")
    if decided:
        words.append("--decision decision.json")
    if delta != DELTA:
        words.append(f"--delta {delta!r}")
    if limits is not None:
        words += [f"--limit {name}={limit!r}" for name, limit in limits.risks.items()]
        words.append(f"--utility {limits.utility!r}")
        if limits.use_case:
            words.append(f"--use-case {_quoted(limits.use_case)}")
    return " ".join(words)


def report_commands(
    runs: Sequence[Run],
    audits: Mapping[str, StoredAudit],
    limits: Limits | None,
    delta: float,
    subject: str | None,
    *,
    decided: bool,
) -> list[str]:
    """The commands that make the runs, all that attacked them, and a report about them again, in that order."""
    return [
        *commands([run.spec for run in runs]),
        *(line for run in runs for line in _audits(run.id, audits[run.id])),
        report_command([run.id for run in runs], limits, delta, subject, decided=decided),
    ]


def _audits(run_id: str, audit: StoredAudit) -> Iterator[str]:
    """The commands of a run's full audit, of its shadow models, and of the gradients planted in trainings like it."""
    if audit.outcomes():
        yield audit_command(run_id)
    shadows = audit.table("shadow_patients")
    if len(shadows):  # every patient is read by some of the models, and not by the others
        yield shadows_command(run_id, int((shadows["read"] + shadows["unread"]).max()))
    for proof in stored_proofs(audit).itertuples():
        yield prove_command(run_id, int(proof.canaries), int(proof.seed))


def _has_options(spec: RunSpec) -> bool:
    """Whether the options of `python -m core train` can express the whole spec."""
    if spec.corpus.imported or (not spec.privacy.private and spec.privacy.delta != 1e-5):
        return False
    own = {name: getattr(spec.training, name) for name in OPTIONS}
    own |= {name: None for name, usual in USUAL_MASKS.items() if own[name] == usual}  # so the command would leave it
    usual = _recipe(spec).model_copy(update=own)
    said = RunSpec(
        corpus=spec.corpus,
        model=spec.model,
        privacy=spec.privacy,
        training=usual,
        audit=audit_of(spec.corpus).model_copy(update={"samples_per_prompt": spec.audit.samples_per_prompt}),
        vocabulary=spec.vocabulary,
    )
    return said == spec


def _recipe(spec: RunSpec) -> TrainingSpec:
    """The settings that `python -m core train` starts from."""
    clipped = spec.training.clip_norm is not None
    notes, size = spec.corpus.training_notes, spec.model.size
    return recipe(spec.model.kind, spec.privacy, notes=notes, clipped=clipped, size=size)


def _masks(training: TrainingSpec, usual: TrainingSpec) -> dict[str, object]:
    """Options for masks other than the recipe's `usual` ones; one mask of 15 % is what None stands for."""
    options: dict[str, object] = {}
    for name, nothing in USUAL_MASKS.items():
        value = getattr(training, name)
        if value != getattr(usual, name):
            options[f"--{name.replace('_', '-')}"] = repr(nothing if value is None else value)
    return options


def _vocabulary(words: VocabularySpec | None) -> dict[str, object]:
    """Options of a run with a vocabulary of its own; defaults are left out."""
    if words is None:
        return {}
    usual = VocabularySpec(epsilon=words.epsilon)
    changed = {name: value for name, value in words if value != getattr(usual, name)}
    options = {f"--vocabulary-{name}": value for name, value in changed.items()}
    return {"--vocabulary-epsilon": "inf" if words.epsilon is None else repr(words.epsilon), **options}


def _corpus_name(corpus: CorpusSpec) -> str:
    preset = next((name for name, known in CORPUS_PRESETS.items() if known == corpus), None)
    return preset or f"cohort-{corpus.digest()}.json"


def _cohort_file(corpus: CorpusSpec) -> list[str]:
    name = _corpus_name(corpus)
    if corpus.imported or not name.endswith(".json"):
        return []
    return [f"echo {_quoted(corpus.model_dump_json())} > {name}"]


_IN_TEXT = re.compile(r"`?(python -m core [a-z]+ [\w-]+(?: --[a-z-]+ \w+)*|(?<![\w-])--[a-z]+(?:-[a-z]+)+)`?")


def parts_of_sentence(text: str) -> list[tuple[str, bool]]:
    """A sentence in order: its words, and the commands and options in it, each with whether it is to be set as code."""
    return [(part, bool(place % 2)) for place, part in enumerate(_IN_TEXT.split(text)) if part]


def _quoted(text: str) -> str:
    """Quote for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
