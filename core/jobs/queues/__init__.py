"""Queues of jobs: `own` is the order of one engine, in memory; `shared` tells other servers of the data folder."""
