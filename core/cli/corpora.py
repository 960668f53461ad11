"""Commands for cohorts, base models, privacy accounting and benchmarks."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.import_notes import new_folder, write_imported
from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.settings import corpus_spec, model_spec, risk_limit
from core.cli.training import Accused, Catches, RightGuesses
from core.common.formatting import accounted_text
from core.common.program import PROGRAM
from core.spec import CLINICAL, CorpusSpec, RiskLimit

DEFAULTS = {"device": "cpu", "shape": "tiny"}  # what benchmarks without these options run with


def corpus(
    out: Annotated[Path, typer.Option(metavar="DIR", help="New folder for patients, notes and canaries (Parquet).")],
    preset: Annotated[str, typer.Option(help="A preset, or a JSON file with a cohort's spec.")] = "classroom",
    patients: Annotated[int | None, typer.Option(help="Number of patients, instead of the preset's.")] = None,
    notes_per_patient: Annotated[
        float | None, typer.Option(help="Mean number of notes per patient, instead of the preset's.")
    ] = None,
    naming_rate: Annotated[
        float | None, typer.Option(help="Share of notes that name the patient, instead of the preset's.")
    ] = None,
    generic_rate: Annotated[
        float | None, typer.Option(help="Share of notes without any patient detail, instead of the preset's.")
    ] = None,
    copy_forward: Annotated[
        float | None, typer.Option(help="Share of notes that repeat a paragraph of the one before them.")
    ] = None,
    note_length: Annotated[str | None, typer.Option(help="full, or brief: two clinical sentences.")] = None,
    variant: Annotated[str | None, typer.Option(help="regular, name-insertion or template-only.")] = None,
    canary_patients: Annotated[int | None, typer.Option(help="Number of whole canary patients.")] = None,
    random_canaries: Annotated[
        int | None, typer.Option(help="Number of canaries of random words, for an audit of ε.")
    ] = None,
    canary_copies: Annotated[
        int | None, typer.Option(help="Maximum copies of a canary sentence, 16 or 64; without it 8.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed, instead of the preset's; with --from, seed of the split.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PATH", help="Import your own notes: .csv, .csv.gz, .parquet, .txt or a MIMIC-III folder."
        ),
    ] = None,
    identifiers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --from: table of the patients' identifiers.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=NAME",
            help="With --from: column for a role: note, patient, admission, date, type, note_id or split; ROLE= for "
            "none. Repeatable.",
        ),
    ] = None,
    population: Annotated[
        float | None,
        typer.Option(
            help="Number of further patients for thresholds and reference models; with --from, a share of the patients."
        ),
    ] = None,
    canaries: Annotated[
        int | None, typer.Option(help="Number of canary sentences. Default: the preset's; with --from, as many as fit.")
    ] = None,
    deduplicate: Annotated[
        str | None, typer.Option(help="With --from: copies to remove: no, exact or near. Default: no.")
    ] = None,
    detector: Annotated[
        str | None, typer.Option(help="With --from: name of the detector of identifiers. Default: the best here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a synthetic hospital, or import your own notes (--from), and write the cohort as Parquet."""
    with errors_as_sentences():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadInput(f"--out: {out} exists and is not an empty folder. Choose another name.")
        importing = {"identifiers": identifiers, "columns": column, "deduplicate": deduplicate, "detector": detector}
        both = {"population": population, "canaries": canaries}
        shaped = {
            "patients": patients,
            "notes_per_patient": notes_per_patient,
            "naming_rate": naming_rate,
            "generic_rate": generic_rate,
            "copy_forward": copy_forward,
            "note_length": note_length,
            "variant": variant,
            "canary_patients": canary_patients,
            "random_canaries": random_canaries,
            "canary_copies": canary_copies,
        }
        if source is not None:
            _refuse(shaped, "describes a synthetic hospital and cannot be used with --from")
            write_imported(source, out, seed=seed or 0, given={**importing, **both}, as_json=as_json)
            return
        _refuse(importing, "is for your own notes: use it with --from PATH")
        chosen = corpus_spec(preset, "--preset")
        changes = {key: value for key, value in {**shaped, **both, "seed": seed}.items() if value is not None}
        spec = type(chosen)(**{**chosen.model_dump(), **changes})
        _write_corpus(spec, out)
        counts = _count(out)
        text = f"{out}: {counts['patients']:,} patients, {counts['notes']:,} notes, {counts['canaries']:,} canaries"
        answer({"folder": str(out), "spec": spec.model_dump(mode="json"), **counts}, text, as_json=as_json)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        raise BadInput(f"--{given.removesuffix('s') if given == 'columns' else given.replace('_', '-')} {why}.")


def _write_corpus(spec: CorpusSpec, out: Path) -> None:
    from core.corpus.synthetic.hospital import write_large

    with new_folder(out, private=False) as beside:
        write_large(spec, beside, lambda done, total: say(f"  {done:,} of {total:,} patients"))


def _count(folder: Path) -> dict[str, int]:
    import pyarrow.parquet as pq

    return {name: pq.read_metadata(folder / f"{name}.parquet").num_rows for name in ("patients", "notes", "canaries")}


def account(
    sample_rate: Annotated[float, typer.Option(help="q: probability of each unit to be in a step.")],
    steps: Annotated[int, typer.Option(help="Number of steps.")],
    delta: Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy.")] = 1e-5,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ, to compute ε.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target ε, to compute σ.")] = None,
    attacker_catches: Catches = None,
    falsely_accused: Accused = None,
    right_guesses: RightGuesses = None,
    accountant: Annotated[str, typer.Option(help="prv, rdp or gdp (an approximation, often too small).")] = "prv",
    best_of: Annotated[
        float | None, typer.Option(help="Also ε of the best of a random number of runs: their expected number.")
    ] = None,
    best_of_shape: Annotated[
        float, typer.Option(help="With --best-of: η of that number, above −1; 0 logarithmic, 1 geometric.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Compute ε from the noise, or the noise from an ε or from a limit on the attacker, with the trade-off curve."""
    with errors_as_sentences():
        from core.training.accounting import gaussian
        from core.training.accounting.risk import rounded_up

        limit = risk_limit(attacker_catches, falsely_accused, right_guesses)
        if [noise_multiplier, epsilon, limit].count(None) != 2:
            raise BadInput(
                "Give either --noise-multiplier (to get ε), --epsilon (to get σ), or --attacker-catches or "
                "--right-guesses (to get σ and ε)."
            )
        if accountant not in ("prv", "rdp", "gdp"):
            raise BadInput(f"--accountant: “{accountant}” is not one of prv, rdp, gdp.")
        given: dict[str, Any] = {"sample_rate": sample_rate, "steps": steps, "delta": delta, "accountant": accountant}
        if limit is not None:
            if best_of is not None:
                raise BadInput("--best-of needs --noise-multiplier or --epsilon: it is no limit on the attacker.")
            _account_by_risk(limit, sample_rate=sample_rate, steps=steps, delta=delta, as_json=as_json)
            return
        sigma = noise_multiplier
        if sigma is None:
            assert epsilon is not None  # one of the three is given
            sigma = gaussian.noise_multiplier(target_epsilon=epsilon, **given)
            sigma = rounded_up(sigma)  # as it is printed: training with it spends the ε beside it
        value, by = gaussian.epsilon_with_method(noise_multiplier=sigma, **given)
        text = (
            f"ε = {accounted_text(value)} at δ = {delta:g} (σ = {sigma:.6g}, q = {sample_rate:g}, {steps} steps; "
            f"accountant {by})"
        )
        if by != accountant:
            text += f"\n{accountant} has no finite answer here, so {by} was used."
        data = {"epsilon": value, "noise_multiplier": sigma, **given, "accountant_used": by}
        if by == "gdp":
            bound, sound = gaussian.epsilon_with_method(noise_multiplier=sigma, **given | {"accountant": "prv"})
            data |= {"approximation": True, "epsilon_bound": bound}
            text += f"\ngdp approximates, and can be too small. By {sound}, ε is at most {accounted_text(bound)}."
        if best_of is not None:
            from core.training.accounting.choosing import chosen_epsilon
            from core.training.accounting.mechanism import Mechanism

            one = Mechanism(
                unit="note",  # not used: ε is that of one unit, whatever it is
                noise_multiplier=sigma,
                sample_rate=sample_rate,
                steps=steps,
                delta=delta,
                max_grad_norm=1.0,
            )
            chosen = chosen_epsilon(one, best_of, shape=best_of_shape)
            data |= {"best_of": best_of, "best_of_shape": best_of_shape, "best_of_epsilon": chosen}
            best = f"for the best of {best_of:g} expected runs (η = {best_of_shape:g}; RDP)"
            text += f"\nε = {accounted_text(chosen)} {best}"
        answer(data, text, as_json=as_json)


def _account_by_risk(limit: RiskLimit, *, sample_rate: float, steps: int, delta: float, as_json: bool) -> None:
    """Print the noise that holds a limit on the attacker, and what follows from it."""
    from core.evaluation.guarantee.consequences import consequences
    from core.evaluation.wording import percent, percent_up, right_of_100

    found = consequences(limit, sample_rate=sample_rate, steps=steps, delta=delta)
    usual = f"ε = {found.usual_epsilon:.4g} and σ = {found.usual_sigma:.5g}, so this is {found.saved}"
    mu = f"= {accounted_text(found.mu)}" if math.isfinite(found.mu) else "is above 6"
    lines = [
        f"σ = {found.sigma:g} (q = {sample_rate:g}, {steps} steps): {limit.label}",
        f"ε = {accounted_text(found.epsilon)} at δ = {delta:g}",
        f"μ {mu} (Gaussian DP, for error rates of at least 0.1 %)",
        f"by way of (ε, δ): {found.unusual or usual}",
        f"of 100 guesses at even odds at most {right_of_100(found.right)} are right",
        "accused by mistake → caught at most",
        *(f"  {percent(a):>8} → {percent_up(c)}" for a, c in found.points()),
    ]
    answer(found.to_dict(), "\n".join(lines), as_json=as_json)


def pretrain(
    text: Annotated[
        list[str],
        typer.Option(
            "--text",
            metavar="FILE[@EPOCHS]",
            help="File of public text; with @EPOCHS it is read in the first epochs only. Repeatable.",
        ),
    ],
    model: Annotated[str, typer.Option("--model", "--kind", help="gpt2, distilbert or bert.")] = "gpt2",
    size: Annotated[str, typer.Option(help="micro, tiny or small.")] = "tiny",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the model. Default: assets/base/clinical/MODEL-SIZE.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    words: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the words of the text to the list in this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a public base model, on public text only."""
    with errors_as_sentences():
        from core.models.pretrain import pretrain as make
        from core.models.public_sources import TextFile
        from core.models.shipped_bases import shipped_folder

        files = [TextFile.parse(argument) for argument in text]
        missing = [str(file.path) for file in files if not file.path.is_file()]
        if missing:
            raise BadInput(f"--text: file not found: {', '.join(missing)}.")
        spec = model_spec(model, size, CLINICAL)
        folder = out or shipped_folder(spec)

        def report(event: dict) -> None:
            if event["step"] % 50 == 0 or event["step"] == event["steps"]:
                say(f"  step {event['step']}/{event['steps']}, loss {event['loss']:.3f}")

        figures = make(spec.kind, spec.size, files, folder, epochs=epochs, seed=seed, words=words, on_progress=report)
        lines = "\n".join(f"  {name} {value:.5g}" for name, value in figures.items())
        answer({"folder": str(folder), **figures}, f"{folder}\n{lines}", as_json=as_json)


def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Benchmark to run; without a name, list them.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Number of measurements of each side; must be odd.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    shape: Annotated[str | None, typer.Option(help="tiny, or gpt2 (124 million parameters).")] = None,
    write: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With `all`, `recipes`, `forgetting`, `table-text` and `detector`: write the results here. With "
            "`kills`: keep the counts here, and go on from them.",
        ),
    ] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With `detector` or `presidio`: a file of labelled texts. Repeatable."),
    ] = None,
    course: Annotated[
        str | None,
        typer.Option(help="With `kills`: forks (default), command, worker, server, or processes (these three)."),
    ] = None,
    kills: Annotated[int | None, typer.Option(min=1, help="With `kills`: how many processes to kill.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="With `kills`, except of forks: stop after this many minutes.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With `kills`, `sessions`, `capacity` and `soak`: seed of the moments.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="With `scale-out`: comma-separated values of ε.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="With `scale-out`: number of workers.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark from bench/ (or all of them) and print its measurements."""
    with errors_as_sentences():
        modules = _benchmarks()
        names = sorted(modules)
        if name is None:
            answer(names, "\n".join(names) or "There are no benchmarks.", as_json=as_json)
            return
        name = name.replace("-", "_")
        if name not in modules:
            raise BadInput(f"There is no benchmark “{name}”. The benchmarks are: {', '.join(names) or 'none'}.")
        if rounds is not None and rounds % 2 == 0:
            raise BadInput(f"--rounds must be odd, so that one round is the median (given: {rounds}).")
        main = importlib.import_module(modules[name]).main
        options = {
            "rounds": rounds,
            "device": device,
            "shape": shape,
            "write": write,
            "labelled": labelled,
            "course": course,
            "kills": kills,
            "minutes": minutes,
            "seed": seed,
            "epsilon": epsilon,
            "workers": workers,
        }
        given = {key: value for key, value in options.items() if value is not None}
        known = inspect.signature(main).parameters
        given = {key: value for key, value in given.items() if key in known or value != DEFAULTS.get(key)}
        if unknown := sorted(set(given) - set(known)):
            raise BadInput(f"The benchmark {name} has no option --{unknown[0]}.")
        main(json=as_json, **given)


def _benchmarks() -> dict[str, str]:
    """The module of each benchmark by its name: files of bench/ and of the folders in it."""
    found = [path.relative_to(PROGRAM).with_suffix("") for path in (PROGRAM / "bench").rglob("*.py")]
    return {path.name: ".".join(path.parts) for path in found if not path.name.startswith("_")}


def demo(
    plan: Annotated[bool, typer.Option("--plan", help="Only list the runs, and the time they need.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this part of the plan; may be repeated.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the training, separated by commas.")] = "0,1,2",
    again: Annotated[
        bool,
        typer.Option(
            "--train-figures-only", help="Also train the runs again that are shipped with figures only, for all tables."
        ),
    ] = False,
    limit: Annotated[int | None, typer.Option(min=0, help="Train at most this many runs.")] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Copy every run trained here to assets/demo, most with figures only.")
    ] = False,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="With --export: copy them here instead.")] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Runs that are trained at a time, on one share of the cores each.")
    ] = 1,
    audits: Annotated[
        bool,
        typer.Option("--audits", help="Also run the full audit on runs trained here that ship with their weights."),
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Train the runs of the demonstration that are missing. Several processes may do so side by side."""
    with errors_as_sentences():
        from core.demo.training import main
        from core.findings.stored_runs import with_shipped
        from core.runs.store import DEMO, Workspace

        if out is not None and not export:
            raise BadInput("--out says where --export copies runs to: give both.")
        try:
            numbers = sorted({int(one) for one in seeds.split(",")})
        except ValueError:
            raise BadInput(f"--seeds: “{seeds}” is not a list of seeds. Give for example 0,1,2.") from None
        place = None if not export else Path(out) if out else DEMO
        done = main(
            with_shipped(Workspace(data)),
            say=say,
            plan=plan,
            only=only or (),
            seeds=numbers,
            again=again,
            limit=limit,
            export_to=place,
            audits=audits,
            processes=processes,
        )
        answer(done.rows, done.text, as_json=as_json)
