"""The app with its models held back: `python -m tests.browser.held_back FILE run app.py …`.

FILE holds a number: how many tokens of each sample a model may hand over. The next one waits until the number grows, so
a test proves what a page shows before it, on any machine.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from streamlit.web.cli import main

from core.serving.streams import Stream


def hold_back(allowed: Path) -> None:
    """Let `Stream.update` wait for the number in this file; a stream that was stopped does not wait."""
    really = Stream.update

    def update(stream: Stream, row: int, text: str) -> bool:
        handed: Counter[int] = vars(stream).setdefault("handed", Counter())  # tokens by sample
        while not stream.done and handed[row] >= int(allowed.read_text()):
            time.sleep(0.02)
        handed[row] += 1
        return really(stream, row, text)

    Stream.update = update


if __name__ == "__main__":
    hold_back(Path(sys.argv.pop(1)))
    sys.argv[0] = "streamlit"
    main()
