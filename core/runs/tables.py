"""The tables of a run: their Arrow schemas (docs/reference/tables.md), and functions that write and read them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.common.files import make_folder, replaced

SCHEMAS: dict[str, pa.Schema] = {
    "history": pa.schema(
        [
            ("step", pa.int64()),
            ("epoch", pa.int32()),
            ("loss", pa.float64()),
            ("eval_loss", pa.float64()),  # null between epochs
            ("epsilon", pa.float64()),  # null without privacy
            ("tokens", pa.int64()),
            ("seconds", pa.float64()),
            ("canary_exposure", pa.map_(pa.string(), pa.float64())),  # null between epochs
        ]
    ),
    "scores": pa.schema(
        [
            ("attack", pa.string()),
            ("note_id", pa.string()),
            ("admission_id", pa.string()),
            ("patient_id", pa.string()),
            ("split", pa.string()),
            ("note_type", pa.string()),
            ("tokens", pa.int32()),
            ("member", pa.bool_()),
            ("score", pa.float64()),  # higher = more likely a member
        ]
    ),
    "generations": pa.schema(
        [
            ("generation_id", pa.int64()),
            ("prompt_id", pa.int32()),
            ("prompt", pa.string()),
            ("seed", pa.int64()),
            ("text", pa.string()),  # without the prompt
        ]
    ),
    "hits": pa.schema(
        [
            ("generation_id", pa.int64()),
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("field", pa.string()),
            ("value", pa.string()),
            ("kind", pa.string()),
            ("patient_id", pa.string()),
            ("split", pa.string()),
            ("rule", pa.string()),
        ]
    ),
    "canaries": pa.schema(
        [
            ("canary_id", pa.string()),
            ("form", pa.string()),
            ("insertions", pa.int32()),
            ("inserted", pa.bool_()),
            ("loss", pa.float64()),
            ("rank", pa.int64()),
            ("reference_size", pa.int64()),
            ("exposure", pa.float64()),
        ]
    ),
    "metrics": pa.schema(
        [
            ("metric", pa.string()),
            ("arm", pa.string()),  # run | heldout | base
            ("value", pa.float64()),
            ("low", pa.float64()),
            ("high", pa.float64()),
            ("n", pa.int64()),
            ("note", pa.string()),
        ]
    ),
}


READING = "reading"
VERSION = b"philab.version"  # key in the metadata of a table's file
OPTIONAL: dict[str, pa.Schema] = {  # tables of runs with their own vocabulary
    READING: pa.schema(
        [
            ("note_id", pa.string()),
            ("patient_id", pa.string()),
            ("arm", pa.string()),  # run | base
            ("tokens", pa.int32()),  # of the whole note
            ("characters", pa.int32()),  # of the words that were scored
            ("nats", pa.float64()),  # their -log p
        ]
    )
}


FIGURES_ONLY_FILE = "figures-only.json"  # in the folder of a run whose large tables were left out
FIGURES_ONLY: dict[str, pa.Schema] = {  # tables of such runs (`core.runs.figures_only`), excerpts of those left out
    "examples": SCHEMAS["generations"],
    "example_hits": SCHEMAS["hits"],
    "heldout_losses": pa.schema(
        [
            ("patient_id", pa.string()),
            ("tokens", pa.int32()),  # of all notes of the patient that were scored
            ("nats", pa.float64()),  # their whole loss
        ]
    ),
    "membership": pa.schema(
        [
            ("attack", pa.string()),
            ("level", pa.string()),
            ("length", pa.string()),
            ("rule", pa.string()),
            ("metric", pa.string()),
            ("threshold", pa.float64()),
            ("value", pa.float64()),
            ("low", pa.float64()),
            ("high", pa.float64()),
            ("n", pa.int64()),
            ("note", pa.string()),
        ]
    ),
}
_EVERY = SCHEMAS | OPTIONAL | FIGURES_ONLY


class TableMissing(FileNotFoundError):
    """A run's table is missing or cannot be read. The text is a sentence that names the run and the file."""


def write_table(folder: Path, name: str, frame: pd.DataFrame, *, version: int = 1) -> Path:
    """Write `frame` as `<folder>/<name>.parquet`; columns that the frame lacks become null.

    Args:
        folder: the folder of the run's tables.
        name: the table's name.
        frame: its rows.
        version: stored in the file from 2 on (`table_version`). Tables of version 1 were written before there were
            versions and stay as they are.

    Returns:
        The file.

    Raises:
        KeyError: there is no table of this name.
        ValueError: a column is not in the schema, so that no table grows unnoticed.
    """
    schema = _EVERY[name]
    unknown = [column for column in frame.columns if column not in schema.names]
    if unknown:
        raise ValueError(f"table {name} has no column {', '.join(map(str, unknown))}; its columns: {schema.names}")
    complete = frame.reindex(columns=schema.names)
    for field in schema:
        if pa.types.is_map(field.type):
            pairs = [list(value.items()) if value else None for value in frame.get(field.name, [None] * len(frame))]
            complete[field.name] = pd.Series(pairs, index=complete.index, dtype=object)
    path = make_folder(folder) / f"{name}.parquet"
    table = pa.Table.from_pandas(complete, schema=schema, preserve_index=False)
    if version > 1:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), VERSION: str(version).encode()})
    with replaced(path) as beside:  # an existing table is always complete
        pq.write_table(table, beside, compression="zstd")
    return path


def table_version(folder: Path, name: str) -> int:
    """The version of a stored table; 1 if the file has none. Raises OSError for a file that cannot be read."""
    try:
        told = (pq.read_schema(folder / f"{name}.parquet").metadata or {}).get(VERSION)
        return 1 if told is None else int(told)
    except (pa.ArrowInvalid, ValueError) as error:
        raise OSError(f"{folder / f'{name}.parquet'} cannot be read ({error})") from None


def read_table(folder: Path, name: str, run_id: str) -> pd.DataFrame:
    """Read a table; maps become dicts.

    Raises:
        KeyError: there is no table of this name.
        TableMissing: the file is absent or damaged; the text is a sentence.
    """
    if name not in _EVERY:
        raise KeyError(f"a run has no table “{name}”; it has {', '.join(SCHEMAS)}")
    path = folder / f"{name}.parquet"
    try:
        return pq.read_table(path).to_pandas(maps_as_pydicts="strict")
    except FileNotFoundError:
        if (folder.parent / FIGURES_ONLY_FILE).exists():
            raise TableMissing(
                f"Run {run_id} has figures only: its table “{name}” was left out to keep the repository small. "
                "Train the run again to get all its tables: the same settings give the same run."
            ) from None
        raise TableMissing(
            f"Run {run_id} lacks its file tables/{name}.parquet. `python -m core verify --repair` puts the run aside."
        ) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise TableMissing(
            f"Run {run_id}: its file tables/{name}.parquet cannot be read ({error}). "
            "`python -m core verify --repair` puts the run aside, or rebuilds what it can."
        ) from None
