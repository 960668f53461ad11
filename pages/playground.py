"""playground."""

from pages.parts import shell

shell.page("playground", "")
