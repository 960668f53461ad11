"""Questions about patients, as DuckDB queries over a cohort's and a run's Parquet files.

Nothing here reads a table whole: every answer is an aggregate, or the rows of one bucket or one patient. How rare a
patient's diseases are comes from `core.runs.disease_profiles`.
"""

# ruff: noqa: S608 — every query is written here; what users type is a parameter

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from core.runs.disease_profiles import DiseaseProfiles, Level

# The values of a patient that prompts made the model write: leaks of members, coincidences with held-out patients.
_WRITTEN = "rule = 'value' AND ((split = 'member' AND kind IN ('leak', 'linked leak')) OR split = 'heldout')"


@dataclass(frozen=True)
class Scored:
    """The scores of one attack on one run: their file, and the attack's own threshold (None: mean of the members')."""

    attack: str
    file: Path
    threshold: float | None = None


@dataclass(frozen=True)
class Filters:
    """Which patients are looked at; an empty or None setting lets everybody pass.

    `code` is the start of one of the patient's codes, `least_notes` and `most_notes` bound their scored notes, `field`
    is a PHI field that prompts made the run write.
    """

    code: str = ""
    youngest: int | None = None
    oldest: int | None = None
    least_notes: int | None = None
    most_notes: int | None = None
    field: str = ""

    def conditions(self, hits: Path | None) -> tuple[str, dict[str, Any]]:
        """A condition on `p` (patients) and `u` (units, with `patient_notes`), and its parameters."""
        parts: list[str] = []
        values: dict[str, Any] = {}
        if self.code:
            parts.append("len(list_filter(p.icd_codes, lambda c: starts_with(upper(c), $code))) > 0")
            values["code"] = self.code.strip().upper()
        for name, column, sign in (
            ("youngest", "p.age", ">="), ("oldest", "p.age", "<="),
            ("least_notes", "u.patient_notes", ">="), ("most_notes", "u.patient_notes", "<="),
        ):  # fmt: skip
            if getattr(self, name) is not None:
                parts.append(f"{column} {sign} ${name}")
                values[name] = getattr(self, name)
        if self.field and hits is not None:
            written = f"SELECT patient_id FROM read_parquet($hits) WHERE {_WRITTEN} AND field = $field"
            parts.append(f"p.patient_id IN ({written})")
            values |= {"field": self.field, "hits": str(hits)}
        return " AND ".join(parts) or "true", values


# Units that an attack judges (patients or admissions): score = mean over their notes, caught = above the threshold,
# percentile = share of held-out units that score less, ties ½, a held-out unit not compared with itself.
_UNITS = """
notes AS (
    SELECT patient_id, admission_id, split = 'member' AS member, score FROM read_parquet($scores)
    WHERE attack = $attack AND split IN ('member', 'heldout')
),
threshold AS (SELECT coalesce($threshold, favg(score) FILTER (member)) AS threshold FROM notes),
judged AS (
    SELECT {unit} AS unit, first(patient_id) AS patient_id, first(member) AS member, favg(score) AS score,
           count(*) AS notes
    FROM notes GROUP BY {unit}
),
ranked AS (
    SELECT *, sum((NOT member)::INT) OVER (ORDER BY score) AS up_to,
           sum((NOT member)::INT) OVER (PARTITION BY score) AS tied, sum((NOT member)::INT) OVER () AS others
    FROM judged
),
u AS (
    SELECT unit, patient_id, member, score, score > (SELECT threshold FROM threshold) AS caught,
           (up_to - tied / 2.0 - (NOT member)::INT / 2.0) / nullif(others - (NOT member)::INT, 0) AS percentile,
           sum(notes) OVER (PARTITION BY patient_id) AS patient_notes
    FROM ranked
)
"""
_BUCKET = "least(floor(f.place * $count), $count - 1)::INT"
_UNIT = {"patient": "patient_id", "admission": "admission_id"}


class PatientTables(DiseaseProfiles):
    """The patients of one cohort, what attacks on a run say of them, and what prompts made it write of them."""

    # Buckets -----------------------------------------------------------------------------------------------------

    def buckets(
        self,
        scored: Scored,
        level: Level,
        count: int,
        filters: Filters = Filters(),
        hits: Path | None = None,  # noqa: B008
    ) -> pd.DataFrame:
        """One row a bucket that holds somebody, rarest first: sums from which rates and their intervals follow.

        `bucket` (0 = rarest), `log_probability` (mean over units); for `side` member and heldout: `<side>_patients` and
        Σ over patients of n, n², k, k², kn, s, s², sn, where a patient has n units, k of them caught, and s is the sum
        of their percentiles. `profile(level)` must have been asked for.
        """
        sides = ", ".join(_sums(side, flag) for side, flag in (("member", "member"), ("heldout", "NOT member")))
        where, values = filters.conditions(hits)
        query = f"""
            WITH {_UNITS.format(unit=_UNIT[level])},
            each AS (
                SELECT {_BUCKET} AS bucket, u.patient_id, first(u.member) AS member, count(*)::DOUBLE AS n,
                       sum(u.caught::INT)::DOUBLE AS k, sum(u.percentile) AS s, sum(f.log_probability) AS l
                FROM u JOIN profile_{level} f ON f.unit = u.unit {self._patients_if(where)}
                WHERE {where} GROUP BY ALL
            )
            SELECT bucket, sum(l) / sum(n) AS log_probability, {sides} FROM each GROUP BY bucket ORDER BY bucket"""
        return self.ask(query, **self._scores(scored), count=count, patients=str(self.patients), **values)

    def _patients_if(self, where: str) -> str:
        """The patients' table is read only when a filter asks about it."""
        return "JOIN read_parquet($patients) p ON p.patient_id = u.patient_id" if "p." in where else ""

    def _scores(self, scored: Scored) -> dict[str, Any]:
        return {"scores": str(scored.file), "attack": scored.attack, "threshold": scored.threshold}

    # Patients ----------------------------------------------------------------------------------------------------

    def in_bucket(
        self,
        scored: Scored,
        level: Level,
        count: int,
        bucket: int | None,
        filters: Filters = Filters(),  # noqa: B008
        *,
        attacks: Sequence[Scored] = (),
        hits: Path | None = None,
        limit: int | None = None,
        offset: int = 0,
        patient_id: str | None = None,
    ) -> pd.DataFrame:
        """The patients of a bucket (None: of all), the likeliest members first, a row each; or one of them by id.

        Columns: patient_id, split, age, sex, icd_codes, log_probability, percentile_rarity (share of judged patients
        whose profile is rarer, ties ½), notes (scored ones), score, percentile, caught, attacks (that judged them),
        catching (how many of those catch them, at their own thresholds), fields, texts (generations that wrote a value
        of theirs) and `total`, the number of rows without `limit`. On the level `admission` those patients are listed
        of whom an admission is in the bucket. Profiles of both levels must have been asked for where they are used.
        """
        where, values = filters.conditions(hits)
        chosen = f"{where} AND p.split IN ('member', 'heldout')"
        if bucket is not None:
            inside = f"SELECT f.patient_id FROM profile_{level} f WHERE {_BUCKET} = $bucket"
            chosen += f" AND u.patient_id IN ({inside})"
        if patient_id is not None:
            chosen += " AND u.patient_id = $patient_id"
        window = "" if limit is None else "LIMIT $limit OFFSET $offset"
        query = f"""
            WITH {_UNITS.format(unit="patient_id")}, rarer AS (
                SELECT unit, log_probability, (rank() OVER (ORDER BY log_probability) - 1
                    + (count(*) OVER (PARTITION BY log_probability) - 1) / 2.0)
                    / nullif(count(*) OVER () - 1, 0) AS percentile_rarity FROM profile_patient
            )
            SELECT p.patient_id, p.split, p.age, p.sex, p.icd_codes, r.log_probability, r.percentile_rarity,
                   u.patient_notes::INT AS notes, u.score, u.percentile, u.caught, count(*) OVER () AS total
            FROM u JOIN read_parquet($patients) p ON p.patient_id = u.patient_id JOIN rarer r ON r.unit = u.unit
            WHERE {chosen} ORDER BY u.percentile DESC, u.score DESC, p.patient_id {window}"""
        found = self.ask(
            query, **self._scores(scored), patients=str(self.patients), count=count, bucket=bucket, limit=limit,
            offset=offset, patient_id=patient_id, **values,
        )  # fmt: skip
        ids = found["patient_id"].tolist()
        found = found.merge(self.caught_by(attacks or (scored,), ids), on="patient_id", how="left")
        written = self.written(hits, ids) if hits is not None else pd.DataFrame(columns=["patient_id"])
        found = found.merge(written, on="patient_id", how="left").reindex(columns=[*found.columns, "fields", "texts"])
        return found.fillna({"attacks": 0, "catching": 0, "texts": 0}).astype(
            {"attacks": int, "catching": int, "texts": int}
        )

    def caught_by(self, attacks: Sequence[Scored], patient_ids: Sequence[str]) -> pd.DataFrame:
        """How many attacks judge each of these patients and catch them: columns patient_id, attacks, catching."""
        found = self.scores_of(attacks, patient_ids)
        grouped = found.groupby("patient_id")["caught"].agg(attacks="size", catching="sum")
        return grouped.reset_index()

    def scores_of(self, attacks: Sequence[Scored], patient_ids: Sequence[str]) -> pd.DataFrame:
        """Every attack's judgement of these patients, a row each: patient_id, attack, score, threshold, caught."""
        wanted = pd.DataFrame(
            [(one.attack, str(one.file), one.threshold) for one in attacks], columns=["attack", "file", "own"]
        ).astype({"own": "float64"})
        query = """
            WITH rows AS (
                SELECT s.attack, w.own, s.patient_id, s.split, s.score
                FROM read_parquet($files, filename = true, union_by_name = true) s
                JOIN wanted w ON w.attack = s.attack AND w.file = s.filename
            ),
            thresholds AS (
                SELECT attack, coalesce(first(own), favg(score) FILTER (split = 'member')) AS threshold
                FROM rows GROUP BY attack
            )
            SELECT r.patient_id, attack, favg(r.score) AS score, first(t.threshold) AS threshold,
                   favg(r.score) > first(t.threshold) AS caught
            FROM rows r JOIN thresholds t USING (attack)
            WHERE r.patient_id IN (SELECT unnest($ids)) AND r.split IN ('member', 'heldout')
            GROUP BY r.patient_id, attack ORDER BY attack, r.patient_id"""
        with self._database() as database:
            database.register("wanted", wanted)
            files = sorted({str(one.file) for one in attacks})
            return database.execute(query, {"files": files, "ids": list(patient_ids)}).df()

    def written(self, hits: Path, patient_ids: Sequence[str]) -> pd.DataFrame:
        """What prompts made the run write of these patients: patient_id, `fields` (names, sorted), `texts` (number)."""
        query = f"""
            SELECT patient_id, list_sort(list(DISTINCT field)) AS fields, count(DISTINCT generation_id) AS texts
            FROM read_parquet($hits) WHERE {_WRITTEN} AND patient_id IN (SELECT unnest($ids)) GROUP BY patient_id"""
        return self.ask(query, hits=str(hits), ids=list(patient_ids))

    # One patient -------------------------------------------------------------------------------------------------

    def record(self, patient_id: str) -> dict[str, Any] | None:
        """The patient's row of the cohort; None for an id that nobody has."""
        query = "SELECT * FROM read_parquet($patients) WHERE patient_id = $patient_id"
        found = self.ask(query, patients=str(self.patients), patient_id=patient_id)
        return None if found.empty else found.iloc[0].to_dict()

    def notes_of(self, patient_id: str) -> pd.DataFrame:
        """The patient's notes, oldest first, with their PHI spans."""
        query = """
            SELECT note_id, admission_id, note_type, date, text, phi_spans FROM read_parquet($notes)
            WHERE patient_id = $patient_id ORDER BY date, note_id"""
        return self.ask(query, notes=str(self.notes), patient_id=patient_id)

    def leaks_of(self, patient_id: str, hits: Path, generations: Path) -> pd.DataFrame:
        """Every span of the texts that wrote a value of this patient, those of other patients too.

        Columns: generation_id, prompt, text, start, end, field, kind, value, patient_id.
        """
        query = f"""
            WITH texts AS (
                SELECT DISTINCT generation_id FROM read_parquet($hits) WHERE {_WRITTEN} AND patient_id = $patient_id
            )
            SELECT g.generation_id, g.prompt, g.text, h.start, h."end", h.field, h.kind, h.value, h.patient_id
            FROM texts JOIN read_parquet($generations) g USING (generation_id)
            JOIN read_parquet($hits) h ON h.generation_id = g.generation_id AND h.rule = 'value'
            ORDER BY g.generation_id, h.start"""
        return self.ask(query, hits=str(hits), generations=str(generations), patient_id=patient_id)


def _sums(side: str, flag: str) -> str:
    """The columns of one side of `buckets`."""
    terms = {"n": "n", "nn": "n * n", "k": "k", "kk": "k * k", "kn": "k * n", "s": "s", "ss": "s * s", "sn": "s * n"}
    columns = [f"coalesce(sum({term}) FILTER ({flag}), 0) AS {side}_{name}" for name, term in terms.items()]
    return ", ".join([f"count(*) FILTER ({flag}) AS {side}_patients", *columns])
