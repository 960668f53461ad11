"""Parts of the Canaries page: exposure, verbatim notes, proved bounds on ε, word lists."""
