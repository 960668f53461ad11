"""The battery: what an attack is, what it receives, and the list of all attacks.

An attack is a function from a `Target` (a trained model, its cohort and the existing tables of its run) to tidy tables.
It states what you need to know before you trust its figures: its source, the access it needs, the kinds of model it
applies to, and its cost. `core.attacks.battery` imports every module that registers attacks; `core.pipeline.full_audit`
runs them and stores what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import pandas as pd

from core.corpus.tables import Corpus
from core.spec import ModelKind, RunSpec

if TYPE_CHECKING:
    from core.attacks.membership.shadow_scores import ShadowScores
    from core.models.build import LanguageModel

Access = Literal["black-box", "grey-box", "white-box"]  # text only · token probabilities · weights and activations
Cost = Literal["cheap", "moderate", "expensive"]
Report = Callable[[int, int], None]  # (done, total); raises to stop the attack between two batches
Tables = Mapping[str, pd.DataFrame]
KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
MASKED = tuple(kind for kind in KINDS if kind != "gpt2")

T = TypeVar("T")


def no_report(done: int, total: int) -> None:
    """A `Report` that does nothing."""


class NotPossible(ValueError):
    """The cohort lacks what an attack needs, so running it again cannot help. The message says what is missing."""


@dataclass(eq=False)
class Target:
    """What an attack may use. Expensive values are computed once and shared by all attacks of one audit.

    Attributes:
        spec: settings of the run under attack.
        corpus: its cohort.
        tables: reads a table of the run by name (core.runs.tables.SCHEMAS).
        models: loaders by role. `target` is the model under attack, `base` the public model it started from;
            `core.attacks.membership.reference` adds reference models trained on the disjoint population. A loader is
            called once.
        own_words: the target's own vocabulary, if it has one. Every other model then gets the same vocabulary, so that
            all models score the same tokens.
        shadows: reads what the shadow models say of the evaluation notes (`core.pipeline.shadows`); None: there are
            none to read.
    """

    spec: RunSpec
    corpus: Corpus
    tables: Callable[[str], pd.DataFrame]
    models: dict[str, Callable[[Report], LanguageModel]]
    own_words: tuple[str, ...] | None = None
    shadows: Callable[[Target], ShadowScores] | None = None
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
        """The model with this role, loaded (or trained) on first use. Raises KeyError, listing the available roles."""
        if role not in self.models:
            raise KeyError(f"there is no model “{role}” to compare with; available: {', '.join(self.models)}")
        return self.once(("model", role), lambda: self.models[role](report))

    @property
    def trained_notes(self) -> pd.DataFrame:
        """The notes the model under attack was trained on: its training notes, after the run's defence if any."""
        from core.corpus.transforms.defences import defended

        notes = self.corpus.training_notes
        return self.once("trained notes", lambda: defended(notes(self.spec.note_cap), self.spec.defence))

    @property
    def trained_texts(self) -> list[str]:
        """The texts of `trained_notes`."""
        return self.once("trained texts", lambda: self.trained_notes["text"].tolist())

    def public(self) -> LanguageModel:
        """The public model with the target's vocabulary: `base`, and the starting point of reference models.

        New vocabulary entries start as the mean of their public pieces (`core.models.dp_vocabulary`). Anyone who has
        the target also has its vocabulary, so an attacker's models tokenise and mask the notes in the same way.
        """
        from core.models.dp_vocabulary import public_model

        return public_model(self.spec.model, self.own_words)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, computed on first use. `key` must identify the value and everything it depends on."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


@dataclass(frozen=True)
class Attack:
    """One attack of the battery.

    `run(target, report)` returns one frame for each of `tables` (names in `TABLES`, with exactly those columns). It
    must call `report(done, total)` between batches, which shows progress and stops the attack by raising.
    """

    name: str
    source: str  # paper and section, e.g. "Lehman 2021, §6.3"
    access: Access
    kinds: tuple[ModelKind, ...]
    cost: Cost
    sentence: str  # what it does, for a student
    tables: tuple[str, ...]
    run: Callable[[Target, Report], Tables]
    version: int = 1  # increase it when a code change alters the result; stored results are then computed again
    version_imported: int = 0  # of runs on imported notes, where a later change concerned these alone
    version_masked: int = 0  # the same of masked models

    def version_for(self, spec: RunSpec) -> int:
        """Version of the results that are computed now for a run of this spec."""
        concerned = [self.version]
        if spec.corpus.imported is not None:
            concerned.append(self.version_imported)
        if spec.model.kind in MASKED:
            concerned.append(self.version_masked)
        return max(concerned)


TABLES: dict[str, dict[str, str]] = {}  # table → {column: pandas dtype}
REGISTRY: dict[str, Attack] = {}  # in the order in which they are run


def register_table(name: str, columns: Mapping[str, str]) -> None:
    """Declare a table that attacks write. Raises ValueError if it is already declared with other columns."""
    if TABLES.setdefault(name, dict(columns)) != dict(columns):
        raise ValueError(f"the table {name} is declared twice, with different columns")


def register(attack: Attack) -> Attack:
    """Add an attack to the battery. Raises ValueError if its name is taken or one of its tables is not declared."""
    if attack.name in REGISTRY:
        raise ValueError(f"two attacks are called “{attack.name}”")
    unknown = [name for name in attack.tables if name not in TABLES]
    if unknown:
        raise ValueError(f"the attack “{attack.name}” writes tables that are not declared: {', '.join(unknown)}")
    REGISTRY[attack.name] = attack
    return attack


def applicable(kind: ModelKind) -> list[Attack]:
    """The attacks that apply to a kind of model, in the order in which they run."""
    return [attack for attack in REGISTRY.values() if kind in attack.kinds]


def checked(attack: Attack, frames: Tables) -> dict[str, pd.DataFrame]:
    """The frames with their tables' column order and types, and a fresh index.

    Raises:
        ValueError: when a table or a column is missing or unexpected.
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
