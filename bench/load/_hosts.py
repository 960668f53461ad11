"""Hosts to measure with, on one machine: network namespaces if this account may make them, else loopback addresses.

In namespaces each host has an address on a bridge that leads nowhere else, an account of its own, and its own folder
under the same path as the others, which it cannot see. With loopback addresses hosts differ by address and folder only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FIRST_USER, GROUP = 61_000, 61_000  # numbers without a name: nothing else on the machine belongs to them
SETUP = """
mount --bind "$1" "$2" && mount -t tmpfs -o size=4k,mode=755 none "$3" && cd "$2" || exit 1
user=$4 group=$5; shift 5; umask 002
exec setpriv --reuid="$user" --regid="$group" --clear-groups -- "$@"
"""
WHY_NOT = (
    "Network namespaces need root (and `ip`, `unshare`, `setpriv`): without them, hosts are loopback addresses with "
    "folders of their own, under one account."
)


@dataclass(frozen=True)
class Host:
    """A host: its address, its folder from outside (`folder`) and inside (`home`), and how to start things on it."""

    name: str
    address: str
    folder: Path
    home: Path
    prefix: tuple[str, ...] = ()

    def start(
        self, command: Sequence[str], environment: dict[str, str], out: IO[str], errors: IO[str]
    ) -> subprocess.Popen[bytes]:
        """A process on this host, whose working folder is `home`."""
        own = {"HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), **environment}
        (self.folder / "tmp").mkdir(exist_ok=True)
        (self.folder / "tmp").chmod(0o777)
        return subprocess.Popen(  # noqa: S603 — programs of this project and of the system
            [*self.prefix, *command], cwd=None if self.prefix else self.home, env=own, stdout=out, stderr=errors
        )


def may_isolate() -> bool:
    """Whether this account may make network namespaces."""
    name = f"phi-{os.getpid()}-try"
    try:
        made = os.geteuid() == 0 and not _run("ip", "netns", "add", name) and not _run("setpriv", "--version")
        return made and not _run("unshare", "--mount", "true")
    except FileNotFoundError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            _run("ip", "netns", "delete", name)


@contextlib.contextmanager
def hosts(root: Path, names: Sequence[str], *, isolated: bool) -> Iterator[dict[str, Host]]:
    """Hosts with these names, with folders in `root/hosts`; ended afterwards. `root/store` is there for all of them."""
    for name in ("hosts", "here", "store"):
        (root / name).mkdir()
    for name in names:
        (root / "hosts" / name).mkdir(mode=0o700)
    if not isolated:
        folders = {name: root / "hosts" / name for name in names}
        yield {
            name: Host(name, f"127.0.0.{number}", folders[name], folders[name]) for number, name in enumerate(names, 2)
        }
        return
    root.chmod(0o755)
    os.chown(root / "store", 0, GROUP)
    (root / "store").chmod(0o2775)
    with contextlib.ExitStack() as stack:
        bridge = _namespace(stack, "lan")
        _check("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
        _check("ip", "-n", bridge, "link", "set", "bridge", "up")
        yield {
            name: _isolated(stack, root, bridge, name, f"10.99.0.{number}", FIRST_USER + number)
            for number, name in enumerate(names, 2)
        }


def _isolated(stack: contextlib.ExitStack, root: Path, bridge: str, name: str, address: str, user: int) -> Host:
    """A host in a namespace of its own, connected to the bridge."""
    own, port = _namespace(stack, name), f"to-{name}"
    _check("ip", "-n", bridge, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", own)
    _check("ip", "-n", bridge, "link", "set", port, "master", "bridge", "up")
    _check("ip", "-n", own, "address", "add", f"{address}/24", "dev", "eth0")
    for device in ("eth0", "lo"):
        _check("ip", "-n", own, "link", "set", device, "up")
    folder, home = root / "hosts" / name, root / "here"
    os.chown(folder, user, GROUP)
    places = (str(folder), str(home), str(root / "hosts"), str(user), str(GROUP))
    prefix = ("ip", "netns", "exec", own, "unshare", "--mount", "sh", "-c", SETUP, "sh", *places)
    return Host(name, address, folder, home, prefix)


def _namespace(stack: contextlib.ExitStack, name: str) -> str:
    made = f"phi-{os.getpid()}-{name}"
    _check("ip", "netns", "add", made)
    stack.callback(_run, "ip", "netns", "delete", made)
    return made


def _run(*command: str) -> int:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode  # noqa: S603


def _check(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603
