"""Parts of the Cohort page: notes with PHI marked, the distribution of fields and codes, downloads."""
