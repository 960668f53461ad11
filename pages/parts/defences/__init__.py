"""Parts of the Defences page: risk against utility, and how far an output filter gets."""
