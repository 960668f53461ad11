"""Where the program's own files are: in a checkout, or in an installed wheel, which has no pages or shipped runs."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = (_PACKAGE / "assets").is_dir()  # setup.py puts them there
PROGRAM = _PACKAGE.parent  # the checkout, or the folder that packages are installed in
ASSETS = _PACKAGE / "assets" if INSTALLED else PROGRAM / "assets"
DATA = Path("data") if INSTALLED else PROGRAM / "data"  # runs and cohorts, if nothing else is asked for
