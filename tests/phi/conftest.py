"""A small hospital whose values collide on purpose, and its index."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from core.phi.index import PhiIndex


@pytest.fixture(scope="session")
def patients() -> pd.DataFrame:
    return pd.read_csv(Path(__file__).with_name("patients.csv"), dtype=str)


@pytest.fixture(scope="session")
def index(patients) -> PhiIndex:
    """P7 was put into training, P8 was not."""
    return PhiIndex.build(patients, inserted={"P7"})
