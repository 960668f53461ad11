"""Stores to test with: a local folder, and a bucket of moto's S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from fsspec import get_filesystem_class
from moto.server import ThreadedMotoServer

from core.runs.remote.store import Store


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, ThreadedMotoServer]]:
    """The address of an empty bucket, and its server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    get_filesystem_class("s3").clear_instance_cache()  # it knows the server of the last test
    name = f"phi-{uuid4().hex}"  # moto's buckets outlive its server, and a later server may get the same port
    Store(f"s3://{name}").fs.mkdir(name)
    yield f"s3://{name}/lab", server
    server.stop()


@pytest.fixture(params=["file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of either kind."""
    if request.param == "file":
        return (tmp_path / "store").as_uri()
    return request.getfixturevalue("bucket")[0]
