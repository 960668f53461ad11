"""How many notes a job reads, counted in notes of usual length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.common.in_memory_duckdb import cursor
from core.spec import MEMBER_SHARE, RunSpec

USUAL_CHARACTERS = 170  # of a synthetic note, on average; an imported note counts once for each of these


@dataclass(frozen=True)
class Notes:
    """How many notes of usual length a job reads: `trained` in each epoch, and `every` note of the cohort."""

    trained: float
    every: float


def expected_notes(spec: RunSpec) -> Notes:
    """What a run reads, from its spec alone: the cohort need not exist yet. Copies of canaries are notes, too."""
    corpus, cap = spec.corpus, spec.note_cap
    per_patient = corpus.notes_per_patient if cap is None else min(corpus.notes_per_patient, cap)
    return Notes(
        trained=corpus.patients * MEMBER_SHARE * per_patient + corpus.canary_notes(cap),
        every=(corpus.patients + corpus.population) * corpus.notes_per_patient + corpus.canary_notes(),
    )


def notes_read(spec: RunSpec, cohort: Path | None) -> Notes:
    """What a run reads: of imported notes those that are stored in the folder `cohort`, otherwise what is expected.

    A long imported note counts as several. `CorpusSpec.notes_per_patient` does not say how much there is to read: it
    has a maximum, and notes may have any length.
    """
    if spec.corpus.imported is None or cohort is None:
        return expected_notes(spec)
    query = """
        WITH notes AS (
            SELECT split, greatest(1.0, length(text) / $usual) AS weight,
                row_number() OVER (PARTITION BY patient_id ORDER BY file_row_number) AS place
            FROM read_parquet($file, file_row_number = true)
        )
        SELECT coalesce(sum(weight) FILTER (split IN ('member', 'canary') AND place <= $cap), 0), sum(weight) FROM notes
    """
    cap = 2**31 if spec.note_cap is None else spec.note_cap
    with cursor() as database:
        asked = {"usual": USUAL_CHARACTERS, "file": str(cohort / "notes.parquet"), "cap": cap}
        (found,) = database.execute(query, asked).fetchall()
    return Notes(*map(float, found))
