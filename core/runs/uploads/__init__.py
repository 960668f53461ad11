"""Uploaded cohorts: who owns them, when they expire, and their deletion with everything made from them."""
