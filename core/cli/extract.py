"""The command `extract`: prompt extraction with your own prompts, by sampling or greedily, with its controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.runs import RunId

if TYPE_CHECKING:
    import pandas as pd

    from core.attacks.prompts import AttackPrompt


def extract(
    run: RunId,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", help="A prompt of your own. Repeatable.")] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="Text file with one prompt per line.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, max=10_000, help="Number of texts per prompt.")] = 100,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Take the most likely tokens instead of sampling; one text per prompt.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Prompt a run many times and count whose details it writes, with controls. Nothing is stored."""
    with errors_as_sentences():
        from core.attacks.memorisation.extraction import extract as attack
        from core.attacks.memorisation.extraction import index_of
        from core.models.build import load
        from core.runs.store import Workspace

        chosen = _prompts(prompt, prompts)
        workspace = Workspace(data)
        found = workspace.run(run)
        if not found.has_model:
            raise BadInput(f"Run {found.id} has tables but no weights, so it cannot be prompted.")
        corpus = found.as_read(workspace.corpus(found.spec.corpus, store=False))
        audit = found.spec.audit.model_copy(update={"samples_per_prompt": samples})
        models = {"run": found.model}
        if not found.spec.is_base:
            models["base"] = lambda: load(found.spec.model)
        index, tables = index_of(corpus), {}
        for arm, loaded in models.items():
            say(f"{found.id}: prompting {'the model' if arm == 'run' else 'the public base model, the control'}")
            tables[arm] = attack(loaded(), corpus, index, audit, prompts=chosen, greedy=greedy)
        _tell(found.id, corpus.patients, tables, as_json=as_json)


def _prompts(texts: list[str] | None, path: Path | None) -> tuple[AttackPrompt, ...]:
    """The given prompts, else the built-in ones. Raises BadInput if prompts were given in two ways."""
    from core.attacks.prompts import PROMPTS, own_prompts, read_prompts

    if texts and path:
        raise BadInput("Give prompts with --prompt or with --prompts, not both.")
    if path is not None:
        return read_prompts(path)
    return own_prompts(texts) if texts else PROMPTS


def _tell(
    run_id: str, patients: pd.DataFrame, tables: dict[str, tuple[pd.DataFrame, pd.DataFrame]], *, as_json: bool
) -> None:
    """Print shares of patients by field and arm; the JSON also has every value once, and when the first was found."""
    import pandas as pd

    from core.evaluation.memorisation.extraction import by_field, distinct_values, first_leaks

    generations, hits = tables["run"]
    fields = by_field(hits, patients)
    if "base" in tables:
        control = by_field(tables["base"][1], patients)
        fields = pd.concat([fields, control[control["arm"] == "run"].assign(arm="base")], ignore_index=True)
    values = distinct_values(generations, hits)
    first = first_leaks(generations, hits, patients)
    leaked = first[first["leaked"]].groupby("split").size().to_dict()
    out: dict[str, Any] = {
        "run": run_id,
        "generations": len(generations),
        "patients_with_a_direct_identifier": {split: leaked.get(split, 0) for split in ("member", "heldout")},
        "fields": fields.to_dict("records"),
        "values": values.to_dict("records"),
        "first_leaks": first[first["leaked"]].to_dict("records"),
        "texts": generations[["generation_id", "prompt", "text"]].to_dict("records"),
    }
    columns = ["field", "arm", "patients", "pool", "share", "low", "high"]
    shown = fields.loc[fields["patients"] > 0, columns]
    texts = "1 text" if len(generations) == 1 else f"{len(generations):,} texts"
    lines = [
        f"{texts}; patients with a direct identifier: {leaked.get('member', 0)} members, {leaked.get('heldout', 0)} "
        "held-out (control)",
        shown.to_string(index=False, float_format=lambda value: f"{value:.4g}")
        if len(shown)
        else "No field was found.",
    ]
    answer(out, "\n".join(lines), as_json=as_json)
