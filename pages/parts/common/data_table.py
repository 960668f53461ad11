"""The numbers behind a chart: its table, folded away below it, and its download."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.evaluation.report.csv_export import spreadsheet_csv
from pages.parts.access import viewer


def data_table(frame: pd.DataFrame, *, name: str, label: str = "The numbers behind this chart") -> None:
    """Fold `frame` away below a chart, with a download.

    Args:
        frame: The table.
        name: The download's file name without `.csv`, and part of its key: unique on a page.
        label: The title of the fold.
    """
    with st.expander(label):
        st.dataframe(frame, hide_index=True, alt=label)
        csv_button(frame, name=name)


def csv_button(frame: pd.DataFrame | Callable[[], pd.DataFrame], *, name: str, label: str = "Download as CSV") -> None:
    """A download of `frame` as `name`.csv, made on click. No cell starts a spreadsheet formula.

    Args:
        frame: The table, or a function that returns it, which is called on click.
        name: The file name without `.csv`, and part of the widget's key.
        label: The button's label.
    """
    st.download_button(
        label,
        data=viewer.later(lambda: spreadsheet_csv(frame() if callable(frame) else frame)),
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"download-{name}",
    )
