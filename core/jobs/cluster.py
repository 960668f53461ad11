"""`python -m core.jobs.cluster`: the local cluster, in a separate process.

A web server must not fork workers, since they would start its main script again. So the server starts this module. It
runs a dask scheduler with one worker process, prints the scheduler's address with the credentials to use it, and ends
when its standard input is closed, that is, when the server ends for any reason.

A dask scheduler and its workers run any code they are sent, and every account of a computer can connect to 127.0.0.1.
So all connections use TLS with a certificate for both sides. Its key is created for each cluster and never written to a
lasting file: the server gets it through the pipe that is this process's standard output. The HTTP servers of dask
(dashboard, Prometheus, JSON) do not support certificates, so they are not started.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.system import MEMORY_LIMIT

MEMORY_SHARE = 0.7  # of the machine; above it the nanny restarts the worker, and the job resumes from its checkpoint
NEVER = "10000 days"  # the nanny starts a new worker at once
DEATHS_ALLOWED = 5  # number of workers that may die during a job before it counts as failed

# The allocator keeps large blocks (3–19 % less time per step); waiting threads do not spin (beside a browser).
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "OMP_WAIT_POLICY": "passive",
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(CPU_COUNT)),
    "TOKENIZERS_PARALLELISM": "false",
}


class _WithoutHttp:
    """Disables the HTTP server that dask starts in every scheduler and worker, for which it has no setting."""

    def start_http_server(self, *arguments: Any, **options: Any) -> None:
        """Start no server."""


class LocalScheduler(_WithoutHttp, Scheduler):
    """A scheduler that accepts connections with a certificate only."""


class LocalWorker(_WithoutHttp, Worker):
    """A worker that accepts connections with a certificate only."""


def local_cluster(security: Security, folder: str) -> SpecCluster:
    """A scheduler and one worker process on 127.0.0.1. The worker keeps its files in `folder`."""
    place = {"host": "127.0.0.1", "protocol": "tls://", "security": security}
    worker = {
        "worker_class": LocalWorker,
        "nthreads": 1,
        "memory_limit": int(MEMORY_LIMIT * MEMORY_SHARE),
        "local_directory": folder,
        "silence_logs": logging.ERROR,
    }
    return SpecCluster(
        scheduler={"cls": LocalScheduler, "options": {**place, "port": 0, "dashboard": False}},
        workers={0: {"cls": Nanny, "options": {**place, **worker}}},
        security=security,
        silence_logs=logging.ERROR,
    )


def serve() -> None:
    """Run the cluster until standard input is closed."""
    dask.config.set(
        {
            "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
            "distributed.scheduler.allowed-failures": DEATHS_ALLOWED,
            "distributed.worker.daemon": True,
            # Dask looks so long after a worker's death whether one is there, and if not, gives up the worker for good.
            # Another death at that moment would leave the queue without a worker, and nothing would say so.
            "distributed.deploy.lost-worker-timeout": NEVER,
            "distributed.admin.tick.limit": "1 day",  # a training step blocks the interpreter longer than a web request
            # By default a waiting cluster reads the clock 50 times a second, samples its own stacks 100 times and its
            # use of the machine twice, which nothing here reads. That took 6.9 % of a core, and now takes 1.5 %.
            "distributed.admin.tick.interval": "500ms",
            "distributed.admin.system-monitor.interval": "5s",
            "distributed.worker.profile.enabled": False,
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.pause": False,
        }
    )
    security = Security.temporary()
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-") as folder, local_cluster(security, folder) as cluster:
        connection = {
            "scheduler": cluster.scheduler_address,
            "certificate": security.tls_client_cert,
            "key": security.tls_client_key,
        }
        print(json.dumps(connection), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    from core.jobs import cluster as module  # so that the worker process finds its classes under this name

    module.serve()
