"""Rarity of the diseases of patients and admissions (Jagannatha 2021, appendix A), by DuckDB over a cohort's Parquet.

Between queries, only the log probability and the number of codes of each patient (or admission) are kept.
"""

# ruff: noqa: S608 — every query is written in this file; user input is passed as parameters

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from core.common.in_memory_duckdb import cursor

Level = Literal["patient", "admission"]
_PARAMETER = re.compile(r"\$(\w+)")

# Jagannatha 2021, eq. 4–5, over the relations `held` (unit, code), each code once per unit, and `units` (unit):
# log p(c) = Σ_all log(1 − p) + Σ_held (log p − log(1 − p)). A code that every unit has says nothing about any of them.
# Sums of the same terms in another order differ by about 1e-13. Rounding to 9 decimals makes them equal, so that units
# with the same rates of codes are in the same bucket.
PROFILE = """
WITH rates AS (
    SELECT code, count(*) / (SELECT count(*) FROM units) AS p FROM held GROUP BY code
),
weights AS (SELECT code, ln(p) - ln(1 - p) AS weight, ln(1 - p) AS absent FROM rates WHERE p < 1)
SELECT units.unit,
    round(coalesce(sum(weight), 0) + (SELECT coalesce(sum(absent), 0) FROM weights), 9) AS log_probability,
    count(held.code)::INT AS codes
FROM units LEFT JOIN held USING (unit) LEFT JOIN weights USING (code) GROUP BY units.unit
"""

# Each patient's codes, each code once.
_CODED = "SELECT DISTINCT patient_id, unnest(icd_codes) AS code FROM read_parquet($patients) WHERE split <> 'canary'"

# Codes of admissions: by the table of diagnoses, or those codes of the patient that a note of the admission names.
_DIAGNOSED = "SELECT DISTINCT admission_id AS unit, code FROM read_parquet($diagnoses)"
_NAMED = f"""
SELECT DISTINCT n.admission_id AS unit, w.code FROM (
    SELECT patient_id, admission_id, text, unnest(entity_spans) AS span FROM read_parquet($notes)
    WHERE split <> 'canary'
) n JOIN words w ON w.wording = substring(n.text, n.span.start + 1, n.span."end" - n.span.start)
JOIN ({_CODED}) c ON c.patient_id = n.patient_id AND c.code = w.code WHERE n.span.field = 'problem'
"""


@dataclass(eq=False)
class DiseaseProfiles:
    """The patients of one cohort: `patients` and `notes` are its Parquet files, possibly with `diagnoses` beside them.

    Threads may share it: every query has its own cursor.
    """

    patients: Path
    notes: Path
    _profiles: dict[str, pa.Table] = field(default_factory=dict, init=False, repr=False)

    @property
    def diagnoses(self) -> Path | None:
        """The file with the codes of each admission, if the cohort came with one."""
        file = self.notes.with_name("diagnoses.parquet")
        return file if file.exists() else None

    @contextmanager
    def _database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """DuckDB with the profiles made so far as `profile_<level>`."""
        with cursor() as database:
            for name, profile in self._profiles.copy().items():
                database.register(name, profile)
            yield database

    def ask(self, query: str, **parameters: Any) -> pd.DataFrame:
        """The result of a query with `$name` parameters. Queries are written in the code, never by a user."""
        with self._database() as database:
            return database.execute(query, {name: parameters[name] for name in set(_PARAMETER.findall(query))}).df()

    def profile(self, level: Level, wordings: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
        """Disease profiles of every evaluated unit: `patient` (a number), `log_probability` and `codes`.

        Codes are counted over all patients except canaries, or over all admissions. If the notes came with diagnoses
        per admission, these count. The synthetic hospital codes patients only: an admission has those codes of its
        patient that one of its notes names, by `wordings` (code → words). An admission without codes has no profile.
        Profiles are computed once, then kept as `profile_<level>` (unit, patient_id, log_probability, codes).
        """
        name = f"profile_{level}"
        with self._database() as database:
            if name not in self._profiles:
                made = self._make_profile(database, level, wordings or {})
                database.register(name, made)
                self._profiles[name] = made
            found = database.execute(
                "SELECT dense_rank() OVER (ORDER BY patient_id) - 1 AS patient, log_probability, codes "
                f"FROM {name} ORDER BY unit"
            )
            return found.fetchnumpy()

    def _make_profile(self, database: duckdb.DuckDBPyConnection, level: Level, wordings: Mapping[str, str]) -> pa.Table:
        if level == "patient":
            held = f"SELECT patient_id AS unit, code FROM ({_CODED})"
            units = "SELECT patient_id AS unit FROM read_parquet($patients) WHERE split <> 'canary'"
            owner = "SELECT unit, unit AS patient_id FROM units"
        else:
            words = pd.DataFrame({"code": list(wordings), "wording": list(wordings.values())}, dtype="str")
            database.register("words", words)
            held = _NAMED if self.diagnoses is None else _DIAGNOSED
            units = "SELECT DISTINCT unit FROM held"
            owner = "SELECT DISTINCT admission_id AS unit, patient_id FROM read_parquet($notes)"
        query = f"""
            WITH held AS ({held}), units AS ({units}), owner AS ({owner}), found AS ({PROFILE})
            SELECT f.unit, o.patient_id, f.log_probability, f.codes FROM found f JOIN owner o USING (unit)
            JOIN read_parquet($patients) p ON p.patient_id = o.patient_id WHERE p.split IN ('member', 'heldout')"""
        files = {"patients": str(self.patients), "notes": str(self.notes), "diagnoses": str(self.diagnoses)}
        used = {name: files[name] for name in set(_PARAMETER.findall(query))}
        return database.sql(query, params=used).to_arrow_table()

    def rates(self, codes: Sequence[str]) -> dict[str, float]:
        """Share of the cohort's patients (except canaries) with each of these codes."""
        query = """
            WITH held AS (SELECT DISTINCT patient_id, unnest(icd_codes) AS code FROM read_parquet($patients)
                          WHERE split <> 'canary')
            SELECT code, count(*) / (SELECT count(*) FROM read_parquet($patients) WHERE split <> 'canary') AS share
            FROM held WHERE list_contains($codes, code) GROUP BY code"""
        found = self.ask(query, patients=str(self.patients), codes=list(codes))
        return dict(zip(found["code"], found["share"], strict=True))

    def codes(self) -> list[str]:
        """Every code that a patient other than a canary has, in alphabetical order."""
        return self.ask(f"SELECT DISTINCT code FROM ({_CODED}) ORDER BY code", patients=str(self.patients))[
            "code"
        ].tolist()

    def without_codes(self) -> tuple[int, int]:
        """Number of patients without any code, and of all patients, except canaries."""
        query = """SELECT count(*) FILTER (coalesce(len(icd_codes), 0) = 0) AS bare, count(*) AS patients
            FROM read_parquet($patients) WHERE split <> 'canary'"""
        found = self.ask(query, patients=str(self.patients)).iloc[0]
        return int(found["bare"]), int(found["patients"])

    def described(self) -> dict[str, str]:
        """Code → description, for the codes that came with one."""
        if self.diagnoses is None:
            return {}
        query = "SELECT code, first(wording) AS words FROM read_parquet($diagnoses) WHERE wording <> '' GROUP BY code"
        found = self.ask(query, diagnoses=str(self.diagnoses))
        return dict(zip(found["code"], found["words"], strict=True))
