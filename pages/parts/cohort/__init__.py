"""Parts of the Cohort page: notes with PHI marked, how fields and codes are spread, downloads."""
