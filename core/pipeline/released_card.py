"""Released notes as files: the notes as CSV, and their card to read and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.common.files import make_folder, replaced
from core.common.formatting import figure_text
from core.evaluation.report.csv_export import spreadsheet_csv
from core.evaluation.report.json_export import plain
from core.pipeline.released_notes import ReleasedNotes
from core.runs.facts import run_facts

if TYPE_CHECKING:
    from core.training.accounting.mechanism import Mechanism

LABELS = (
    "Entity figures: a tagger of problems, tests and treatments, on the vectors of a public masked model, was fitted "
    "on released notes, on as many texts of the public model, and on as many real notes of population patients, if the "
    "cohort has them; where there are more released notes, also on all, at most 2,000. All these texts were labelled "
    "by a list of the hospital's terms, not by people. Every tagger was judged on the same real notes of held-out "
    "patients, by the labels of their records. “List of terms” is the list alone, without a tagger."
)


def card_files(out: Path) -> tuple[Path, Path]:
    """Where the card of `out` is written: to read, and as JSON."""
    return out.with_suffix(".card.md"), out.with_suffix(".card.json")


def publish(notes: ReleasedNotes, out: Path) -> list[Path]:
    """Write the CSV (note_id, text) and its card beside it. The notes come last: no notes without a card.

    Raises:
        FileExistsError: One of the files is there.
    """
    card, facts = card_files(out)
    for path in (out, card, facts):
        if path.exists():
            raise FileExistsError(f"{path} exists. Choose another name.")
    private = notes.run.spec.corpus.imported is not None
    make_folder(out.parent)
    described = describe(notes)
    frame = pd.DataFrame({"note_id": [f"S{n:06d}" for n in range(1, len(notes.texts) + 1)], "text": notes.texts})
    content = {
        card: card_text(described).encode(),
        facts: json.dumps(plain(described), indent=1, ensure_ascii=False, allow_nan=False).encode(),
        out: spreadsheet_csv(frame),
    }
    done: list[Path] = []
    try:
        for path, data in content.items():
            with replaced(path, private=private) as unfinished:
                unfinished.write_bytes(data)
            done.append(path)
    except Exception:
        for path in done:
            path.unlink(missing_ok=True)
        raise
    return list(content)


def describe(notes: ReleasedNotes) -> dict[str, object]:
    """What the card states, under stable keys."""
    run = notes.run
    facts = run_facts(run.id, run.spec, run.privacy, run.metrics)
    return {
        "run": run.id,
        "notes": len(notes.texts),
        "blank_left_out": notes.blank,
        "seed": notes.seed,
        "about": "Every text was written by a language model. None is a record of care.",
        "promise": facts.promise,
        "follows": _follows(run.privacy),
        "figures": notes.figures.to_dict("records"),
        "tasks": LABELS if (notes.figures["metric"] == "entity_f1").any() else "",
        "limits": [
            "A text may hold a real person's value by chance; compare members with held-out patients.",
            "Nobody has checked what the texts say. They are not medical advice.",
            *facts.limits,
        ],
    }


def _follows(mechanism: Mechanism | None) -> str:
    """What the run's promise means for notes that its model wrote."""
    if mechanism is None:
        return "No promise follows from anything here. Treat the notes like those the model was trained on."
    if mechanism.noise_source != "secret":
        return (
            "The model keeps no promise, because its noise can be generated again, and neither do the notes. Train it "
            "with secret noise and write them again."
        )
    return (
        "The notes are computed from the model alone, so the same promise holds for them, however many there are. "
        "Release the model under the same entry of the ledger or not at all. If the ledger has the model as the best "
        "of several runs, the ledger's ε counts."
    )


def card_text(described: dict[str, object]) -> str:
    """The card in Markdown."""
    rows = described["figures"]
    assert isinstance(rows, list)
    limits = described["limits"]
    assert isinstance(limits, list)
    lines = ["| figure | of | value | 95 % interval | n | n counts |", "|---|---|---|---|---|---|"]
    for row in rows:
        interval = "none" if np.isnan(row["low"]) else f"{figure_text(row['low'])} to {figure_text(row['high'])}"
        value = "none" if np.isnan(row["value"]) else f"{figure_text(row['value'])}"
        lines.append(f"| {row['metric']} | {row['arm']} | {value} | {interval} | {row['n']} | {row['note']} |")
    left_out = f" {described['blank_left_out']} blank texts were left out." if described["blank_left_out"] else ""
    return "\n".join(
        [
            f"# {described['notes']:,} notes written by {described['run']}",
            "",
            f"{described['about']}{left_out}",
            "",
            "## Privacy",
            "",
            f"{described['promise']}",
            "",
            f"{described['follows']}",
            "",
            "## What was measured",
            "",
            *lines,
            *(["", str(described["tasks"])] if described["tasks"] else []),
            "",
            "## Limits",
            "",
            *(f"- {one}" for one in limits),
            "",
        ]
    )
