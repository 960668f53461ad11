"""Widgets that choose a run, a cohort or a sweep; the choice is kept in the session and in the link."""
