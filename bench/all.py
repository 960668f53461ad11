"""All figures of docs/PERFORMANCE.md: `python -m core bench all --write docs/PERFORMANCE.md`.

Each benchmark runs in a separate process, one after the other. With `--write`, this machine's table replaces the one in
the file for the same device and shape of model. `bench audit` is not included: it takes longer than all others
together.
"""

from __future__ import annotations

import datetime
import importlib
import inspect
import json as json_format
import os
import platform
import subprocess
import sys
from pathlib import Path

import opacus
import torch
import transformers

from bench._ratio import TARGETS, Figures, show

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ("clipping", "training", "generation", "scoring", "serving", "scale", "patients")


def main(
    json: bool = False, rounds: int | None = None, device: str = "cpu", shape: str = "tiny", write: str | None = None
) -> None:
    """Run all benchmarks, print the figures, and write their table to the file `write`.

    With another device or shape than the default, only the benchmarks that support it are run.
    """
    file = None if write is None else Path(write)
    if file is not None and _begin(device, shape) not in file.read_text(encoding="utf-8"):
        raise ValueError(f"{file} has no place for these figures: add a line {_begin(device, shape)} and a line {END}")
    figures: Figures = {}
    for name in BENCHMARKS:
        options = {"device": device, "shape": shape}
        unusual = {key for key, usual in (("device", "cpu"), ("shape", "tiny")) if options[key] != usual}
        if unusual <= set(inspect.signature(importlib.import_module(f"bench.{name}").main).parameters):
            figures |= _run(name, {"rounds": rounds, **{key: options[key] for key in unusual}})
    if file is not None:
        file.write_text(with_table(file.read_text(encoding="utf-8"), figures, device, shape), encoding="utf-8")
    show(figures, json=json)


def _run(name: str, options: dict[str, object]) -> Figures:
    given = [word for key, value in options.items() if value is not None for word in (f"--{key}", str(value))]
    print(f"bench {name} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "core", "bench", name, "--json", *given]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603 — this program
    if done.returncode:
        raise RuntimeError(f"the benchmark {name} failed: see above")
    return json_format.loads(done.stdout)


END = "<!-- end -->"


def _begin(device: str, shape: str) -> str:
    return f"<!-- figures: {device} {shape} -->"


def with_table(text: str, figures: Figures, device: str, shape: str) -> str:
    """`text` with a new table between the marks of this device and shape."""
    before, _, rest = text.partition(_begin(device, shape))
    _, _, after = rest.partition(END)
    return f"{before}{_begin(device, shape)}\n{table(figures, device)}\n{END}{after}"


def table(figures: Figures, device: str) -> str:
    """The figures as Markdown, with the machine, the versions and the date."""
    rows = [
        f"| `{key}` | {TARGETS[key].what} | **{found['value']:.2f}** | {found['low']:.2f}–{found['high']:.2f} "
        f"| {'≤' if TARGETS[key].largest else '≥'} {found['bar']:g} | {found['aim']:g} "
        f"| {'yes' if TARGETS[key].reached(found['value']) else '**no**'} | {found['rounds']} | {_sides(found)} |"
        for key, found in figures.items()
    ]
    head = "| key | what | value | quartiles | bar | aim | bar held | rounds | above / below |"
    return "\n".join([machine(device), "", head, "|---|---|---|---|---|---|---|---|---|", *rows])


def _sides(found: dict) -> str:
    sides, unit = (found["mib"], "MiB") if "mib" in found else (found["seconds"], "s")
    text = f"{sides['above']:.3g} {unit} / {sides['below']:.3g} {unit}"
    return text + (f"; first loss after {found['first_loss_seconds']:.2g} s" if "first_loss_seconds" in found else "")


def machine(device: str) -> str:
    """One line: processor, threads, load, versions, date."""
    where = torch.cuda.get_device_name() if device.startswith("cuda") else _processor()
    load = f"load {os.getloadavg()[2]:.1f} over the last quarter of an hour"
    versions = {"PyTorch": torch, "transformers": transformers, "Opacus": opacus}
    named = ", ".join(f"{name} {module.__version__}" for name, module in versions.items())
    return (
        f"{where}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {load}; "
        f"Python {platform.python_version()}, {named}; {datetime.date.today():%d %B %Y}."
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    names = information.read_text().splitlines() if information.exists() else []
    found = [line.partition(":")[2].strip() for line in names if line.startswith("model name")]
    return found[0] if found else platform.processor() or platform.machine()
