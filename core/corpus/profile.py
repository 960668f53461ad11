"""Descriptive tables of a cohort: distributions of fields, codes, note types and lengths, and a search for notes."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from core.corpus.tables import Corpus
from core.phi.fields import FIELDS


def holders_per_code(patients: pd.DataFrame) -> pd.DataFrame:
    """Number of patients with each ICD-10-CM code, most common first: columns `code`, `holders`, `rank` (1-based).

    A patient who has a code twice counts once.
    """
    codes = patients[["patient_id", "icd_codes"]].explode("icd_codes").dropna().drop_duplicates()
    counts = codes["icd_codes"].value_counts(sort=False)
    table = pd.DataFrame({"code": counts.index.astype(str), "holders": counts.to_numpy()})
    table = table.sort_values(["holders", "code"], ascending=[False, True], ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))


def field_profile(corpus: Corpus) -> pd.DataFrame:
    """One row per PHI field: `field`, `role`, number of `distinct` values, and how often the notes contain it.

    `mentions` counts spans over all notes; `patients_named` the patients whose notes contain it at least once; `share`
    is their share of the patients with notes (0..1; NaN without notes). Canaries are not patients and do not count.
    """
    notes, patients = (table[table["split"] != "canary"] for table in (corpus.notes, corpus.patients))
    spans = notes[["patient_id", "phi_spans"]].explode("phi_spans").dropna(subset="phi_spans")
    spans = spans.assign(field=[span["field"] for span in spans["phi_spans"]])
    mentions = spans["field"].value_counts()
    named = spans.groupby("field")["patient_id"].nunique()
    with_notes = notes["patient_id"].nunique()
    rows = [
        {
            "field": field.label,
            "role": field.role,
            "distinct": int(patients[field.name].nunique()),
            "mentions": int(mentions.get(field.name, 0)),
            "patients_named": int(named.get(field.name, 0)),
            "share": named.get(field.name, 0) / with_notes if with_notes else float("nan"),
        }
        for field in FIELDS
    ]
    return pd.DataFrame(rows)


def length_profile(notes: pd.DataFrame) -> pd.DataFrame:
    """Words per note by note type, most frequent type first: `note_type`, `notes`, and quantiles of the word counts.

    A word is a run of non-blank characters. Quantiles: `shortest`, `p5`, `p25`, `median`, `p75`, `p95`, `longest`.
    """
    words = notes["text"].str.split().str.len().astype(int).groupby(notes["note_type"])
    names = {"shortest": 0.0, "p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "longest": 1.0}
    table = pd.DataFrame({"notes": words.size(), **{name: words.quantile(at) for name, at in names.items()}})
    return table.sort_values("notes", ascending=False).reset_index()


def splits(corpus: Corpus) -> pd.DataFrame:
    """One row per split: `split`, `patients` (with at least one note), `notes`."""
    grouped = corpus.notes.groupby("split", sort=False)
    return grouped.agg(patients=("patient_id", "nunique"), notes=("note_id", "size")).reset_index()


def matching_notes(
    corpus: Corpus,
    *,
    splits: Collection[str] = (),
    note_types: Collection[str] = (),
    patient: str = "",
    code: str = "",
    words: str = "",
) -> pd.DataFrame:
    """Notes that pass every filter, in file order. An empty filter passes everything.

    `patient` matches a part of the patient's id or full name, `code` the beginning of one of the patient's codes,
    `words` a part of the text. All ignore case and are plain text, never patterns.
    """
    notes = corpus.notes
    keep = pd.Series(True, index=notes.index)
    if splits:
        keep &= notes["split"].isin(list(splits))
    if note_types:
        keep &= notes["note_type"].isin(list(note_types))
    if words:
        keep &= notes["text"].str.contains(words, case=False, regex=False)
    if patient or code:
        keep &= notes["patient_id"].isin(_matching_patients(corpus.patients, patient, code))
    return notes[keep].reset_index(drop=True)


def _matching_patients(patients: pd.DataFrame, patient: str, code: str) -> pd.Series:
    keep = pd.Series(True, index=patients.index)
    if patient:
        ids = patients["patient_id"].str.contains(patient, case=False, regex=False)
        keep &= ids | patients["full_name"].str.contains(patient, case=False, regex=False).fillna(False)
    if code:
        wanted = code.strip().upper()
        keep &= patients["icd_codes"].map(lambda held: any(str(one).upper().startswith(wanted) for one in held))
    return patients.loc[keep, "patient_id"]
