"""Commands that attack a run by themselves: `extract` with your own prompts, and `shadows`, the models for LiRA."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.runs import RunId
from core.common.formatting import figure_text
from core.corpus.tables import JUDGED_SPLITS

if TYPE_CHECKING:
    import pandas as pd

    from core.attacks.prompts import AttackPrompt
    from core.corpus.tables import Corpus
    from core.runs.run import Run
    from core.runs.store import Workspace


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
    """Prompt a run many times and count the patients in its texts, with controls. Nothing is stored."""
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
        _tell(found.id, corpus, tables, as_json=as_json)


def _prompts(texts: list[str] | None, path: Path | None) -> tuple[AttackPrompt, ...]:
    """The given prompts, else the built-in ones. Raises BadInput if prompts were given in two ways."""
    from core.attacks.prompts import PROMPTS, own_prompts, read_prompts

    if texts and path:
        raise BadInput("Give prompts with --prompt or with --prompts, not both.")
    if path is not None:
        return read_prompts(path)
    return own_prompts(texts) if texts else PROMPTS


def _tell(run_id: str, corpus: Corpus, tables: dict[str, tuple[pd.DataFrame, pd.DataFrame]], *, as_json: bool) -> None:
    """Print shares of patients by field and arm; the JSON also has every value once, and when the first was found."""
    import pandas as pd

    from core.evaluation.memorisation.extraction import by_field, distinct_values, first_leaks
    from core.evaluation.wording import shared_values_sentence

    generations, hits = tables["run"]
    fields = by_field(hits, corpus)
    if "base" in tables:
        control = by_field(tables["base"][1], corpus)
        fields = pd.concat([fields, control[control["arm"] == "run"].assign(arm="base")], ignore_index=True)
    values = distinct_values(generations, hits)
    first = first_leaks(generations, hits, corpus)
    leaked = first[first["leaked"]].groupby("split").size().to_dict()
    out: dict[str, Any] = {
        "run": run_id,
        "generations": len(generations),
        "patients_with_a_direct_identifier": {split: leaked.get(split, 0) for split in JUDGED_SPLITS},
        "shared_values": [{"patient_id": one, "field": field} for one, field in sorted(corpus.shared_values)],
        "fields": fields.to_dict("records"),
        "values": values.to_dict("records"),
        "first_leaks": first[first["leaked"]].to_dict("records"),
        "texts": generations[["generation_id", "prompt", "text"]].to_dict("records"),
    }
    columns = ["field", "arm", "patients", "pool", "share", "low", "high"]
    found = fields.loc[fields["patients"] > 0, "field"]
    shown = fields.loc[fields["field"].isin(found), columns]  # with the controls that are 0
    texts = "1 text" if len(generations) == 1 else f"{len(generations):,} texts"
    members = leaked.get("member", 0)
    lines = [
        f"{texts}; patients with a direct identifier: {members} member{'s' * (members != 1)}, "
        f"{leaked.get('heldout', 0)} held-out (control)",
        shown.to_string(index=False, float_format=figure_text) if len(shown) else "No field was found.",
        shared_values_sentence(corpus.shared_values),
    ]
    answer(out, "\n".join(filter(None, lines)), as_json=as_json)


def shadows(
    run: RunId,
    count: Annotated[int, typer.Option("--count", min=10, max=9_999, help="Number of shadow models.")] = 64,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Train shadow models like a run, on other patients' notes, and attack the run with LiRA.

    Only what the models say of the notes is kept. A stopped command goes on where it was; two at once share the work.
    """
    with errors_as_sentences():
        from core.pipeline.full_audit import target_of
        from core.pipeline.shadows import train_shadows
        from core.runs.store import Workspace

        workspace = Workspace(data)
        found = workspace.run(run)
        tell = _Training(count)
        made = train_shadows(target_of(found, workspace), workspace, count, on_progress=tell.step)
        if len(made) < count:
            text = f"{len(made)} of {count} shadow models are trained; another command is training the others."
            answer({"run": found.id, "models": len(made)}, text, as_json=as_json)
            return
        if not found.has_model:
            text = f"{len(made)} shadow models are trained. Run {found.id} has no weights, so it cannot be attacked."
            answer({"run": found.id, "models": len(made)}, text, as_json=as_json)
            return
        _lira(found, workspace, len(made), as_json=as_json)


class _Training:
    """Tells which shadow model is in training, and how long all of them will take."""

    def __init__(self, count: int) -> None:
        self.count, self.begun, self.first = count, time.monotonic(), -1
        self.told = 0.0

    def step(self, number: int, step: int, steps: int) -> None:
        """Tell at most every 10 seconds."""
        now = time.monotonic()
        if self.first < 0:
            self.first = number
        if now - self.told < 10:
            return
        self.told = now
        done = number - self.first + step / steps
        left = (now - self.begun) / done * (self.count - self.first - done)
        say(f"[{number + 1}/{self.count}] step {step:,} of {steps:,}; {left / 60:,.0f} min left for all")


def _lira(run: Run, workspace: Workspace, models: int, *, as_json: bool) -> None:
    """Attack the run, and print how well members can be told from others, and what that depends on."""
    from core.attacks.membership.decision import LIRA, LOSS
    from core.evaluation.membership.lira_stability import stability_sentences
    from core.pipeline.full_audit import audit
    from core.pipeline.shadows import lira_stability

    say(f"{run.id}: attacking with LiRA, {models} shadow models")
    audit(run, workspace, attacks=[LOSS])  # its scores are what fewer and other shadow models are compared with
    stored = audit(run, workspace, attacks=[LIRA], again=True)
    outcome = stored.outcomes()[LIRA]
    if outcome.state != "done":
        raise BadInput(outcome.message)
    table = stored.table("membership")
    shown = table[(table["attack"] == LIRA) & (table["length"] == "all")]
    text = shown[["level", "rule", "metric", "value", "low", "high", "n"]].to_string(
        index=False, float_format=figure_text
    )
    rows = shown.to_dict("records")
    patients = stored.table("shadow_patients").to_dict("records")
    out: dict[str, Any] = {"run": run.id, "models": models, "membership": rows, "patients": patients}
    stable = lira_stability(run, workspace)
    if stable is not None:
        out["stability"] = {
            "by_number": stable.by_number.to_dict("records"),
            "by_halves": stable.by_halves.to_dict("records"),
            "by_seed": stable.by_seed.to_dict("records"),
        }
        text = "\n".join([text, *stability_sentences(stable)])
    answer(out, text, as_json=as_json)
