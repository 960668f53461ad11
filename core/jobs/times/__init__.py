"""How long a job takes: what it reads, what its stages cost, and how fast this machine is."""
