"""Commands for existing runs: `runs`, `audit`, `prompt`, `utility`, `step` and `forget`."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, check_folder, errors_as_sentences, say
from core.common.files import make_folder
from core.common.formatting import figure_text, promised_text

if TYPE_CHECKING:
    import pandas as pd

    from core.evaluation.stats.bootstrap import Interval
    from core.runs.events import Event
    from core.runs.run import Run
    from core.runs.store import Workspace

NOT_MEASURED = "Nothing was measured: its attacks did not run, or this model or these notes have nothing for them."

RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run id; `python -m core runs` lists them.")]


def runs(data: DataFolder = None, as_json: AsJson = False) -> None:
    """List all runs, newest first, and folders that cannot be used."""
    with errors_as_sentences():
        from core.runs.queries import settings
        from core.runs.store import Workspace

        workspace = Workspace(data)
        found = workspace.runs()
        frame = settings(found).assign(noise_source=[run.noise_source for run in found])
        problems = workspace.problems()
        columns = ["run_id", "kind", "epsilon", "unit", "noise_source", "epochs", "seed", "corpus", "shipped"]
        rows = frame[columns].fillna({"noise_source": "–"})
        units = [one.spec.privacy.unit if one.spec.privacy.private else "–" for one in found]
        rows = rows.assign(epsilon=list(map(_epsilon, found)), unit=units)
        text = rows.to_string(index=False) if len(frame) else "No runs yet. Train one with `python -m core train`."
        answer({"runs": frame.to_dict("records"), "problems": problems}, "\n".join([text, *problems]), as_json=as_json)


def _epsilon(run: Run) -> str:
    """The ε that a run guarantees, whatever was asked for; none for the public model, which reads no notes."""
    if run.spec.is_base:
        return "–"
    return "∞" if run.epsilon is None or math.isinf(run.epsilon) else promised_text(run.epsilon)


def audit(
    run: RunId,
    suite: Annotated[
        str, typer.Option(help="quick: compute the run's own figures again. full: run every attack.")
    ] = "quick",
    attack: Annotated[
        list[str] | None, typer.Option("--attack", help="With --suite full: run only this attack. Repeatable.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="With --suite full: also repeat finished attacks.")] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Attack a stored run and print the figures. The run itself is not changed; a full audit is stored beside it."""
    with errors_as_sentences():
        from core.runs.store import Workspace

        if suite not in ("quick", "full"):
            raise BadInput(f"--suite: “{suite}” is not one of quick, full.")
        if suite == "quick" and (attack or again):
            raise BadInput(
                "--attack and --again can only be used with --suite full: the quick audit always runs as a whole."
            )
        workspace = Workspace(data)
        found = workspace.run(run)
        if suite == "full":
            _full(found, workspace, attack, again, as_json=as_json)
            return
        metrics = audited(found, workspace)
        same = _same(metrics, found.metrics)
        columns = ["metric", "arm", "value", "low", "high", "n"]
        text = metrics[columns].to_string(index=False, float_format=figure_text)
        verdict = "The figures equal the stored ones." if same else "The figures differ from the stored ones."
        data_out = {"run": found.id, "equals_stored": same, "metrics": metrics.to_dict("records")}
        answer(data_out, f"{text}\n{verdict}", as_json=as_json)


def _full(run: Run, workspace: Workspace, attacks: list[str] | None, again: bool, *, as_json: bool) -> None:
    """Run the full suite and print every attack's outcome and the summary tables (not the scores of single notes)."""
    from core.pipeline.full_audit import audit as attack_run
    from core.pipeline.full_audit import summaries
    from core.pipeline.progress_lines import audit_lines

    stored = attack_run(run, workspace, attacks=attacks, again=again, on_event=audit_lines(say))
    outcomes = list(stored.outcomes().values())
    tables = {summary.name: stored.table(summary.name) for summary in summaries()}
    lines = [f"{one.state:<12}{one.seconds:8.1f} s  {one.attack}  {one.message}" for one in outcomes]
    for summary in summaries():
        table = tables[summary.name]
        shown = table.query(summary.headline) if summary.headline and len(table) else table
        text = shown.to_string(index=False, float_format=figure_text) if len(shown) else NOT_MEASURED
        lines += ["", summary.name, text]
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    out = {"run": run.id, "folder": str(stored.folder), "attacks": [asdict(one) for one in outcomes], **rows}
    answer(out, "\n".join(lines), as_json=as_json)


def audited(run: Run, workspace: Workspace) -> pd.DataFrame:
    """The metrics of the quick audit of `run`, computed again from its weights and its control's tables."""
    from core.pipeline.derived import control_tables
    from core.pipeline.quick_audit import attacks_of, figures

    control = None if run.spec.is_base else workspace.control(run.spec)
    corpus = run.as_read(workspace.corpus(run.spec.corpus, store=False))
    lm, tables = run.model(), {"history": run.table("history")}
    for attack in attacks_of(run.spec):
        say(f"{run.id}: {attack.message}")
        frames = attack.make(lm, corpus, run.spec, lambda done, total: None, lambda: False)
        tables |= dict(zip(attack.tables, frames, strict=True))
    base = None if control is None else control_tables(control)
    return figures(run.spec, corpus, tables, base, run.vocabulary)


def _same(metrics: pd.DataFrame, stored: pd.DataFrame) -> bool:
    import numpy as np

    keys = ["metric", "arm"]
    now, then = metrics.set_index(keys)["value"], stored.set_index(keys)["value"]
    known = then.index.isin(now.index)  # figures of later versions are not among the stored ones
    return bool(known.all() and np.allclose(now[then.index], then, rtol=1e-3, equal_nan=True))


def prompt(
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="PROMPT", help="The beginning of a text, or a text with [MASK]s.")],
    n: Annotated[int, typer.Option("--n", min=1, max=128, help="Number of answers, with seeds SEED, SEED + 1, …")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first answer.")] = 0,
    new_tokens: Annotated[int, typer.Option(min=1, max=512, help="Tokens per answer.")] = 60,
    temperature: Annotated[float, typer.Option(min=1e-6, help="Sampling temperature.")] = 0.8,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Prompt a run's model, and mark what its answers leak."""
    with errors_as_sentences():
        from core.runs.store import Workspace
        from core.serving.server import MASK, Sampling, Server, clean_prompt

        workspace = Workspace(data)
        found = workspace.run(run)
        if not found.has_model:
            raise BadInput(f"Run {found.id} has tables but no weights, so it cannot be prompted.")
        cleaned, _ = clean_prompt(text)
        server = Server(workspace)
        try:
            if found.spec.model.kind != "gpt2" and MASK in cleaned:
                _answer_masks(server, found, cleaned, as_json=as_json)
                return
            sampling = Sampling(new_tokens=new_tokens, temperature=temperature)
            texts = server.generate(found.id, cleaned, seeds=range(seed, seed + n), sampling=sampling).result()
        finally:
            server.close()
        _answer_texts(found, workspace, cleaned, texts, seed, as_json=as_json)


def _answer_masks(server: Any, run: Run, text: str, *, as_json: bool) -> None:
    stream = server.fill(run.id, text)
    stream.result()
    masks = [[{"token": token, "probability": share} for token, share in ranked] for ranked in stream.ranked]
    lines = [
        f"[MASK] {number}: " + ", ".join(f"{one['token']} {one['probability']:.3f}" for one in ranked)
        for number, ranked in enumerate(masks, start=1)
    ]
    answer({"run": run.id, "prompt": text, "masks": masks}, "\n".join(lines), as_json=as_json)


def _answer_texts(run: Run, workspace: Workspace, text: str, texts: list[str], seed: int, *, as_json: bool) -> None:
    from core.attacks.memorisation.extraction import index_of
    from core.phi.leaks import find

    index = index_of(run.as_read(workspace.corpus(run.spec.corpus, store=False)))
    answers: list[dict[str, Any]] = [
        {"seed": seed + number, "text": one, "spans": [asdict(span) for span in find(one, index, text)]}
        for number, one in enumerate(texts)
    ]
    lines = []
    for one in answers:
        marks = "; ".join(
            f"{s['kind']}: {s['field']} “{s['value']}” {' '.join(s['patient_ids'])}" for s in one["spans"]
        )
        lines.append(f"[{one['seed']}] {text}{one['text']}\n    → {marks or 'nothing found'}")
    answer({"run": run.id, "prompt": text, "answers": answers}, "\n".join(lines), as_json=as_json)


def utility(
    run: RunId,
    ner: Annotated[
        Path | None,
        typer.Option(
            "--ner",
            metavar="DIR",
            help="Folder with train.tsv and test.tsv in IOB form, such as BC5CDR's: entities are tagged in these "
            "sentences, and nothing is stored.",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Measure entity extraction, inference and texts of a run of an earlier version, and store the figures with it."""
    with errors_as_sentences():
        from core.pipeline.utility import add
        from core.runs.store import Workspace

        workspace = Workspace(data)
        found = workspace.run(run)
        if ner is not None:
            _sentences(found, ner, as_json=as_json)
            return
        say(f"{found.id}: using the model")
        done = add(found, workspace)
        metrics = workspace.run(run).metrics
        shown = metrics[metrics["metric"].str.partition(":")[0].isin(_keys())]
        outcome = "Measured and stored." if done else "It had been measured before."
        table = shown.to_string(index=False, float_format=figure_text)
        answer(
            {"run": found.id, "stored": done, "figures": shown.to_dict("records")},
            f"{table}\n{outcome}",
            as_json=as_json,
        )


def step(
    run: RunId,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write them (safetensors).")],
    most: Annotated[int, typer.Option("--units", min=2, help="Notes (or patients) at most.")] = 256,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Compute the gradients of the notes that a run samples in its first step, as their inner products."""
    with errors_as_sentences():
        from core.models.build import load
        from core.training.inside_step import first_step

        if out.exists():
            raise BadInput(f"--out: {out} exists already. Choose another name, or delete it first.")
        check_folder(out.parent)
        found, notes = as_trained(run, data)
        spec = found.spec
        say(f"{found.id}: reading the gradients of up to {most} {spec.privacy.unit}s")
        gradients = first_step(load(spec.model), notes, spec.training, spec.privacy, most=most)
        make_folder(out.parent)
        gradients.save(out, private=spec.corpus.imported is not None)
        norm = spec.training.clip_norm or spec.privacy.max_grad_norm
        cut = int((gradients.norms > norm).sum())
        answer(
            {"run": found.id, "units": len(gradients), "sampled": gradients.sampled, "clipped": cut, "file": str(out)},
            f"{len(gradients)} of {gradients.sampled} {spec.privacy.unit}s, {cut} longer than C = {norm:g}: {out}",
            as_json=as_json,
        )


def as_trained(run: str, data: str | None) -> tuple[Run, pd.DataFrame]:
    """A run and its training notes, as it read them from its first step on."""
    from core.corpus.transforms.defences import defended
    from core.runs.store import Workspace

    workspace = Workspace(data)
    found = workspace.run(run)
    spec = found.spec
    if spec.vocabulary is not None or spec.is_base:
        raise BadInput(f"Run {found.id} has no first step with the public model's vocabulary.")
    corpus = workspace.corpus(spec.corpus, store=False).without(spec.without)
    return found, defended(corpus.training_notes(found.note_cap), spec.defence)


def forget(
    run: RunId,
    patient: Annotated[str, typer.Argument(metavar="PATIENT", help="A member's id, for example P0355.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="ascent, fine-tuning or difference (seconds), or retrain: train again without the patient. "
            "Repeatable. Default: the first three.",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take a patient out of a run, and attack the result beside the run itself, retraining, DP and the public model."""
    with errors_as_sentences():
        from core.evaluation.forgetting import summary
        from core.pipeline import forgetting
        from core.runs.store import Workspace

        workspace = Workspace(data)
        found = workspace.run(run)
        forgetting.comparison(found, patient, workspace)  # refuse before minutes of training
        methods = forgetting.APPROXIMATE if method is None else [one for one in method if one != "retrain"]
        if method is not None and "retrain" in method:
            forgetting.retrain(found, patient, workspace, on_event=_stage)
        stored = forgetting.forget(found, patient, workspace, methods=methods, on_progress=_forgetting)
        table = summary(stored)
        text = _arms(table).to_string(index=False, float_format=figure_text, na_rep="–")
        out = {"run": found.id, "patient": patient, "folder": str(stored.folder), "arms": table.to_dict("records")}
        answer(out, text, as_json=as_json)


def _arms(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is printed, with a dash wherever a model has no such figure."""
    reached = table["reached"].map({True: "yes", False: "no"}).astype(object)
    return table.assign(
        run_id=table["run_id"].replace("", "–"),
        steps=table["steps"].astype("float64"),
        patient_texts=table["patient_texts"].astype("float64"),
        reached=reached.where(reached.notna(), "–"),
    )


def _stage(event: Event) -> None:
    if event["event"] == "stage":
        say(f"  {event['message']}")
    elif event["event"] == "epoch":
        say(f"  epoch {event['epoch']}")


def _forgetting(arm: str, doing: str, done: int, total: int) -> None:
    if done in (0, total):
        say(f"{arm}: {doing}, {done} of {total}")


def _keys() -> set[str]:
    from core.evaluation.figures.utility import UTILITY_FIGURES

    return {one.key for one in UTILITY_FIGURES}


def _ends(found: Interval) -> str:
    few = "no interval: too few sentences"  # of one abstract, say
    return few if math.isnan(found.low) else f"{found.low:.3f} to {found.high:.3f}"


def _sentences(run: Run, folder: Path, *, as_json: bool) -> None:
    """Score the run and the public base model on the same sentences."""
    from core.evaluation.utility.abstracts import entity_score
    from core.models.build import load
    from core.tasks.abstracts import labelled_sentences, sentence_counts

    if not run.has_model:
        raise BadInput(f"Run {run.id} has tables but no weights, so it cannot tag anything.")
    models = {"run": run.model}
    if not run.spec.is_base:
        models["base"] = lambda: load(run.spec.model)
    found = {}
    for arm, loaded in models.items():
        say(f"{run.id}: tagging with {'the model' if arm == 'run' else 'the public base model, the control'}")
        learned, judged = labelled_sentences(folder)
        counts = sentence_counts(loaded(), learned, judged)
        found[arm] = entity_score(counts, learned=len(learned), judged=len(judged))
    lines = [
        f"{arm}: F1 {one.f1.value:.3f} ({_ends(one.f1)}), precision {one.precision:.3f}, "
        f"recall {one.recall:.3f}; {one.entities:,} entities in {one.judged:,} sentences; "
        f"{one.learned:,} labelled sentences"
        for arm, one in found.items()
    ]
    answer({"run": run.id, **{arm: asdict(one) for arm, one in found.items()}}, "\n".join(lines), as_json=as_json)
