"""The Patients page over 1.2 million scored notes: `python -m core bench patients --json`.

A hospital as large as MIMIC-III is written to a temporary folder: records, codes and notes of 48,520 patients, and one
run with a score per note. The page is opened and driven in a separate process (`streamlit.testing`). Each of its steps
is measured in turns with a bare DuckDB query that computes the same aggregate from the same Parquet files. The first
view starts with empty caches. Every click requests something new. Memory is the peak of that process (`VmHWM`).
"""

from __future__ import annotations

import json as json_format
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bench._ratio import Figures, check_rounds, figure, peak_mib, show
from core.corpus.synthetic.conditions import catalogue
from core.corpus.tables import CANARIES, NOTES, PATIENTS
from core.phi.fields import FIELDS
from core.runs.events import Status, write_status
from core.runs.run import SPEC_FILE
from core.runs.tables import SCHEMAS, write_table
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

ROOT = Path(__file__).resolve().parents[1]
PATIENTS_MANY, NOTES_MANY = 48_520, 1_200_000
CHUNK = 200_000
GIB = 1024.0  # MiB


def main(json: bool = False, rounds: int = 5) -> None:
    """Print the figures of the Patients page."""
    show(measure(rounds), json=json)


def measure(rounds: int, *, patients: int = PATIENTS_MANY, notes: int = NOTES_MANY) -> Figures:
    """The figures for this number of patients and notes."""
    check_rounds(rounds)
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-bench-") as folder:
        spec = write(Path(folder), patients, notes)
        command = [sys.executable, "-m", "bench.patients", folder, spec.run_id, str(rounds)]
        environment = {**os.environ, "PHILAB_DATA": folder, "PHILAB_SHIPPED": os.devnull}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)  # noqa: S603 — ours
        if done.returncode:
            raise RuntimeError(f"driving the page failed: {done.stderr.strip().splitlines()[-1]}")
        found = json_format.loads(done.stdout.splitlines()[-1])
    made: Figures = {}
    for name in STEPS:
        made |= figure(f"patients_{name}_over_duckdb", np.array(found[name]["page"]), np.array(found[name]["bare"]))
    memory = figure("patients_memory_over_one_gib", np.array([found["peak_mib"]]), np.array([GIB]))
    memory["patients_memory_over_one_gib"]["mib"] = memory["patients_memory_over_one_gib"].pop("seconds")
    return made | memory


# The hospital --------------------------------------------------------------------------------------------------------


def write(folder: Path, patients: int, notes: int) -> RunSpec:
    """Write a cohort and a run on it, in files that the page accepts. Scores differ a little by membership."""
    spec = RunSpec(corpus=CORPUS_PRESETS["mimic-scale"].model_copy(update={"patients": max(4, patients)}))
    rng = np.random.default_rng(0)
    owner = np.sort(rng.integers(patients, size=notes))
    split = np.where(rng.random(patients) < 0.7, "member", "heldout")
    _cohort(folder / "corpora" / spec.corpus.digest(), spec.corpus, rng, split, owner)
    _run(folder / "runs" / spec.run_id, spec, rng, split, owner)
    return spec


def _cohort(folder: Path, spec: CorpusSpec, rng: np.random.Generator, split: np.ndarray, owner: np.ndarray) -> None:
    folder.mkdir(parents=True)
    codes = np.array([condition.code for condition in catalogue().conditions])
    weights = np.diff([0.0, *catalogue().cumulative])
    drawn = rng.choice(codes, (len(split), 9), p=weights / weights.sum())
    count = rng.integers(1, 10, len(split))
    records = pd.DataFrame({field.name: "value" for field in FIELDS}, index=range(len(split))).assign(
        patient_id=_ids(np.arange(len(split))),
        split=split,
        age=rng.integers(18, 95, len(split)),
        sex=rng.choice(["F", "M"], len(split)),
        icd_codes=[list(dict.fromkeys(held[:k])) for held, k in zip(drawn, count, strict=True)],
    )
    pq.write_table(pa.Table.from_pandas(records, schema=PATIENTS, preserve_index=False), folder / "patients.parquet")
    pq.write_table(pa.Table.from_pylist([], schema=CANARIES), folder / "canaries.parquet")
    with pq.ParquetWriter(folder / "notes.parquet", NOTES, compression="zstd") as file:
        for keys in _keys(split, owner):
            none: list[list[dict]] = [[]] * len(keys)
            part = keys.assign(date="2020-01-01", text="Seen for hypertension.", phi_spans=none, entity_spans=none)
            file.write_table(pa.Table.from_pandas(part[NOTES.names], schema=NOTES, preserve_index=False))
    (folder / "spec.json").write_text(spec.model_dump_json())


def _run(folder: Path, spec: RunSpec, rng: np.random.Generator, split: np.ndarray, owner: np.ndarray) -> None:
    tables = folder / "tables"
    tables.mkdir(parents=True)
    (folder / SPEC_FILE).write_text(spec.model_dump_json())
    write_status(folder, Status(state="done", finished=time.time()))
    for name in SCHEMAS:
        write_table(tables, name, pd.DataFrame())
    schema = SCHEMAS["scores"]
    with pq.ParquetWriter(tables / "scores.parquet", schema, compression="zstd") as file:
        for keys in _keys(split, owner):
            member = (keys["split"] == "member").to_numpy()
            part = keys.assign(attack="loss", tokens=60, member=member, score=rng.normal(-2.0 + 0.2 * member))
            file.write_table(pa.Table.from_pandas(part[schema.names], schema=schema, preserve_index=False))
    texts = min(1_400, len(split))
    whose = rng.integers(len(split), size=texts)
    hits = pd.DataFrame(
        {
            "generation_id": np.arange(texts),
            "start": 0,
            "end": 5,
            "field": "full_name",
            "value": "value",
            "kind": np.where(split[whose] == "member", "leak", "coincidence"),
            "patient_id": _ids(whose),
            "split": split[whose],
            "rule": "value",
        }
    )
    write_table(tables, "hits", hits)
    generations = {"generation_id": np.arange(texts), "prompt_id": 1, "prompt": "Patient:", "seed": 0, "text": "value"}
    write_table(tables, "generations", pd.DataFrame(generations))


def _keys(split: np.ndarray, owner: np.ndarray) -> Iterator[pd.DataFrame]:
    """The notes' keys, one chunk at a time."""
    for start in range(0, len(owner), CHUNK):
        part = owner[start : start + CHUNK]
        number = np.arange(start, start + len(part))
        ids = _ids(part)
        yield pd.DataFrame(
            {
                "note_id": [f"N{one:07d}" for one in number],
                "patient_id": ids,
                "split": split[part],
                "admission_id": [f"{one}-A{at % 3}" for one, at in zip(ids, number, strict=True)],
                "note_type": "letter",
            }
        )


def _ids(numbers: np.ndarray) -> list[str]:
    return [f"P{number:06d}" for number in numbers]


# The bare queries: the same aggregates and nothing else --------------------------------------------------------------

_JUDGED = """
judged AS (SELECT patient_id, first(member) AS member, avg(score) AS score, count(*) AS notes FROM '{scores}'
           WHERE attack = 'loss' AND split IN ('member', 'heldout') GROUP BY patient_id),
threshold AS (SELECT avg(score) AS t FROM '{scores}' WHERE attack = 'loss' AND member),
u AS (SELECT *, score > (SELECT t FROM threshold) AS caught,
      percent_rank() OVER (ORDER BY score) AS percentile FROM judged)"""
_PROFILED = """
held AS (SELECT DISTINCT patient_id, unnest(icd_codes) AS code FROM '{patients}'),
rates AS (SELECT code, count(*) / (SELECT count(*) FROM '{patients}') AS p FROM held GROUP BY code),
profile AS (SELECT patient_id, sum(ln(p / (1 - p))) AS l FROM held JOIN rates USING (code) GROUP BY patient_id),
f AS (SELECT *, floor((l - min(l) OVER ()) / (max(l) OVER () - min(l) OVER ()) * 99) AS bucket FROM profile)"""
_BUCKETS = "SELECT bucket, member, count(*), avg(caught::INT), avg(percentile) FROM u JOIN f USING (patient_id)"
_ROWS = "SELECT p.*, u.*, l FROM u JOIN f USING (patient_id) JOIN '{patients}' p USING (patient_id)"
_WITH = f"WITH {_JUDGED}, {_PROFILED} "
BARE = {
    "first_view": [_WITH + _BUCKETS + " GROUP BY ALL", _WITH + _ROWS + " ORDER BY percentile DESC LIMIT 15"],
    "bucket": [_WITH + _ROWS + " WHERE bucket = {bucket} ORDER BY percentile DESC LIMIT 15"],
    "filter": [
        _WITH + _BUCKETS + " JOIN '{patients}' p USING (patient_id) WHERE p.age >= {age} GROUP BY ALL",
        _WITH + _ROWS + " WHERE p.age >= {age} ORDER BY percentile DESC LIMIT 15",
    ],
    "patient": [
        _WITH + _ROWS + " WHERE p.patient_id = '{patient}'",
        "SELECT * FROM '{notes}' WHERE patient_id = '{patient}'",
    ],
}
STEPS = tuple(BARE)


def _bare(step: str, files: dict[str, Path], **settings: Any) -> Callable[[], None]:
    def run() -> None:
        with duckdb.connect() as database:
            for query in BARE[step]:
                database.execute(query.format(**files, **settings)).fetchall()

    return run


# Driving the page ----------------------------------------------------------------------------------------------------


def _steps(page: Any, buckets: list[str], number: int) -> list[tuple[str, Callable[[], Any], dict[str, Any]]]:
    """The steps of a round: name, action on the page, and parameters of the bare query."""
    bucket = buckets[(len(buckets) // 2 + number) % len(buckets)]
    age, who = 20 + number, f"P{100 + number:06d}"
    return [
        ("first_view", lambda: page.switch_page("pages/patients.py").run(), {}),
        ("bucket", lambda: page.selectbox(key="bucket").set_value(bucket).run(), {"bucket": int(bucket) - 1}),
        ("filter", lambda: page.number_input(key="age_from").set_value(age).run(), {"age": age}),
        ("patient", lambda: page.text_input(key="patient").set_value(who).run(), {"patient": who}),
    ]


def drive(folder: Path, run_id: str, rounds: int) -> dict[str, Any]:
    """Seconds of the page and of the bare queries at each step of each round, and the peak memory, in this process."""
    import streamlit as st
    from streamlit.testing.v1 import AppTest

    spec = RunSpec.model_validate_json((folder / "runs" / run_id / SPEC_FILE).read_text())
    corpus, tables = folder / "corpora" / spec.corpus.digest(), folder / "runs" / run_id / "tables"
    files = {name: corpus / f"{name}.parquet" for name in ("patients", "notes")} | {"scores": tables / "scores.parquet"}
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600).run()
    page.switch_page("pages/patients.py").run()  # imports of a server's first visit are not measured
    buckets = page.selectbox(key="bucket").options[1:]
    found: dict[str, Any] = {step: {"page": [], "bare": []} for step in STEPS}
    for number in range(rounds):
        st.cache_data.clear()
        st.cache_resource.clear()
        page.selectbox(key="bucket").set_value("all")
        for step, act, settings in _steps(page, buckets, number):
            bare = _bare(step, files, **settings)
            for side, work in (("page", act), ("bare", bare)) if number % 2 == 0 else (("bare", bare), ("page", act)):
                begun = time.perf_counter()
                work()
                found[step][side].append(time.perf_counter() - begun)
            if page.exception:
                raise RuntimeError(f"the page failed at “{step}”: {page.exception[0].value}")
    found["peak_mib"] = peak_mib()
    return found


if __name__ == "__main__":
    folder, run_id, count = sys.argv[1:]
    print(json_format.dumps(drive(Path(folder), run_id, int(count))))
