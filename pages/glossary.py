"""Glossary: the technical terms of this app, and where each is defined."""

from __future__ import annotations

from pages.parts.common import glossary, shell

shell.page("glossary", "What do the terms in this app mean, and where are they defined?")
glossary.browse()
