"""The battery: what an attack is, what it is given, and the one list of all of them.

An attack is a function from a `Target` (a trained model, its cohort and the tables its run already has) to tidy tables.
It says about itself what a reader has to know before believing a figure: which paper's row it repeats, what access it
needs, which kinds of model it makes sense for, and what it costs. `core.attacks.battery` imports every module that
registers attacks; `core.pipeline.full_audit` runs them and stores what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pandas as pd

from core.corpus.tables import Corpus
from core.spec import ModelKind, RunSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

Access = Literal["black-box", "grey-box", "white-box"]  # text alone · probabilities of tokens · weights and activations
Cost = Literal["cheap", "moderate", "dear"]
Report = Callable[[int, int], None]  # (done, total); raises to stop the attack between two batches
Tables = Mapping[str, pd.DataFrame]
KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert", "bert")
MASKED: tuple[ModelKind, ...] = ("distilbert", "bert")

T = TypeVar("T")


def no_report(done: int, total: int) -> None:
    """A `Report` that nobody listens to."""


class NotPossible(ValueError):
    """A cohort does not hold what an attack needs, now or ever. The text says what, and which cohort would."""


@dataclass(eq=False)
class Target:
    """What an attack may use. Everything costly is computed once and shared by all attacks of one audit.

    `tables` reads a table of the run (core.runs.tables.SCHEMAS) by name. `models` gives a model by its role: `target`
    is the model under attack, `base` the public model it started from; `core.attacks.membership.reference` adds
    reference models trained on the disjoint population. A loader is called once. Where the target has `own_words`,
    every other model is given them too (`LanguageModel` with the same word list), so that all are asked for the same
    tokens.
    """

    spec: RunSpec
    corpus: Corpus
    tables: Callable[[str], pd.DataFrame]
    models: dict[str, Callable[[Report], LanguageModel]]
    own_words: tuple[str, ...] | None = None
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> ModelKind:
        """Kind of the model under attack."""
        return self.spec.model.kind

    @property
    def lm(self) -> LanguageModel:
        """The model under attack."""
        return self.model("target")

    @property
    def base(self) -> LanguageModel:
        """The public model that training started from."""
        return self.model("base")

    def model(self, role: str, report: Report = no_report) -> LanguageModel:
        """The model of that role, loaded (or trained) on first use. Raises KeyError naming the roles there are."""
        if role not in self.models:
            raise KeyError(f"there is no model “{role}” to compare with; there are {', '.join(self.models)}")
        return self.once(("model", role), lambda: self.models[role](report))

    @property
    def trained_texts(self) -> list[str]:
        """What the model under attack read: its training notes after the run's defence, if it has one."""
        from core.corpus.transforms.defences import defended

        def made() -> list[str]:
            notes = self.corpus.training_notes(self.spec.note_cap)
            return defended(notes, self.spec.defence)["text"].tolist()

        return self.once("trained texts", made)

    def public(self) -> LanguageModel:
        """The public model with the target's word list: what `base` is, and what reference models are trained from.

        Words of the target's own begin as the mean of their public pieces (`core.models.dp_vocabulary`): whoever
        has the target has its word list, and an attacker's models then read, and are masked, at the same places.
        """
        from core.models.dp_vocabulary import public_model

        return public_model(self.spec.model, self.own_words)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, computed by whoever asks first. `key` must name the value and all that it depends on."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


@dataclass(frozen=True)
class Attack:
    """One attack of the battery.

    `run(target, report)` returns a frame for each of `tables` (names of `TABLES`, whose columns it must have exactly).
    `report(done, total)` is to be called between batches: it carries the progress and stops the attack by raising.
    """

    name: str
    row: str  # of the papers' table, e.g. "M1"
    access: Access
    kinds: tuple[ModelKind, ...]
    cost: Cost
    sentence: str  # for a student
    tables: tuple[str, ...]
    run: Callable[[Target, Report], Tables]
    version: int = 1  # raise it when code changes what the attack computes: stored results are then made again


TABLES: dict[str, dict[str, str]] = {}  # table → {column: pandas dtype}
REGISTRY: dict[str, Attack] = {}  # in the order in which they are run


def register_table(name: str, columns: Mapping[str, str]) -> None:
    """Declare a table that attacks write. Raises ValueError when it was declared with other columns."""
    if TABLES.setdefault(name, dict(columns)) != dict(columns):
        raise ValueError(f"the table {name} is declared twice, with different columns")


def register(attack: Attack) -> Attack:
    """Add an attack to the battery. Raises ValueError for a name that is taken or a table that was not declared."""
    if attack.name in REGISTRY:
        raise ValueError(f"two attacks are called “{attack.name}”")
    unknown = [name for name in attack.tables if name not in TABLES]
    if unknown:
        raise ValueError(f"the attack “{attack.name}” writes tables that are not declared: {', '.join(unknown)}")
    REGISTRY[attack.name] = attack
    return attack


def applicable(kind: ModelKind) -> list[Attack]:
    """The attacks that make sense for a kind of model, in the order in which they are run."""
    return [attack for attack in REGISTRY.values() if kind in attack.kinds]


def checked(attack: Attack, frames: Tables) -> dict[str, pd.DataFrame]:
    """The frames in their tables' column order and types. Raises ValueError when a table or a column is missing or new.

    Every frame is kept with a clean index, so that what is stored depends on nothing but its rows.
    """
    if set(frames) != set(attack.tables):
        raise ValueError(f"the attack “{attack.name}” returned {sorted(frames)} instead of {sorted(attack.tables)}")
    done = {}
    for name, frame in frames.items():
        columns = TABLES[name]
        if set(frame.columns) != set(columns):
            wrong = sorted(map(str, set(frame.columns) ^ set(columns)))
            raise ValueError(f"the attack “{attack.name}” and its table {name} differ in {', '.join(wrong)}")
        done[name] = frame[list(columns)].astype(columns).reset_index(drop=True)
    return done
