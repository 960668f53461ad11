"""Patients by the rarity of their diseases, and what leaked of each: DuckDB over Parquet, never a whole table."""
