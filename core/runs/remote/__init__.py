"""A store that several machines share, by any address that fsspec knows, beside each machine's own data folder."""
