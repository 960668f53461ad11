"""Thirty students at once: `python -m core bench serving --json`.

Compares one prompt through `core.serving.server.Server`, to its last token, with thirty different prompts submitted at
once, to the end of the last. The shipped GPT-2 answers with 60 new tokens and the Playground's sampling. Both times
include the time for which the server gathers requests, and every token is streamed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench._models import check_device
from bench._ratio import Figures, figure, in_turns, show
from core.models.build import LanguageModel, load
from core.serving.server import Sampling, Server
from core.spec import ModelSpec

PROMPTS = 30
RUN = "gpt2-000000000000"  # run id of the server's only model
OPENINGS = ("Patient name:", "Discharge summary:", "The patient was admitted with", "Date of birth:", "Address:")


def main(json: bool = False, rounds: int = 9, device: str = "cpu") -> None:
    """Print the figure of serving."""
    check_device(device)
    lm = load(ModelSpec())
    torch.nn.Module.to(lm.model, device)
    show(measure(rounds, lm=lm), json=json)


@dataclass(frozen=True)
class _OneModel:
    """The parts of a workspace that the server needs, with a single run whose model is loaded already."""

    lm: LanguageModel
    weights_identity: tuple[int, ...] | None = None

    def run(self, run_id: str) -> _OneModel:
        """Return the only run."""
        return self

    def model(self) -> LanguageModel:
        """Return its model."""
        return self.lm


def measure(rounds: int, *, lm: LanguageModel, prompts: int = PROMPTS, new_tokens: int = 60) -> Figures:
    """The figure for this number of prompts."""
    server, sampling = Server(_OneModel(lm)), Sampling(new_tokens=new_tokens)
    try:
        sides = {"together": _asked(server, prompts, sampling), "alone": _asked(server, 1, sampling)}
        seconds = in_turns(sides, rounds)
    finally:
        server.close()
    return figure("thirty_prompts_over_one", seconds["together"], seconds["alone"])


def _asked(server: Server, prompts: int, sampling: Sampling) -> Callable[[], None]:
    def run() -> None:
        streams = [
            server.generate(RUN, f"{OPENINGS[number % len(OPENINGS)]} {number}", seeds=[number], sampling=sampling)
            for number in range(prompts)
        ]
        for stream in streams:
            stream.result(600)

    return run
