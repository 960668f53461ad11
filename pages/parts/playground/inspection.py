"""What several models expect at each place of one text: asked of the model server, drawn token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from core.runs.run import Run
from core.serving.server import Server, Stream
from pages.parts.pickers import run_picker
from pages.parts.playground import token_strip
from pages.parts.session import models, owner

if TYPE_CHECKING:
    from core.models.token_view import TokenView

WAIT_SECONDS = 60.0  # for a model that has to be loaded on a busy server
BUSY = "The server is busy and did not answer in time. Close this window and try again."


@dataclass(frozen=True)
class Judged:
    """A model, and every token of the text as it sees it; without tokens, a sentence that says why.

    `name` is the model in a few words, which no other model of the text has.
    """

    run: Run
    name: str
    views: Sequence[TokenView] = ()
    error: str | None = None


def names(runs: Sequence[Run]) -> list[str]:
    """Each model in a few words: the public one, one without a patient, or what distinguishes it from the others."""
    trained = [run for run in runs if not run.spec.is_base and run.spec.without is None]
    named = dict(zip([run.id for run in trained], run_picker.short_names(trained), strict=True))
    for run in runs:
        if run.spec.without is not None:
            named[run.id] = f"without {', '.join(run.spec.without)}"
        elif run.spec.is_base:
            named[run.id] = "public model"
    times = Counter(named.values())
    return [named[run.id] if times[named[run.id]] == 1 else f"{named[run.id]} ({run.id[-4:]})" for run in runs]


def with_public(runs: Sequence[Run]) -> list[Run]:
    """These models, each once, and after the first the public model that it was trained from, if its weights are here.

    Models of another kind than the first, or of another cohort, are left out: they cannot be compared on one text.
    """
    first = runs[0].spec
    base = owner.workspace().find(first.base_spec())
    public = [base] if base is not None and base.has_model else []
    alike = [run for run in runs if (run.spec.model.kind, run.spec.corpus) == (first.model.kind, first.corpus)]
    return list({run.id: run for run in (runs[0], *public, *alike)}.values())


def never_read(run: Run, patients: Sequence[str]) -> list[Run]:
    """The run trained again without one of these patients, if it was made and its weights are here."""
    if run.spec.is_base:
        return []
    made = (owner.workspace().find(run.spec.retrained_spec(patient)) for patient in patients[:3])
    return [one for one in made if one is not None and one.has_model][:1]


def start(runs: Sequence[Run], text: str) -> list[Stream]:
    """Ask every model at once. Never raises: an error is in its stream."""
    return [models.asked(run, text, partial(_inspected, run, text)) for run in runs]


def _inspected(run: Run, text: str, server: Server) -> Stream:
    return server.inspect(run.id, text)


def finish(runs: Sequence[Run], streams: Sequence[Stream]) -> list[Judged]:
    """Wait for the answers to `start`."""
    found = []
    for run, name, stream in zip(runs, names(runs), streams, strict=True):
        stream.wait(WAIT_SECONDS)
        if not stream.done:
            stream.cancel()
        error = stream.error or (BUSY if stream.views is None else None)
        found.append(Judged(run, name, stream.views or (), error))
    return found


def draw_tokens(text: str, judged: Sequence[Judged], *, at: int = 0, key: str) -> None:
    """The text token by token, coloured by how much likelier a token is in the first model than in the public one.

    Args:
        text: what was judged.
        judged: the models, without errors; the first one is coloured.
        at: the character whose token is chosen at first.
        key: of the component.
    """
    reference = next((place for place, one in enumerate(judged) if one.run.spec.is_base and place), None)
    how = "Click a token, or move with ← and →, to see what each model expected there."
    if reference is not None:
        st.caption(
            "Orange: more likely under the first model than under the public one; full colour: at least 1,000 times. "
            f"Blue: less likely. {how}"
        )
    else:
        st.caption(how)
    seen = [token_strip.Seen(one.name, one.views) for one in judged]
    token_strip.draw(text, seen, reference=reference, at=at, key=key)
