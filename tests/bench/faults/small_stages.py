"""The stages of `python -m core bench kills` with the trained run of the tests, and with less to train.

Only for a process of its own: it changes what the stages work on.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults import _stages
from bench.faults._stages import Stage
from core.common.files import make_folder
from core.corpus.tables import Corpus
from core.runs.integrity.checksums import take as take_checksums
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec
from core.tasks import utility


def cohort_in_place(root: Path) -> None:
    """Make the cohort as a program would that writes a folder where readers look for it."""

    def stored(self: Workspace, corpus: Corpus, spec: CorpusSpec) -> None:
        folder = make_folder(self.root / "corpora" / spec.digest())
        corpus.write(folder)
        take_checksums(folder, spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workspace, "_store_corpus", stored)
        Workspace(root, shared=()).corpus(_stages.CORPUS)


def small_stages(smoke: Path) -> dict[str, Stage]:
    """Each stage by its name.

    An audit and a release are of the run without privacy in `smoke`, a copy of `smoke_workspace`: no stage trains a run
    for it. The one that trains keeps its control, its vocabulary with privacy, its attacks and its utility, each on few
    texts, and starts from the smallest model.
    """
    runs = [run for run in Workspace(smoke, shared=()).runs() if not run.spec.is_base and not run.spec.privacy.private]
    (_stages.PLAIN,) = (run.spec for run in runs)
    few = AuditSpec(samples_per_prompt=1, new_tokens=4, mask_draws=1, bootstrap=10)
    micro = _stages.SPEC.model.model_copy(update={"size": "micro"})
    _stages.SPEC = _stages.SPEC.model_copy(update={"model": micro, "audit": few})
    utility.LABELLED_CLAIMS, utility.JUDGED_CLAIMS = 12, 12
    utility.LABELLED_NOTES, utility.JUDGED_NOTES = 24, 24

    def copied(root: Path) -> None:
        shutil.copytree(smoke, root)

    plain = _stages._train_plain
    return {one.name: replace(one, before=copied) if one.before is plain else one for one in _stages.STAGES}
