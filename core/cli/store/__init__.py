"""The commands `python -m core store …`: backups of the data folder, and what it could do without."""
