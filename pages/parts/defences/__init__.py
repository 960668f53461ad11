"""Parts of the Defences page: risk against utility, and how much an output filter removes."""
