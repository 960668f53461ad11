"""`python -m core.jobs.cluster`: the local cluster, in a process of its own.

A web server must not fork workers: they would start its main script again. So the server starts this module, which
holds a dask LocalCluster with one worker process, prints the scheduler's address, and ends when its standard input is
closed, that is, when the server ends for whatever reason.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile

import dask
from dask.system import CPU_COUNT
from distributed import LocalCluster
from distributed.system import MEMORY_LIMIT

MEMORY_SHARE = 0.7  # of the machine; beyond it the nanny restarts the worker, and the job goes on from its checkpoint
DEATHS_ALLOWED = 5  # workers a job may outlive before it counts as failed

# Large blocks stay with the allocator (3–19 % less time a step); threads that wait do not spin (beside a browser).
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "OMP_WAIT_POLICY": "passive",
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(CPU_COUNT)),
    "TOKENIZERS_PARALLELISM": "false",
}


def serve() -> None:
    """Run the cluster until standard input is closed."""
    dask.config.set(
        {
            "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
            "distributed.scheduler.allowed-failures": DEATHS_ALLOWED,
            "distributed.worker.daemon": True,
            "distributed.admin.tick.limit": "1 day",  # a training step holds the interpreter longer than a web request
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.pause": False,
        }
    )
    with (
        tempfile.TemporaryDirectory(prefix="phi-leak-lab-") as folder,
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=int(MEMORY_LIMIT * MEMORY_SHARE),
            local_directory=folder,
            silence_logs=logging.ERROR,
        ) as cluster,
    ):
        print(json.dumps({"scheduler": cluster.scheduler_address}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve()
