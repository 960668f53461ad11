"""Parts of the Ledger page: totals, releases, the remaining budget, and the release form."""
