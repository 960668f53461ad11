"""Glossary: every word of the field that this app uses, and where it is defined."""

from __future__ import annotations

from pages.parts.common import glossary, shell

shell.page("Glossary", "What do the words of this app mean, and where are they defined?", icon=":material/menu_book:")
glossary.browse()
