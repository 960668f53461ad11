"""Every page with a store of 1,000 runs, against the same page with 50: `python -m core bench many_runs --json`.

Both stores are made in a temporary folder (`bench.load._store`). Each page's script is run in this process by
`streamlit.testing`, in turns: small store, large store, then in the other order. A time is processor seconds of the
whole process from the start of the page's script to its end. The first visit to each page, which fills caches, is
apart: it computes the figures of the compared models, of which the large store has twenty times as many seeds.
"""

from __future__ import annotations

import contextlib
import json as json_format
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench._ratio import check_rounds
from bench.load._store import fill
from core.runs.store import DEMO

ROOT = Path(__file__).resolve().parents[2]
FEW, MANY = 50, 1_000
GOAL = 2.0
WAIT = 600  # seconds for a page


def visit(page: str, root: Path) -> float:
    """Open a page in a session of its own; processor seconds of its script. Raises RuntimeError if it raises."""
    from streamlit.testing.v1 import AppTest

    os.environ["PHILAB_DATA"] = str(root)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    if page != "home":
        app.run().switch_page(f"pages/{page}.py")
    begun = time.process_time()
    app.run()
    seconds = time.process_time() - begun
    if app.exception:
        raise RuntimeError(f"the page {page} raised: {app.exception[0].message}")
    return seconds


def measure(
    rounds: int, *, few: int = FEW, many: int = MANY, pages: Sequence[str] = (), source: Path = DEMO
) -> dict[str, Any]:
    """Processor seconds of each page with both stores, as JSON."""
    from pages.parts.common.shell import page_names

    check_rounds(rounds)
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-bench-") as folder, _quiet():
        stores = {"few": Path(folder) / "few", "many": Path(folder) / "many"}
        found_runs = {
            name: len(set(fill(root, {"few": few, "many": many}[name], source=source))) for name, root in stores.items()
        }
        found = {page: _page(page, stores, rounds) for page in pages or page_names()}
    worst = max(found, key=lambda page: found[page]["ratio"])
    return {
        "runs": found_runs,
        "rounds": rounds,
        "pages": found,
        "worst": {worst: found[worst]["ratio"]},
        "goal_held": all(one["ratio"] <= GOAL for one in found.values()),
    }


def _page(page: str, stores: dict[str, Path], rounds: int) -> dict[str, float]:
    first = {name: visit(page, root) for name, root in stores.items()}
    seconds: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(rounds):
        for name in stores if number % 2 == 0 else reversed(stores):
            seconds[name].append(visit(page, stores[name]))
    few, many = (float(np.median(seconds[name])) for name in ("few", "many"))
    told = {"few": few, "many": many, "ratio": many / few, "first_few": first["few"], "first_many": first["many"]}
    print(page, {name: round(value, 3) for name, value in told.items()}, file=sys.stderr, flush=True)
    return {name: round(value, 3) for name, value in told.items()}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The stores alone, without the shipped runs, worker processes and Streamlit's warnings about a missing server."""
    from core.jobs.engine import Engine
    from pages.parts.session import resources

    before = {name: os.environ.get(name) for name in ("PHILAB_DATA", "PHILAB_SHIPPED")}
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    os.environ["PHILAB_SHIPPED"] = os.devnull
    resources.forget_process()
    try:
        with patch.object(Engine, "warm"):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        resources.forget_process()


def main(json: bool = False, rounds: int = 5) -> None:
    """Make both stores, measure every page, and print."""
    found = measure(rounds)
    if json:
        print(json_format.dumps(found, indent=1))
        return
    for page, one in found["pages"].items():
        print(f"{page}: {one['few']:.3f} s → {one['many']:.3f} s, {one['ratio']:.2f}; goal at most {GOAL:g}")


if __name__ == "__main__":
    main(json="--json" in sys.argv)
