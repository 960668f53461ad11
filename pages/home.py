"""home."""

from pages.parts import shell

shell.page("home", "")
