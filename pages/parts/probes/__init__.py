"""Parts of the Probes page: one card per probe, with a guess before the answer."""
