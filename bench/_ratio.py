"""Shared by all benchmarks: both sides measured in turns, the ratio of their times, and the target of each figure.

A figure is a ratio of two times taken in one process, in turns, so that other load on the machine affects both sides
alike. Each round gives one ratio; the figure is their median, reported with the quartiles.
"""

from __future__ import annotations

import gc
import json as json_format
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

Figures = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Target:
    """Target of a figure: `bar` must be met, `aim` is desirable. Both are upper limits if `largest`, else lower."""

    what: str
    bar: float
    aim: float
    largest: bool = True  # True: at most `bar`; False: at least

    def reached(self, value: float) -> bool:
        """Whether `value` meets the bar."""
        return value <= self.bar if self.largest else value >= self.bar


TARGETS: dict[str, Target] = {
    "dp_over_plain_note_gpt2": Target("GPT-2, one step: private (unit note) / plain", 1.35, 1.2),
    "dp_over_plain_note_distilbert": Target("DistilBERT, one step: private (unit note) / plain", 1.35, 1.2),
    "dp_over_plain_patient_gpt2": Target("GPT-2, one step: private (unit patient) / plain", 1.6, 1.3),
    "dp_over_plain_patient_distilbert": Target("DistilBERT, one step: private (unit patient) / plain", 1.6, 1.3),
    "opacus_hooks_over_ours": Target("one private step: Opacus, hooks / ours", 1.6, 2.2, largest=False),
    "opacus_ghost_over_ours": Target("one private step, untied: Opacus, ghost / ours", 1.7, 2.2, largest=False),
    "naive_loop_over_ours": Target("32 samples, privately: one example at a time / ours", 5.0, 10.0, largest=False),
    "plain_over_bare_loop": Target("one plain epoch: ours / a bare PyTorch + transformers loop", 0.75, 0.5),
    "attempts_one_by_one_over_ours": Target(
        "1,400 prompt attempts of 80 tokens: `generate`, two at a time / ours", 12.0, 35.0, largest=False
    ),
    "thirty_prompts_over_one": Target("30 prompts at once, to the end of the last / one alone", 4.0, 2.0),
    "scoring_padded_over_ours": Target("scoring 10,000 notes: padded in file order / ours", 1.5, 2.5, largest=False),
    "classroom_run_over_bare_loop": Target(
        "classroom GPT-2 run, ε = 8, with its audit / a bare plain loop over the same tokens", 1.6, 1.0
    ),
    "full_audit_over_training_gpt2": Target("GPT-2, classroom: the full suite of attacks / training", 5.0, 3.0),
    "full_audit_over_training_distilbert": Target("DistilBERT, classroom: the full suite / training", 8.0, 5.0),
    "patients_first_view_over_duckdb": Target("Patients page, 1.2 million notes: first view / bare DuckDB", 10.0, 4.0),
    "patients_bucket_over_duckdb": Target("Patients page: a click on a bucket / bare DuckDB", 10.0, 4.0),
    "patients_filter_over_duckdb": Target("Patients page: a filter / bare DuckDB", 10.0, 4.0),
    "patients_patient_over_duckdb": Target("Patients page: a click on a patient / bare DuckDB", 10.0, 4.0),
    "patients_memory_over_one_gib": Target("Patients page: peak memory of the app / 1 GiB", 1.0, 0.6),
    "memory_100k_over_10k": Target("peak memory, training and scoring: 100,000 notes / 10,000", 1.2, 1.05),
    "time_per_note_100k_over_10k": Target("time a note, training and scoring: 100,000 notes / 10,000", 1.15, 1.0),
}


def in_turns(sides: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: int = 1) -> dict[str, np.ndarray]:
    """Wall-clock seconds of each side in each round, (rounds,); every second round runs the sides in reverse order.

    Every side runs `warm_up` times before the first round.

    Raises:
        ValueError: The number of rounds is even, so that the median would not be one of them.
    """
    check_rounds(rounds)
    names = list(sides)
    for name in names * warm_up:
        sides[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            gc.collect()
            seconds[name].append(seconds_of(sides[name]))
    return {name: np.array(values) for name, values in seconds.items()}


def check_rounds(rounds: int) -> None:
    """Raise ValueError unless `rounds` is a positive odd number."""
    if rounds < 1 or rounds % 2 == 0:
        raise ValueError(f"the number of rounds must be odd, so that one round is the median, not {rounds}")


def seconds_of(work: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call; on a GPU, until its last kernel has ended."""
    _wait_for_kernels()
    begun = time.perf_counter()
    work()
    _wait_for_kernels()
    return time.perf_counter() - begun


def _wait_for_kernels() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_mib() -> float:
    """Peak memory of this process in MiB (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("peak memory is read from /proc/self/status, which this system does not have: use Linux")


def figure(key: str, above: np.ndarray, below: np.ndarray, **more: Any) -> Figures:
    """`{key: {value, bar, aim, rounds, low, high, …}}`: the median of above/below over the rounds, and the quartiles.

    Raises:
        ValueError: A ratio is not a finite number above 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.asarray(above, dtype=float) / np.asarray(below, dtype=float)
    if not (np.isfinite(ratios).all() and (ratios > 0).all()):
        raise ValueError(f"{key}: the ratios {ratios.tolist()} are not all finite and above 0")
    low, value, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    target = TARGETS[key]
    found = {"value": value, "bar": target.bar, "aim": target.aim, "rounds": len(ratios), "low": low, "high": high}
    found["seconds"] = {"above": float(np.median(above)), "below": float(np.median(below))}
    return {key: {**{name: _short(number) for name, number in found.items()}, **more}}


def _short(number: Any) -> Any:
    """Four significant digits: the measurement is not more precise."""
    if isinstance(number, dict):
        return {name: _short(one) for name, one in number.items()}
    return number if isinstance(number, int) else float(f"{number:.4g}")


def show(figures: Figures, *, json: bool) -> None:
    """Print the figures as one JSON object, or one line each with a verdict."""
    if json:
        print(json_format.dumps(figures, indent=2, ensure_ascii=False))
        return
    for key, found in figures.items():
        print(line(key, found))


def line(key: str, found: Mapping[str, Any]) -> str:
    """One figure in words: value, quartiles, target and whether it is met."""
    target = TARGETS[key]
    side = "at most" if target.largest else "at least"
    verdict = "holds" if target.reached(found["value"]) else "missed"
    spread = f" ({found['low']:.2f}–{found['high']:.2f})" if math.isfinite(found["low"]) else ""
    return f"{key}: {found['value']:.2f}{spread}, {side} {target.bar:g} ({verdict}), aim {target.aim:g}"
