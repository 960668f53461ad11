"""How rare the diseases of patients and admissions are (row J10), as DuckDB queries over a cohort's Parquet files.

What is kept between questions is each patient's (or admission's) log probability and number of codes.
"""

# ruff: noqa: S608 — every query is written here; what users type is a parameter

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

Level = Literal["patient", "admission"]
MEMORY = "384MB"  # what DuckDB may hold beside the app
_PARAMETER = re.compile(r"\$(\w+)")

# Equations 4–5 of Jagannatha et al. 2021 over a relation `held` (unit, code), a code once a unit, and `units` (unit):
# log p(c) = Σ_all log(1 − p) + Σ_held (log p − log(1 − p)). A code that every unit holds says nothing of any of them.
PROFILE = """
WITH rates AS (
    SELECT code, count(*) / (SELECT count(*) FROM units) AS p FROM held GROUP BY code
),
weights AS (SELECT code, ln(p) - ln(1 - p) AS weight, ln(1 - p) AS absent FROM rates WHERE p < 1)
SELECT units.unit, coalesce(sum(weight), 0) + (SELECT coalesce(sum(absent), 0) FROM weights) AS log_probability,
    count(held.code)::INT AS codes
FROM units LEFT JOIN held USING (unit) LEFT JOIN weights USING (code) GROUP BY units.unit
"""

# A patient's codes, each once.
_CODED = "SELECT DISTINCT patient_id, unnest(icd_codes) AS code FROM read_parquet($patients) WHERE split <> 'canary'"

# Codes of admissions: as the notes' own table says, or those of the patient that a note of the admission names.
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
    """The patients of one cohort: `patients` and `notes` are its Parquet files; beside them there may be `diagnoses`.

    May be shared by threads: every question opens a DuckDB of its own, which may hold MEMORY.
    """

    patients: Path
    notes: Path
    _profiles: dict[str, pa.Table] = field(default_factory=dict, init=False, repr=False)

    @property
    def diagnoses(self) -> Path | None:
        """The file that says which admission has which codes, if the cohort came with one."""
        file = self.notes.with_name("diagnoses.parquet")
        return file if file.exists() else None

    @contextmanager
    def _database(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """DuckDB with the profiles made so far as `profile_<level>`."""
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "threads": 2,
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=settings) as database:
            for name, profile in self._profiles.copy().items():
                database.register(name, profile)
            yield database

    def ask(self, query: str, **parameters: Any) -> pd.DataFrame:
        """The answer to a query with `$name` parameters, written in the code and never typed by a user."""
        with self._database() as database:
            return database.execute(query, {name: parameters[name] for name in set(_PARAMETER.findall(query))}).df()

    def profile(self, level: Level, wordings: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
        """Disease profiles of every judged unit: `patient` (whose it is, a number), `log_probability` and `codes`.

        Codes are counted over all patients but canaries, or over all admissions. Where the notes came with diagnoses
        of admissions these count. The synthetic hospital codes patients alone: an admission has those codes of its
        patient that one of its notes names, by `wordings` (code → words). One without codes has no profile. Made once,
        then kept as `profile_<level>` (unit, patient_id, log_probability, codes).
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
        """Share of the cohort's patients (canaries apart) who hold each of these codes."""
        query = """
            WITH held AS (SELECT DISTINCT patient_id, unnest(icd_codes) AS code FROM read_parquet($patients)
                          WHERE split <> 'canary')
            SELECT code, count(*) / (SELECT count(*) FROM read_parquet($patients) WHERE split <> 'canary') AS share
            FROM held WHERE list_contains($codes, code) GROUP BY code"""
        found = self.ask(query, patients=str(self.patients), codes=list(codes))
        return dict(zip(found["code"], found["share"], strict=True))

    def codes(self) -> list[str]:
        """Every code that somebody holds, canaries apart, in alphabetical order."""
        return self.ask(f"SELECT DISTINCT code FROM ({_CODED}) ORDER BY code", patients=str(self.patients))[
            "code"
        ].tolist()

    def described(self) -> dict[str, str]:
        """Code → description, of the codes that came with one."""
        if self.diagnoses is None:
            return {}
        query = "SELECT code, first(wording) AS words FROM read_parquet($diagnoses) WHERE wording <> '' GROUP BY code"
        found = self.ask(query, diagnoses=str(self.diagnoses))
        return dict(zip(found["code"], found["words"], strict=True))
