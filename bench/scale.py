"""Ten times the notes: `python -m core bench scale --json`.

Each measurement is a separate process that reads the notes of a cohort from Parquet, trains GPT-2 privately on them and
scores all of them. It reports its peak resident memory (`VmHWM`, which counts from the start of the program;
`ru_maxrss` would include what the parent process had before), and seconds per note. Steps of a Poisson-sampled epoch
are alike, so only `STEPS` of them are timed: seconds per note = preparation / notes + steps / notes sampled + scoring /
notes. Notes are like those of the preset `mimic-scale`; the accountant is RDP, whose constant cost is negligible.
"""

from __future__ import annotations

import json as json_format
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench._ratio import Figures, check_rounds, figure, peak_mib, show
from core.attacks.membership.scores import loss_scores
from core.corpus.synthetic.hospital import write_large
from core.models.build import load
from core.spec import CORPUS_PRESETS, AuditSpec, ModelSpec, PrivacySpec, recipe
from core.training.trainer import train

ROOT = Path(__file__).resolve().parents[1]
FEW, MANY, STEPS = 10_000, 100_000, 16
COLUMNS = ["note_id", "admission_id", "patient_id", "split", "note_type", "text"]


def main(json: bool = False, rounds: int = 1) -> None:
    """Print both figures of scale. A round takes minutes, so short disturbances average out."""
    show(measure(rounds), json=json)


def measure(rounds: int, *, few: int = FEW, many: int = MANY, steps: int = STEPS) -> Figures:
    """Both figures; each round measures `few` and `many` notes, each in a new process."""
    check_rounds(rounds)
    found: dict[int, list[dict[str, float]]] = {few: [], many: []}
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-bench-") as folder:
        for notes in found:
            _write(notes, Path(folder) / str(notes))
        for number in range(rounds):
            for notes in (few, many) if number % 2 == 0 else (many, few):
                found[notes].append(_in_a_process(Path(folder) / str(notes), notes, steps))
    above, below = ({key: np.array([one[key] for one in found[n]]) for key in found[n][0]} for n in (many, few))
    memory = figure("memory_100k_over_10k", above["peak_mib"], below["peak_mib"])
    memory["memory_100k_over_10k"]["mib"] = memory["memory_100k_over_10k"].pop("seconds")
    return memory | figure("time_per_note_100k_over_10k", above["seconds_a_note"], below["seconds_a_note"])


def _write(notes: int, folder: Path) -> None:
    """Write a cohort of at least `notes` notes."""
    folder.mkdir()
    like = CORPUS_PRESETS["mimic-scale"]
    patients = max(4, round(1.1 * notes / like.notes_per_patient) + 4)
    few = {"patients": patients, "population": 0, "canaries": 0, "canary_patients": 0}
    write_large(like.model_copy(update=few), folder)


def _in_a_process(folder: Path, notes: int, steps: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.scale", str(folder), str(notes), str(steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603 — a module of this program
    if done.returncode:
        raise RuntimeError(f"measuring {notes:,} notes failed: {done.stderr.strip().splitlines()[-1]}")
    return json_format.loads(done.stdout.splitlines()[-1])


def measure_here(folder: Path, count: int, steps: int) -> dict[str, float]:
    """Train on and score `count` notes in this process: `peak_mib` and `seconds_a_note`."""
    notes = pq.read_table(folder / "notes.parquet", columns=COLUMNS).slice(0, count).to_pandas()
    if len(notes) < count:
        raise ValueError(f"the cohort in {folder} has {len(notes):,} notes, not {count:,}")
    lm = load(ModelSpec())
    training = recipe("gpt2", PrivacySpec(target_epsilon=8.0)).model_copy(update={"batch_size": min(256, count // 4)})
    ends: list[float] = []
    begun = time.perf_counter()
    train(
        lm,
        notes,
        training,
        PrivacySpec(noise_multiplier=1.0, accountant="rdp"),
        on_step=lambda event: ends.append(time.perf_counter()),
        should_stop=lambda: len(ends) > steps,
    )
    a_note = (ends[0] - begun) / count + (ends[steps] - ends[0]) / (steps * training.batch_size)
    begun = time.perf_counter()
    loss_scores(lm, notes, AuditSpec())
    a_note += (time.perf_counter() - begun) / count
    return {"peak_mib": peak_mib(), "seconds_a_note": a_note}


def _as_numbers(arguments: list[str]) -> tuple[Path, int, int]:
    folder, count, steps = arguments
    return Path(folder), int(count), int(steps)


if __name__ == "__main__":
    found: dict[str, Any] = measure_here(*_as_numbers(sys.argv[1:]))
    print(json_format.dumps(found))
