"""Audit tables of the runs that the Canaries page compares."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.runs.run import Run
from pages.parts.session import owner


def audit_table(run: Run, name: str) -> pd.DataFrame:
    """A table of the run's full audit; empty if there is none."""
    return owner.workspace().audit(run.id).table(name)


def no_audit(name: str) -> None:
    """Say that a chart needs an attack that only a full audit has; `battery.offer` says how to run it."""
    st.info(f"This attack has not been run on “{name}” yet.", icon=":material/swords:")


def together(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of several runs as one, with the run's name in the first column."""
    return pd.concat([table.assign(run=name) for name, table in tables.items()])[
        ["run", *next(iter(tables.values())).columns]
    ]
