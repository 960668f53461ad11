"""Runs that tests make are asked about 36 claims, not 320: that task takes a third of the time of a short run.

Each claim comes with three notes, as ever. tests/tasks asks the usual number.

Dask imports this module into a worker process that names it as a preload (`dask worker --preload`, or `IN_WORKERS` in
the environment of the process that starts it). Such a worker also draws at most 8 samples of each prompt, not the 100
that the page Train asks for: two thirds of the rest of such a run's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pandas as pd

    from core.corpus.tables import Corpus
    from core.models.build import LanguageModel
    from core.phi.index import PhiIndex
    from core.spec import AuditSpec

    Tables = tuple[pd.DataFrame, pd.DataFrame]

LABELLED, JUDGED = 24, 12
MOST_SAMPLES = 8  # of each of 14 prompts
IN_WORKERS = {"DASK_DISTRIBUTED__WORKER__PRELOAD": f"['{__name__}', 'tests.held_work']"}


@contextmanager
def few_claims() -> Iterator[None]:
    """This process asks few claims meanwhile, and so do worker processes that it starts."""
    from core.tasks import utility  # loads torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utility, "LABELLED_CLAIMS", LABELLED)
        patch.setattr(utility, "JUDGED_CLAIMS", JUDGED)
        for name, value in IN_WORKERS.items():
            patch.setenv(name, value)
        yield


def dask_setup(worker: Any) -> None:
    """As `few_claims`, in a worker process of dask, for good; and few samples."""
    from core.attacks.memorisation import extraction
    from core.tasks import utility

    utility.LABELLED_CLAIMS, utility.JUDGED_CLAIMS = LABELLED, JUDGED
    really = extraction.extract

    def extract(lm: LanguageModel, corpus: Corpus, index: PhiIndex, audit: AuditSpec, **options: Any) -> Tables:
        samples = min(audit.samples_per_prompt, MOST_SAMPLES)
        return really(lm, corpus, index, audit.model_copy(update={"samples_per_prompt": samples}), **options)

    extraction.extract = extract
