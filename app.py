"""Entry point of the web app: navigation only. Start it with `make run` or `streamlit run app.py`."""

from pages.parts.common import shell

shell.run(shell.navigation())
