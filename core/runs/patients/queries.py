"""Queries about patients, by DuckDB over a cohort's and a run's Parquet files.

Nothing here reads a whole table: every result is an aggregate, or the rows of one bucket or one patient. The rarity of
a patient's diseases comes from `core.runs.patients.disease_profiles`.
"""

# ruff: noqa: S608 — every query is written in this file; user input is passed as parameters

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from core.attacks.membership.decision import LOSS, OWN_THRESHOLDS, RATIO
from core.runs.audits import StoredAudit
from core.runs.patients.disease_profiles import DiseaseProfiles, Level
from core.runs.run import Run

# Values of a patient that the model wrote after prompts: leaks of members, coincidences with held-out patients.
_WRITTEN = "rule = 'value' AND ((split = 'member' AND kind IN ('leak', 'linked leak')) OR split = 'heldout')"


@dataclass(frozen=True)
class Scored:
    """The scores of one attack on one run: their file, and the attack's own threshold (None: the members' mean).

    With `public` it is a likelihood ratio: the loss scores in `file` minus those of the public base model in `public`,
    for the units of which both scored the same number of notes.
    """

    attack: str
    file: Path
    threshold: float | None = None
    public: Path | None = None

    @property
    def source(self) -> str:
        """The attack whose rows are read from the files."""
        return self.attack if self.public is None else LOSS

    @property
    def files(self) -> list[str]:
        """Every file that is read."""
        return [str(one) for one in (self.file, self.public) if one is not None]


def judges(run: Run, audit: StoredAudit, base: Run | None) -> dict[str, Scored]:
    """Every attack that scored patients of a run, by name: the ratio to the public model first, then the loss.

    The ratio is that of the full audit; without one it is computed from the quick audits of the run and of `base`, the
    public model's run. A run with a vocabulary from its notes has other tokens than the public model, so it has no
    computed ratio. Nor has a masked model that scored other notes than the public model: what is hidden depends on a
    note's place among those scored.
    """
    loss = run.folder / "tables" / "scores.parquet"
    found = {LOSS: Scored(LOSS, loss)}
    if base is not None and base.id != run.id and run.spec.vocabulary is None:
        public = base.folder / "tables" / "scores.parquet"
        if run.spec.model.kind == "gpt2" or _notes_in(loss) == _notes_in(public):
            found[RATIO] = Scored(RATIO, loss, public=public)
    for name, path in audit.files("scores").items():
        found[name] = Scored(name, path, OWN_THRESHOLDS.get(name))
    return {name: found[name] for name in sorted(found, key=lambda name: (name != RATIO, name != LOSS))}


def _notes_in(scores: Path) -> list[str]:
    """The ids of the scored notes, in their order."""
    return pd.read_parquet(scores, columns=["note_id"])["note_id"].tolist()


@dataclass(frozen=True)
class Filters:
    """Which patients to include; an empty or None setting includes everybody.

    `code` is the start of one of the patient's codes, `least_notes` and `most_notes` bound the number of scored notes,
    `field` is a PHI field that the run wrote after prompts.
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
            ("youngest", "p.age", ">="),
            ("oldest", "p.age", "<="),
            ("least_notes", "u.patient_notes", ">="),
            ("most_notes", "u.patient_notes", "<="),
        ):
            if getattr(self, name) is not None:
                parts.append(f"{column} {sign} ${name}")
                values[name] = getattr(self, name)
        if self.field and hits is not None:
            written = f"SELECT patient_id FROM read_parquet($hits) WHERE {_WRITTEN} AND field = $field"
            parts.append(f"p.patient_id IN ({written})")
            values |= {"field": self.field, "hits": str(hits)}
        return " AND ".join(parts) or "true", values


# Units that an attack scores (patients or admissions): score = mean over their notes, caught = above the threshold,
# percentile = share of held-out units that score less, ties ½; a held-out unit is not compared with itself.
_READ = {
    False: """
notes AS (
    SELECT patient_id, admission_id, split = 'member' AS member, score, tokens FROM read_parquet($files)
    WHERE attack = $source AND split IN ('member', 'heldout')
),
threshold AS (SELECT coalesce($threshold, favg(score) FILTER (member)) AS threshold FROM notes),
judged AS (
    SELECT {unit} AS unit, first(patient_id) AS patient_id, first(member) AS member, favg(score) AS score,
           avg(tokens) AS tokens, count(*) AS notes
    FROM notes GROUP BY {unit}
),""",
    True: """
notes AS (
    SELECT patient_id, admission_id, split = 'member' AS member, score, tokens, filename = $public AS public
    FROM read_parquet($files, filename = true)
    WHERE attack = $source AND split IN ('member', 'heldout')
),
sides AS (
    SELECT {unit} AS unit, first(patient_id) AS patient_id, first(member) AS member,
           favg(score) FILTER (NOT public) - favg(score) FILTER (public) AS score,
           avg(tokens) FILTER (NOT public) AS tokens,
           count(*) FILTER (NOT public) AS notes, count(*) FILTER (public) AS public_notes
    FROM notes GROUP BY {unit}
),
judged AS (SELECT * EXCLUDE public_notes FROM sides WHERE notes = public_notes),
threshold AS (
    SELECT coalesce($threshold, fsum(score * notes) FILTER (member) / sum(notes) FILTER (member)) AS threshold
    FROM judged
),""",
}
_UNITS = """
ranked AS (
    SELECT *, sum((NOT member)::INT) OVER (ORDER BY score) AS up_to,
           sum((NOT member)::INT) OVER (PARTITION BY score) AS tied, sum((NOT member)::INT) OVER () AS others
    FROM judged
),
u AS (
    SELECT unit, patient_id, member, score, tokens, score > (SELECT threshold FROM threshold) AS caught,
           (up_to - tied / 2.0 - (NOT member)::INT / 2.0) / nullif(others - (NOT member)::INT, 0) AS percentile,
           sum(notes) OVER (PARTITION BY patient_id) AS patient_notes
    FROM ranked
)
"""
# Of each patient, the field that one try writes with the highest chance. A try is one text from one of the prompts that
# ask for a field, so its chance is their mean (core.evaluation.memorisation.discoverable.values), and not rounded to 0.
_EASIEST = """
    SELECT patient_id, arg_max(field, row(chance, likeliest)) AS easiest, 1 / max(chance) AS one_in
    FROM (
        SELECT patient_id, field, greatest(avg(exp(log_p::DOUBLE)), 1e-308) AS chance, max(log_p) AS likeliest
        FROM read_parquet($tries) WHERE patient_id || ' ' || field NOT IN (SELECT unnest($shared::VARCHAR[]))
        GROUP BY ALL HAVING max(log_p) > '-inf'::FLOAT
    ) GROUP BY patient_id"""
_NO_TRIES = "SELECT NULL::VARCHAR AS patient_id, NULL::VARCHAR AS easiest, NULL::DOUBLE AS one_in"
_INSIDE = "f.log_probability >= $rarest AND f.log_probability < $commonest"
_UNIT = {"patient": "patient_id", "admission": "admission_id"}


class PatientTables(DiseaseProfiles):
    """The patients of one cohort, what attacks on a run say about them, and what the run wrote about them."""

    # Units -------------------------------------------------------------------------------------------------------

    def judged(
        self, scored: Scored, level: Level, filters: Filters = Filters(), hits: Path | None = None
    ) -> pd.DataFrame:
        """One row per unit that an attack scores and that has a profile: numbers only, no text.

        Columns: patient (a number), member, score, percentile, tokens (mean per note), log_probability, codes (number
        of different ones), passes (the filters). Call `profile(level)` first.
        """
        where, values = filters.conditions(hits)
        query = f"""
            WITH {_units(scored, level)}
            SELECT dense_rank() OVER (ORDER BY u.patient_id) - 1 AS patient, u.member, u.score, u.percentile, u.tokens,
                   f.log_probability, f.codes, coalesce({where}, false) AS passes
            FROM u JOIN profile_{level} f ON f.unit = u.unit {self._patients_if(where)} ORDER BY u.unit"""
        return self.ask(query, **self._scores(scored), patients=str(self.patients), **values)

    def _patients_if(self, where: str) -> str:
        """The join with the patients' table, only if a filter needs it."""
        return "JOIN read_parquet($patients) p ON p.patient_id = u.patient_id" if "p." in where else ""

    def _scores(self, scored: Scored) -> dict[str, Any]:
        public = None if scored.public is None else str(scored.public)
        return {"files": scored.files, "public": public, "source": scored.source, "threshold": scored.threshold}

    # Patients ----------------------------------------------------------------------------------------------------

    def in_bucket(
        self,
        scored: Scored,
        level: Level,
        within: tuple[float, float] | None,
        filters: Filters = Filters(),
        *,
        attacks: Sequence[Scored] = (),
        hits: Path | None = None,
        tries: Path | None = None,
        by_tries: bool = False,
        shared: Collection[tuple[str, str]] = (),
        limit: int | None = None,
        offset: int = 0,
        patient_id: str | None = None,
    ) -> pd.DataFrame:
        """The patients with low ≤ ln p(c) < high of `within` (None: all), highest score first; or one by id.

        Columns: patient_id, split, age, sex, icd_codes, log_probability, percentile_rarity (share of scored patients
        whose profile is rarer, ties ½), notes (scored ones), score, percentile, caught, attacks (number that scored
        them), catching (number that catch them, at their own thresholds), fields, texts (generations that contain a
        value of theirs), easiest (the field that the model writes with fewest tries) and one_in (that number on
        average; both missing where the sampler writes none, or without the audit's table `discoverable` in `tries`,
        and without the values in `shared`, (patient id, field), which are others', too) and `total`, the number of rows
        without `limit`. With `by_tries`, patients of fewest tries come first. On the level
        `admission`, patients are listed who have an admission within the range. Call `profile` first, for both levels
        if both are used.
        """
        where, values = filters.conditions(hits)
        chosen = f"{where} AND p.split IN ('member', 'heldout')"
        if within is not None:
            inside = f"SELECT f.patient_id FROM profile_{level} f WHERE {_INSIDE}"
            chosen += f" AND u.patient_id IN ({inside})"
        if patient_id is not None:
            chosen += " AND u.patient_id = $patient_id"
        window = "" if limit is None else "LIMIT $limit OFFSET $offset"
        query = f"""
            WITH {_units(scored, "patient")}, rarer AS (
                SELECT unit, log_probability, (rank() OVER (ORDER BY log_probability) - 1
                    + (count(*) OVER (PARTITION BY log_probability) - 1) / 2.0)
                    / nullif(count(*) OVER () - 1, 0) AS percentile_rarity FROM profile_patient
            ), easy AS ({_EASIEST if tries is not None else _NO_TRIES})
            SELECT p.patient_id, p.split, p.age, p.sex, p.icd_codes, r.log_probability, r.percentile_rarity,
                   u.patient_notes::INT AS notes, u.score, u.percentile, u.caught, e.easiest, e.one_in,
                   count(*) OVER () AS total
            FROM u JOIN read_parquet($patients) p ON p.patient_id = u.patient_id JOIN rarer r ON r.unit = u.unit
            LEFT JOIN easy e ON e.patient_id = u.patient_id
            WHERE {chosen} ORDER BY {"e.one_in NULLS LAST, " if by_tries else ""}
                u.percentile DESC, u.score DESC, p.patient_id {window}"""
        found = self.ask(
            query,
            **self._scores(scored),
            patients=str(self.patients),
            limit=limit,
            offset=offset,
            patient_id=patient_id,
            tries=None if tries is None else str(tries),
            shared=None if tries is None else [f"{who} {field}" for who, field in shared],
            **dict(zip(("rarest", "commonest"), within or (), strict=False)),
            **values,
        )
        ids = found["patient_id"].tolist()
        found = found.merge(self.caught_by(attacks or (scored,), ids), on="patient_id", how="left")
        written = self.written(hits, ids) if hits is not None else pd.DataFrame(columns=["patient_id"])
        found = found.merge(written, on="patient_id", how="left").reindex(columns=[*found.columns, "fields", "texts"])
        return found.fillna({"attacks": 0, "catching": 0, "texts": 0}).astype(
            {"attacks": int, "catching": int, "texts": int}
        )

    def caught_by(self, attacks: Sequence[Scored], patient_ids: Sequence[str]) -> pd.DataFrame:
        """Numbers of attacks that score and that catch each of these patients: patient_id, attacks, catching."""
        found = self.scores_of(attacks, patient_ids)
        grouped = found.groupby("patient_id")["caught"].agg(attacks="size", catching="sum")
        return grouped.reset_index()

    def scores_of(self, attacks: Sequence[Scored], patient_ids: Sequence[str]) -> pd.DataFrame:
        """Every attack's decision on these patients, one row each: patient_id, attack, score, threshold, caught.

        The decisions are those of `judged` and `in_bucket`: a ratio's threshold, too, is the mean over the patients of
        whom both models scored the same number of notes.
        """
        wanted = pd.DataFrame(
            [
                (one.attack, one.source, str(file), file == one.public, one.public is not None, one.threshold)
                for one in attacks
                for file in (one.file, one.public)
                if file is not None
            ],
            columns=["attack", "source", "file", "public", "ratio", "own"],
        ).astype({"own": "float64", "public": "bool", "ratio": "bool"})
        query = """
            WITH rows AS (
                SELECT w.attack, w.own, w.public, w.ratio, s.patient_id, s.split, s.score
                FROM read_parquet($files, filename = true, union_by_name = true) s
                JOIN wanted w ON w.source = s.attack AND w.file = s.filename
                WHERE s.split IN ('member', 'heldout')
            ),
            sides AS (
                SELECT patient_id, attack, first(own) AS own, first(ratio) AS ratio, first(split = 'member') AS member,
                       favg(score) FILTER (NOT public) - coalesce(favg(score) FILTER (public), 0) AS score,
                       count(*) FILTER (NOT public) AS notes, count(*) FILTER (public) AS public_notes
                FROM rows GROUP BY patient_id, attack
            ),
            each AS (SELECT * FROM sides WHERE NOT ratio OR public_notes = notes),
            means AS (
                SELECT attack, favg(score) FILTER (split = 'member') AS mean FROM rows WHERE NOT ratio GROUP BY attack
                UNION ALL
                SELECT attack, fsum(score * notes) FILTER (member) / sum(notes) FILTER (member)
                FROM each WHERE ratio GROUP BY attack
            )
            SELECT patient_id, attack, score, coalesce(own, mean) AS threshold, score > coalesce(own, mean) AS caught
            FROM each JOIN means USING (attack)
            WHERE patient_id IN (SELECT unnest($ids)) ORDER BY attack, patient_id"""
        with self._database() as database:
            database.register("wanted", wanted)
            return database.execute(query, {"files": sorted(set(wanted["file"])), "ids": list(patient_ids)}).df()

    def written(self, hits: Path, patient_ids: Sequence[str]) -> pd.DataFrame:
        """What the run wrote about these patients: patient_id, `fields` (names, sorted), `texts` (number)."""
        query = f"""
            SELECT patient_id, list_sort(list(DISTINCT field)) AS fields, count(DISTINCT generation_id) AS texts
            FROM read_parquet($hits) WHERE {_WRITTEN} AND patient_id IN (SELECT unnest($ids)) GROUP BY patient_id"""
        return self.ask(query, hits=str(hits), ids=list(patient_ids))

    # One patient -------------------------------------------------------------------------------------------------

    def record(self, patient_id: str) -> dict[str, Any] | None:
        """The patient's row of the cohort; None if no patient has this id."""
        query = "SELECT * FROM read_parquet($patients) WHERE patient_id = $patient_id"
        found = self.ask(query, patients=str(self.patients), patient_id=patient_id)
        return None if found.empty else found.iloc[0].to_dict()

    def ids_of(self, asked: str) -> list[str]:
        """Ids of the patients with this id or this full name, upper and lower case alike; an id comes before names."""
        query = """
            SELECT patient_id, lower(patient_id) = lower($asked) AS by_id FROM read_parquet($patients)
            WHERE by_id OR lower(full_name) = lower($asked) ORDER BY patient_id = $asked DESC, patient_id"""
        found = self.ask(query, patients=str(self.patients), asked=asked)
        by_id = found.loc[found["by_id"], "patient_id"].tolist()
        return by_id[:1] or found["patient_id"].tolist()

    def notes_of(self, patient_id: str) -> pd.DataFrame:
        """The patient's notes, oldest first, with their PHI spans."""
        query = """
            SELECT note_id, admission_id, note_type, date, text, phi_spans FROM read_parquet($notes)
            WHERE patient_id = $patient_id ORDER BY date, note_id"""
        return self.ask(query, notes=str(self.notes), patient_id=patient_id)

    def leaks_of(self, patient_id: str, hits: Path, generations: Path) -> pd.DataFrame:
        """Every span in the texts that contain a value of this patient, including spans of other patients.

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


def _units(scored: Scored, level: Level) -> str:
    """Common table expressions of the units that an attack scores on a level."""
    return (_READ[scored.public is not None] + _UNITS).format(unit=_UNIT[level])
