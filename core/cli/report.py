"""The commands that write documents: `report` for a board, `teaching` for a class, `findings` on the papers' claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, check_folder, errors_as_sentences, say
from core.common.files import make_folder, replaced
from core.evaluation.registry import limits

if TYPE_CHECKING:
    from core.evaluation.sweep.recommendation import Recommendation
    from core.runs.run import Run
    from core.runs.store import Workspace

SUFFIXES = (".html", ".json", ".zip")
LIMIT_HELP = (
    "The highest risk you accept, such as auc_strongest=0.6 (the strongest attack that was run, by patient). Also "
    f"{', '.join(name for name in limits('strongest', 'text') if name != 'auc_strongest')}, and for the loss attack by "
    f"note: {', '.join(limits('loss'))}."
)


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Runs of one cohort; `runs` lists them.")],
    out: Annotated[
        list[Path],
        typer.Option(
            "--out", metavar="FILE", help="File to write: .html, .json, or .zip with one CSV per table. Repeatable."
        ),
    ],
    limit: Annotated[list[str] | None, typer.Option("--limit", metavar="RISK=HIGHEST", help=LIMIT_HELP)] = None,
    utility: Annotated[
        float | None,
        typer.Option(
            help="Lowest share of the gain by training without privacy, 0 to 1 (1 = as that run, which overfits)."
        ),
    ] = None,
    use_case: Annotated[str, typer.Option(help="What the model is for, in your words.")] = "",
    delta: Annotated[float, typer.Option(help="δ of the ledger's total.")] = 1e-5,
    about: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The run that the first page is about. Default: the first private one."),
    ] = None,
    decision: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the board's answers (recipient, access, …); see docs/methods/report.md.",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write a report: a first page to decide by, and an annex with the guarantee, every attack and its controls."""
    with errors_as_sentences():
        for path in out:
            if path.suffix not in SUFFIXES:
                raise BadInput(f"--out: {path} must end with {', '.join(SUFFIXES)}.")
            check_folder(path.parent)
        if bool(limit) != (utility is not None):
            raise BadInput("Give --limit and --utility together: a recommendation weighs risk against utility.")
        from core.evaluation.report.decision import read
        from core.evaluation.report.facts import build
        from core.evaluation.report.html import render
        from core.runs.store import Workspace

        answers = None if decision is None else read(decision)
        workspace = Workspace(data)
        chosen = [workspace.run(run_id) for run_id in dict.fromkeys(runs)]
        found = (
            _recommendation(workspace, chosen, limit or [], utility, use_case)
            if limit and utility is not None
            else None
        )
        made = build(workspace, chosen, recommendation=found, delta=delta, subject=about, decision=answers)
        page = render(made)
        private = any(run.spec.corpus.imported is not None for run in chosen)
        for path in out:
            content = {".html": page.encode, ".json": made.to_json().encode, ".zip": lambda: made.to_zip(page)}
            _write(path, content[path.suffix](), private=private)
        answer(
            {"files": [str(path) for path in out], "runs": [run.id for run in chosen]},
            "\n".join(map(str, out)),
            as_json=as_json,
        )


def teaching(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Folder to write to. Default: docs/teaching.")
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write the six exercises and the instructor's key, with all answers computed from the shipped runs."""
    with errors_as_sentences():
        from core.common.program import PROGRAM
        from core.evaluation.teaching.sheets import write
        from core.evaluation.teaching.shipped import of_shipped
        from core.runs.store import Workspace

        folder = out or PROGRAM / "docs" / "teaching"
        if out is None and not folder.is_dir():  # an installed program has no documents
            raise BadInput(f"There is no folder {folder}. Choose one with --out.")
        check_folder(folder)
        make_folder(folder)
        files = write(of_shipped(Workspace(data)), folder)
        answer({"files": [str(file) for file in files]}, "\n".join(map(str, files)), as_json=as_json)


def _recommendation(
    workspace: Workspace, runs: list[Run], limit: list[str], utility: float, use_case: str
) -> Recommendation:
    """The recommendation within the sweep of the first private run that was given (or of the first run)."""
    from core.evaluation.sweep.advice import advise, compared_runs
    from core.evaluation.sweep.limit_measures import measures
    from core.evaluation.sweep.limits import Limits
    from core.evaluation.sweep.sweeps import sweeps_of

    risks = {}
    for given in limit:
        name, _, value = given.partition("=")
        try:
            risks[name] = float(value)
        except ValueError:
            raise BadInput(
                f"--limit: “{given}” does not have the form RISK=HIGHEST, such as auc_strongest=0.6."
            ) from None
    wished = Limits(risks, utility, use_case)
    wanted = next((run for run in runs if run.spec.privacy.private), runs[0])
    known = sweeps_of(workspace.runs())
    sweep = next((one for one in known if wanted.id in one.run_ids), None)
    if sweep is None:
        raise BadInput(f"Run {wanted.id} cannot be compared with any other run, so nothing can be recommended.")
    compared = [workspace.run(run_id) for run_id in compared_runs(sweep, known)]
    say(f"Comparing {len(compared)} runs that differ in ε, seed and unit.")
    audits = {run.id: workspace.audit(run.id) for run in compared}
    return advise(workspace, measures(compared, workspace.find(wanted.spec.base_spec()), audits), wished)


def _write(path: Path, content: bytes, *, private: bool) -> None:
    """Write the whole report or nothing. A report about uploaded notes is readable by the file's owner only."""
    make_folder(path.parent)
    with replaced(path, private=private) as beside:
        beside.write_bytes(content)


def findings(
    claims: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Claims, such as J-c2; without any, all of them.")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Train and attack what is missing. Interrupted runs are resumed.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, help="With --run: runs that are worked on at a time, on one share of the cores each.")
    ] = 1,
    hours: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --run: leave out the claims that read the longest runs, so that the rest takes about so long.",
        ),
    ] = None,
    without_shipped: Annotated[
        bool, typer.Option("--without-shipped", help="Leave out what came with the program: what is in DATA counts.")
    ] = False,
    write: Annotated[
        bool,
        typer.Option("--write", help="Store all claims' evidence and its runs' tables, and write docs/findings.md."),
    ] = False,
    public_notes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="mtsamples.txt, for the claims about public reports (docs/findings.md)."),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with BC5CDR-IOB and NCBI-disease-IOB, for the claims about real abstracts (docs/findings.md).",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """What five papers claim: which runs test it, which are missing, and whether it holds here."""
    with errors_as_sentences():
        from core.cli.import_notes import teller
        from core.common.program import PROGRAM
        from core.findings import judging
        from core.findings.claims import CLAIMS, chosen
        from core.findings.experiments import PUBLIC_NOTES
        from core.findings.labelled_abstracts import add_labelled_abstracts
        from core.findings.public_notes import add_public_notes
        from core.findings.shipping import ship
        from core.findings.stored_runs import StoredRuns, with_shipped
        from core.findings.training import train, within
        from core.findings.written.document import document
        from core.findings.written.listing import as_rows, listed
        from core.runs.store import Workspace

        wanted = chosen(claims or [])
        if write and claims:
            raise BadInput("--write stores all claims: leave the ids out.")
        if hours is not None and not run:
            raise BadInput("--hours limits what --run trains: give --run, too.")
        if write and without_shipped:
            raise BadInput("--write rests on the shipped runs, too: leave --without-shipped out.")
        workspace = Workspace(data, shared=()) if without_shipped else with_shipped(Workspace(data))
        if public_notes is not None:
            add_public_notes(public_notes, workspace, PUBLIC_NOTES, teller())
        if labelled is not None:
            add_labelled_abstracts(labelled, workspace)
        runs = StoredRuns(workspace)
        if run and hours is not None:
            kept = within(wanted, runs, 3_600 * hours * processes)
            left_out = ", ".join(one.id for one in wanted if one not in kept)
            say(f"Left out, because they take longer than {hours:g} hours with the others: {left_out or 'no claim'}.")
            wanted = kept
        if run:
            train(wanted, workspace, say, processes=processes)
            runs = StoredRuns(workspace)
        if run:
            known = judging.stored_findings(CLAIMS, workspace.root)
            again = {one.claim.id: one for one in judging.findings(wanted, runs)}
            judging.write([again.get(one.claim.id, one) for one in known], workspace.root / judging.FILE_IN_DATA)
        if write:
            for run_id in ship(CLAIMS, workspace):
                say(f"copied {run_id}")
            judging.write(judging.findings(CLAIMS, runs))
            with replaced(PROGRAM / "docs" / "findings.md") as beside:
                beside.write_text(document(judging.stored_findings(CLAIMS)), encoding="utf-8")
        answer(as_rows(wanted, runs) if as_json else [], "" if as_json else listed(wanted, runs), as_json=as_json)
