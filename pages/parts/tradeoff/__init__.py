"""Parts of the ε trade-off page: the curves, the odds, the recommendation, and what-if accounting."""
