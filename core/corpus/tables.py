"""The corpus tables: their Arrow schemas, and `Corpus`, which holds them.

| table | one row is |
|---|---|
| patients | a patient: id, split, the 13 PHI fields, ICD-10-CM codes |
| notes | a note: ids, split, type, date, text, exact character spans of PHI and of clinical entities |
| canaries | a planted secret: form, text, number of copies, and whether the coin inserted it |
| diagnoses | a code of an admission, with its description: only for notes that came with such a table |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.common.files import create, make_folder, replace_text
from core.corpus.shared_values import shared_values
from core.phi.fields import FIELDS
from core.spec import AuditSpec, CorpusSpec

Split = Literal["member", "heldout", "population", "canary"]
LEFT_OUT = "left out"  # split of a member whom a training did not read, in the view of `Corpus.without`

JUDGED_SPLITS = ("member", "heldout")  # those that an attack tells apart
# For the choice of the patients that are judged. `core.attacks.membership.reference` has the same number for population
# patients. That does no harm: these are other patients, each choice alone is uniform, and no figure pairs their places.
_JUDGED_STREAM = 13

SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("field", pa.string())])

PATIENTS = pa.schema(
    [
        ("patient_id", pa.string()),
        ("split", pa.string()),
        *[(field.name, pa.string()) for field in FIELDS],
        ("age", pa.int16()),
        ("sex", pa.string()),
        ("icd_codes", pa.list_(pa.string())),
    ]
)
NOTES = pa.schema(
    [
        ("note_id", pa.string()),
        ("patient_id", pa.string()),
        ("admission_id", pa.string()),
        ("split", pa.string()),
        ("note_type", pa.string()),
        ("date", pa.string()),
        ("text", pa.string()),
        ("phi_spans", pa.list_(SPAN)),  # field: a name of core.phi.fields.FIELDS
        ("entity_spans", pa.list_(SPAN)),  # field: problem | test | treatment
    ]
)
CANARIES = pa.schema(
    [
        ("canary_id", pa.string()),
        ("form", pa.string()),  # HS | HSH | HHSHH | patient | random
        ("text", pa.string()),  # the whole planted sentence
        ("secret", pa.string()),
        ("secret_start", pa.int32()),
        ("insertions", pa.int32()),  # copies if the coin inserts it
        ("inserted", pa.bool_()),
    ]
)

DIAGNOSES = pa.schema(
    [
        ("patient_id", pa.string()),
        ("admission_id", pa.string()),
        ("code", pa.string()),  # as in patients' icd_codes
        ("wording", pa.string()),  # its description, if the data set has one
    ]
)


def spans_array(spans: Sequence[list[tuple[int, int, str]]]) -> pa.ListArray:
    """Arrow column with one list of (start, end, field) a note; much faster than from dictionaries."""
    ends = accumulate((len(of_note) for of_note in spans), initial=0)
    flat = [span for of_note in spans for span in of_note]
    columns = [
        pa.array([span[place] for span in flat], type=SPAN.field(place).type) for place in range(SPAN.num_fields)
    ]
    return pa.ListArray.from_arrays(
        pa.array(ends, type=pa.int32()), pa.StructArray.from_arrays(columns, fields=list(SPAN))
    )


def no_diagnoses() -> pd.DataFrame:
    """An empty table of diagnoses, for cohorts that have codes by patient only."""
    return DIAGNOSES.empty_table().to_pandas()


class ContentId:
    """`Corpus.content_id` of tables that come in parts: patients, notes, canaries, and diagnoses if there are any."""

    def __init__(self, owner: str = "") -> None:
        self._hash = hashlib.sha256(owner.encode())

    def begin(self, name: str) -> None:
        """Start a table: rows added from now on belong to it."""
        self._hash.update(f"{name}\n".encode())

    def add(self, rows: pa.Table) -> None:
        """Add rows, in the schema of their table."""
        for start in range(0, len(rows), 500):
            for row in rows.slice(start, 500).to_pylist():
                self._hash.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode())
                self._hash.update(b"\n")

    def digest(self) -> str:
        """16 hex digits."""
        return self._hash.hexdigest()[:16]


def notes_by_patient(notes: pd.DataFrame) -> pd.Series:
    """Number of notes of each patient among training `notes`, by patient id. Canaries belong to no patient."""
    return notes[notes["split"] == "member"].groupby("patient_id").size()


def write_table(folder: Path, name: str, frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Write one table into a cohort's folder, and return it as an Arrow table."""
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    pq.write_table(table, create(folder / f"{name}.parquet"), compression="zstd")
    return table


@dataclass(frozen=True)
class Corpus:
    """Patients, notes and canaries of one cohort. `notes` holds every split; canary notes have split `canary`.

    `diagnoses` gives the codes of each admission if the notes came with such a table, and is empty otherwise.
    """

    spec: CorpusSpec | None
    patients: pd.DataFrame
    notes: pd.DataFrame
    canaries: pd.DataFrame
    diagnoses: pd.DataFrame = field(default_factory=no_diagnoses)

    def notes_of(self, *splits: Split) -> pd.DataFrame:
        """Notes of the given splits, in file order, with a fresh 0-based index."""
        return self.notes[self.notes["split"].isin(splits)].reset_index(drop=True)

    @cached_property
    def shared_values(self) -> frozenset[tuple[str, str]]:
        """(patient id, field) of the identifying values that several audited patients have.

        No comparison of members with held-out patients counts them (`core.attacks.memorisation.own_values`). Only
        imported notes have any: no two generated patients get the same value (`core.corpus.synthetic.feistel`). Who is
        left out of a training (`without`) still counts as a holder, so that trainings with and without a patient are
        judged on the same values.
        """
        if self.spec is None or self.spec.imported is None:
            return frozenset()
        return shared_values(self.patients[self.patients["split"].isin([*JUDGED_SPLITS, LEFT_OUT])])

    def training_notes(self, max_notes_per_patient: int | None = None) -> pd.DataFrame:
        """The notes a model is trained on: those of members and the inserted canaries, in file order.

        Args:
            max_notes_per_patient: a run's `RunSpec.note_cap`; each patient's first notes up to this many are kept. None
                keeps all. (Jagannatha 2021, §5.2, caps patients at 50 samples.)
        """
        notes = self.notes_of("member", "canary")
        if max_notes_per_patient is None:
            return notes
        keep = notes.groupby("patient_id", sort=False).cumcount() < max_notes_per_patient
        return notes[keep].reset_index(drop=True)

    def without(self, patients: Collection[str] | None) -> Corpus:
        """The cohort as a training that leaves out these members sees it; None or nobody: the cohort itself.

        Their split becomes `left out`: no training reads them, and no attack counts them as a member or as held out.
        Everybody else's split, and which of them an audit judges, stay as they are.

        Raises:
            ValueError: One of them is not a member of this cohort.
        """
        if not patients:
            return self
        known = set(self.patients.loc[self.patients["split"].isin(["member", LEFT_OUT]), "patient_id"])
        for patient in patients:
            if patient not in known:
                raise ValueError(f"patient {patient} is not a member of this cohort, so no training read their notes")
        if not (set(self.notes_of("member")["patient_id"]) - set(patients)):
            raise ValueError("nobody would be left to train on: leave out fewer patients")
        frames = {
            name: frame.assign(split=frame["split"].mask(frame["patient_id"].isin(patients), LEFT_OUT))
            for name, frame in (("patients", self.patients), ("notes", self.notes))
        }
        return replace(self, **frames)

    def evaluation_notes(self, max_notes_per_patient: int | None, audit: AuditSpec | None = None) -> pd.DataFrame:
        """All notes except those of members that were not trained on because of the cap (see `training_notes`).

        An audit that judges some patients alone (`AuditSpec.patients`) also leaves out the other members' and held-out
        patients' notes.
        """
        keep = pd.Series(True, index=self.notes.index)
        if max_notes_per_patient is not None:
            trained = self.training_notes(max_notes_per_patient)["note_id"]
            keep &= (self.notes["split"] != "member") | self.notes["note_id"].isin(trained)
        if audit is not None and audit.patients is not None:
            kept = self.judged_patients(audit)
            keep &= ~self.notes["split"].isin(JUDGED_SPLITS) | self.notes["patient_id"].isin(kept)
        return self.notes if keep.all() else self.notes[keep]

    def judged_patients(self, audit: AuditSpec) -> frozenset[str]:
        """Ids of the members and held-out patients whose notes this audit judges, at most `audit.patients` of each.

        They are drawn by the audit's seed from the cohort alone, so all runs of a cohort are judged on the same ones,
        less those that a run leaves out.
        """
        chosen: set[str] = set()
        for number, split in enumerate(JUDGED_SPLITS):
            of_split = self.notes["split"].isin([split, LEFT_OUT] if split == "member" else [split])
            ids = np.sort(self.notes.loc[of_split, "patient_id"].unique().astype(object))
            order = np.random.default_rng([audit.seed, _JUDGED_STREAM, number]).permutation(len(ids))
            chosen |= set(ids[order[: audit.patients]])
        return frozenset(chosen)

    def _frames(self) -> dict[str, tuple[pd.DataFrame, pa.Schema]]:
        """The tables by name with their schemas; an empty one of diagnoses is left out."""
        frames = {"patients": (self.patients, PATIENTS), "notes": (self.notes, NOTES)}
        frames["canaries"] = (self.canaries, CANARIES)
        return frames | ({"diagnoses": (self.diagnoses, DIAGNOSES)} if len(self.diagnoses) else {})

    def content_id(self, owner: str = "") -> str:
        """First 16 hex digits of the SHA-256 of every row as canonical JSON: equal notes have equal ids.

        With an `owner`, the same notes of two owners have different ids, so that nothing derived from them is shared.
        """
        digest = ContentId(owner)
        for name, (frame, schema) in self._frames().items():
            digest.begin(name)
            for start in range(0, len(frame), 1_000):  # in parts, so that no table is held in memory twice
                part = frame.iloc[start : start + 1_000]
                digest.add(pa.Table.from_pandas(part, schema=schema, preserve_index=False))
        return digest.digest()

    def write(self, folder: Path) -> None:
        """Write the tables and the spec into `folder`, which must exist. Imported notes make it private."""
        if self.spec is not None and self.spec.imported is not None:
            make_folder(folder, private=True)
        for name, (frame, schema) in self._frames().items():
            write_table(folder, name, frame, schema)
        if self.spec is not None:
            replace_text(folder / "spec.json", self.spec.model_dump_json(indent=2))

    @classmethod
    def read(cls, folder: Path) -> Corpus:
        """Read what `write` wrote. Raises FileNotFoundError naming the missing file."""
        frames = {
            name: pq.read_table(folder / f"{name}.parquet").to_pandas() for name in ("patients", "notes", "canaries")
        }
        if (folder / "diagnoses.parquet").exists():
            frames["diagnoses"] = pq.read_table(folder / "diagnoses.parquet").to_pandas()
        spec_file = folder / "spec.json"
        spec = CorpusSpec.model_validate_json(spec_file.read_bytes()) if spec_file.exists() else None
        return cls(spec=spec, **frames)
