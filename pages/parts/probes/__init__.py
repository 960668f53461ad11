"""Parts of the Probes page: a card a probe, with a guess before the answer."""
