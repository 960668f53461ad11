"""Parts of the Canaries page: exposure, notes repeated word for word, proved bounds on ε, word lists."""
