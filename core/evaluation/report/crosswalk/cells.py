"""A cell of a crosswalk: a question of a framework, with its status, its text and a link into the report."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pandas as pd

from core.attacks.membership.decision import in_words
from core.evaluation.probes.cards import CAUTION
from core.evaluation.registry import figure_text
from core.evaluation.report.commands import audit_command
from core.evaluation.report.findings import Facts
from core.evaluation.report.glance import CONTRADICTED, LEAK, OF_PUBLIC_NOISE, Subject
from core.evaluation.report.label import Label
from core.evaluation.wording import count_text, interval_text, percent, percent_up

Status = Literal["measured", "guaranteed", "recorded", "argued", "open"]
Row = Mapping[Hashable, Any]
SHOWN = "Shown, not promised: its noise came from a public seed."


@dataclass(frozen=True)
class Cell:
    """An answer with its status.

    `measured`: a figure that an attack or test gave, in the row of this report at `link`. `guaranteed`: follows from
    the mechanism, whatever an attack finds. `recorded`: read from the run's settings or the ledger. `argued`: by the
    text, or by the part of the report at `link`. `open`: the text says what is missing.
    """

    item: str
    status: Status
    text: str
    link: str = ""


def anchor(*parts: object) -> str:
    """The id of a row of the report: `controls-gpt2-2be987fac6e6-exposure-8`."""
    written = (str(part).replace("+", "-plus-") for part in parts)  # min-k % and min-k++ % are two attacks
    return "-".join(re.sub(r"[^0-9A-Za-z_]+", "-", part).strip("-") for part in written)


@dataclass(frozen=True)
class Framework:
    """A document that asks questions, with the part of it that is answered, and its cells by group."""

    key: str
    title: str
    source: str
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Evidence:
    """What the cells are filled from: the subject with the report's tables, its label and the other facts."""

    subject: Subject
    label: Label
    facts: Facts

    def answer(self, name: str) -> str:
        """What the board filled in; empty if it did not."""
        return str(self.facts["decision"][name] or "")

    def fact(self, key: str) -> str:
        """The answer of one of the ten facts."""
        return next(one["answer"] for one in self.facts["glance"] if one["key"] == key)

    def filled(self, item: str, name: str, missing: str) -> Cell:
        """A cell that the board argues in its decision, or that is open."""
        said = self.answer(name)
        return (
            Cell(item, "argued", f"The board: {said}", anchor("decision", name))
            if said
            else Cell(item, "open", missing, anchor("decision", name))
        )

    def guaranteed(self, item: str, text: str, link: str) -> Cell:
        """A cell that the guarantee answers; open without one, if an attack contradicts it, or with a public seed.

        With a public seed `text` still comes first, since it is what the question asks about.
        """
        if self.subject.holds:
            return Cell(item, "guaranteed", text, link)
        if self.label["unit"] is None:
            return Cell(item, "open", "No differential privacy: nothing is guaranteed.", "label")
        if self.subject.alarmed:
            return Cell(item, "open", CONTRADICTED, "fact-audit")
        said = text if text.startswith(OF_PUBLIC_NOISE) else f"{text} {SHOWN}"
        return Cell(item, "open", said, "label")

    def extraction(self, item: str) -> Cell:
        """Identifiers of training patients that the model wrote when prompted."""
        row = self.subject.row("controls", metric=LEAK)
        if row is None:
            return Cell(item, "open", "Not measured.")
        told = f"Prompted texts had a direct identifier of {self._share(row)}."
        return Cell(item, "measured", told, self.at("controls", LEAK))

    def at(self, table: str, *row: object) -> str:
        """The place of a row about the subject in a table of the report."""
        return anchor(table, self.subject.run.id, *row)

    def membership(self, item: str) -> Cell:
        """The strongest membership attack by patient."""
        row = self.subject.row("strongest")
        if row is None:
            return Cell(item, "open", "Not measured.")
        many = f"the strongest of {row['attacks']} membership attacks, " if row["attacks"] > 1 else ""
        value, low, high = (float(row[end]) for end in ("value", "low", "high"))
        ends = interval_text(low, high, lambda end: figure_text("auc_loss", end))
        return Cell(
            item,
            "measured",
            f"AUC {figure_text('auc_loss', value)} by patient ({ends}), {many}{in_words(row['attack'])}; a coin: 0.5.",
            self.at("strongest"),
        )

    def verbatim(self, item: str) -> Cell:
        """Notes that the prefix attack of a full audit completed word for word."""
        rows = self.subject.rows("memorised", arm="run")
        if not rows:
            return self.needs_audit(item)
        row = max(rows, key=lambda one: one["prefix_tokens"])
        tokens = row["prefix_tokens"]
        notes = "the cohort's training notes" if self.subject.run.spec.is_base else "its notes"
        told = f"After {tokens} tokens it wrote the rest of {percent(row['value'])} of {notes} word for word"
        told += f" ({interval_text(row['low'], row['high'])})"
        control = self.subject.row("memorised", arm="heldout", prefix_tokens=tokens)
        beside = "" if control is None else f", and of {percent(control['value'])} of held-out notes"
        return Cell(item, "measured", f"{told}{beside}.", self.at("memorised", "run"))

    def tries(self, item: str) -> Cell:
        """How many tries a member's name takes; without that attack, the exposure of canaries."""
        row = self.subject.row("tries", field="full_name", figure="one_in", arm="run")
        if row is None:
            return self.exposure(item)
        told = (
            f"The median patient's name takes {count_text(row['value'])} tries"
            if math.isfinite(row["value"])
            else "Under this sampler, half or more of the patients' names cannot begin a text"
        )
        above = self.subject.row("tries", field="full_name", figure="above", arm="run")
        if above is not None:
            told += f"; {percent(above['value'])} ({interval_text(above['low'], above['high'])}) are easier than every "
            told += f"held-out patient's; if training had no effect, up to {percent_up(above['by_chance'])} may be, in "
            told += "95\u00a0% of cohorts and for all identifiers looked at"
        return Cell(item, "measured", f"{told}.", self.at("tries", "full_name", "run"))

    def exposure(self, item: str) -> Cell:
        """How deeply planted canaries are memorised: the figure of the most copies, with its control of as many."""
        frame = self.subject.tables["controls"]
        rows = frame[(frame["run"] == self.subject.run.id) & frame["metric"].str.startswith("exposure:")]
        if rows.empty:
            return Cell(item, "open", "Not measured: no canaries were planted.")
        row = rows.iloc[0].to_dict()
        copies = row["metric"].partition(":")[2]
        times = f"{copies} time{'' if copies == '1' else 's'}"
        told = f"Canaries planted {times} have an exposure of {_bits(row, '')}"
        if not math.isnan(row["heldout_value"]):
            told += f"; those left out that would have been planted {times}, of {_bits(row, 'heldout_')}"
        return Cell(item, "measured", f"{told}.", self.at("controls", row["metric"]))

    def probes(self, item: str, about: str) -> Cell:
        """The identity probes of a full audit."""
        rows = self.subject.rows("probes")
        if not rows:
            return self.needs_audit(item)
        leaks = sum(row["verdict"] == "leak" for row in rows)
        text = f"{about}: {leaks} of {len(rows)} identity probes found a leak. {CAUTION}"
        return Cell(item, "measured", text, self.at("probes"))

    def rarity(self, item: str) -> Cell:
        """Leakage by rarity of the disease profile, under the first attack that could be tested."""
        every = self.subject.rows("rarity_trends")
        rows = [row for row in every if not math.isnan(row["p_corrected"])]
        if not rows:
            told = self.facts["rarity"].get(self.subject.run.id, [])
            why = f"{every[0]['rarity']}." if every else told[0] if told else "no patient has diagnosis codes."
            return Cell(item, "open", f"Not measured: {why[0].lower()}{why[1:]}", "rarity")
        said = str(rows[0]["rarity"])
        answer = f"{said[0].upper()}{said[1:]}, by {in_words(rows[0]['attack'])}."
        return Cell(
            item,
            "measured",
            f"Do patients with rarer diseases leak more? {answer}",
            self.at("rarity", rows[0]["attack"]),
        )

    def needs_audit(self, item: str) -> Cell:
        """A cell that only a full audit answers."""
        if self.subject.run.spec.is_base:
            return Cell(item, "open", "Not measured for the public model.")
        return Cell(item, "open", f"Needs the full audit: {audit_command(self.subject.run.id)}")

    def _share(self, row: Row) -> str:
        told = f"{percent(row['value'])} of {self.subject.patients} ({interval_text(row['low'], row['high'])})"
        return (
            told if pd.isna(row["heldout_value"]) else f"{told}, and {percent(row['heldout_value'])} of held-out ones"
        )


def _bits(row: Row, prefix: str) -> str:
    """A mean exposure with its interval and the number of its canaries: few, so that neither may be missing."""
    number = partial(figure_text, row["metric"])
    ends = interval_text(row[f"{prefix}low"], row[f"{prefix}high"], number)
    return f"{number(row[f'{prefix}value'])} bits ({ends}, n = {row[f'{prefix}n']:,})"
