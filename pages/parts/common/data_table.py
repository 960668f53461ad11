"""The numbers beside a picture: a chart's table, folded away under it, and its download."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.evaluation.report.csv_export import spreadsheet_csv


def data_table(frame: pd.DataFrame, *, name: str, label: str = "The numbers behind this picture") -> None:
    """Fold `frame` under a chart, with a download as `name`.csv (`name` is also the widget's key: unique on a page)."""
    with st.expander(label):
        st.dataframe(frame, hide_index=True, alt=label)
        csv_button(frame, name=name)


def csv_button(frame: pd.DataFrame | Callable[[], pd.DataFrame], *, name: str, label: str = "Download as CSV") -> None:
    """A download of `frame` as `name`.csv, made only when it is asked for; no cell starts a spreadsheet formula.

    A function is called for its frame only then, too.
    """
    st.download_button(
        label,
        data=lambda: spreadsheet_csv(frame() if callable(frame) else frame),
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"download-{name}",
    )
