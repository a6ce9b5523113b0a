"""The SSH recipe of docs/scaling.md, over loopback: two workers, one of them killed in the middle, the same bits.

``python -m benchmarks.ssh_loopback [rows]`` starts an SSH server of its own on a free port of 127.0.0.1, with keys made
for the run in a temporary folder; nothing of the account is changed. It needs sshd (openssh-server), asyncssh and
the extra ``[dask]``, and says what is missing where it cannot run.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.streaming import ours, written_rows
from problems import SparseLSSVMRegressor
from substrate.streaming import Passes

__all__ = ["Server", "fitted_over_ssh", "missing", "serve"]

#: Basis vectors, and changes of state on the scheduler after which a worker is killed: some spans are summed by then.
N_BASIS, TRANSITIONS = 100, 25


@dataclass(frozen=True, slots=True)
class Server:
    """An SSH server of this process, and what a client needs for it."""

    port: int
    key: Path

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of asyncssh; the server's own key was made a moment ago, so no list of known hosts
        has it.
        """
        return {"port": self.port, "client_keys": [str(self.key)], "known_hosts": None, "username": getuser()}


def missing() -> str:
    """Return what is not installed, in a sentence; empty if all is there."""
    if _sshd() is None:
        return "sshd is not installed: on Debian and Ubuntu, apt-get install openssh-server"
    absent = [name for name in ("asyncssh", "distributed", "pyarrow") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(absent)}; pip install {' '.join(absent)}" if absent else ""


def _sshd() -> str | None:
    return shutil.which("sshd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))


def _key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Run an SSH server on a free port of 127.0.0.1 that admits one key; it ends on the way out."""
    host, client_key = _key(folder / "host"), _key(folder / "client")
    (folder / "authorized").write_text((folder / "client.pub").read_text(encoding="ascii"), encoding="ascii")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": str(port),
        "HostKey": str(host),
        "PidFile": "none",
        "AuthorizedKeysFile": str(folder / "authorized"),
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
    }
    (folder / "config").write_text("".join(f"{k} {v}\n" for k, v in settings.items()), encoding="ascii")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)  # of its separated process, which root's server has
    command = [str(_sshd()), "-D", "-e", "-f", str(folder / "config")]
    with (folder / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, stderr=log)
        try:
            _wait_for(port, server, folder / "log")
            yield Server(port, client_key)
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(100):
        if server.poll() is not None:
            break
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"sshd did not start on port {port}: {log.read_text(encoding='utf-8').strip()}")


def _kill_one(client: Any, ended: threading.Event, killed: list[str]) -> None:
    """Kill a worker with its nanny when some of the sums are done, and not after the fit."""
    # functions that every worker has, and one that is sent as it is: workers do not import the benchmarks
    workers, nannies = client.run(os.getpid), client.run(os.getppid)
    counted = lambda dask_scheduler: dask_scheduler.transition_counter  # noqa: E731
    address, before = next(iter(workers)), client.run_on_scheduler(counted)
    while not ended.wait(0.05):
        if client.run_on_scheduler(counted) >= before + TRANSITIONS:
            for process in (nannies[address], workers[address]):  # a nanny would start another worker
                os.kill(process, signal.SIGKILL)
            killed.append(address)
            return


def fitted_over_ssh(path: str, server: Server, *, kill: bool = True) -> tuple[SparseLSSVMRegressor, list[str], int]:
    """Return the model of a file by two workers that are reached through SSH, who was killed, and how many were
    left.
    """
    from distributed import Client, SSHCluster

    with (
        SSHCluster(
            ["127.0.0.1"] * 3,
            connect_options=server.options,
            worker_options={"nthreads": 1},
            scheduler_options={"host": "127.0.0.1", "port": 0, "dashboard": False},
            remote_python=sys.executable,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        ended, killed = threading.Event(), list[str]()
        watch = threading.Thread(target=_kill_one, args=(client, ended, killed))
        if kill:
            watch.start()
        try:
            model = ours(N_BASIS).set_params(passes=Passes(client)).fit(path, "y")
        finally:
            ended.set()
            if kill:
                watch.join()
        return model, killed, len(client.scheduler_info()["workers"])


def same_bits(first: SparseLSSVMRegressor, second: SparseLSSVMRegressor) -> bool:
    return bool(np.array_equal(first.support_values_, second.support_values_) and first.bias_ == second.bias_)


def main(arguments: list[str]) -> int:
    lacking = missing()
    if lacking:
        print(f"skipped: {lacking}")
        return 0
    rows = int(float(arguments[0])) if arguments else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = written_rows(folder, rows)
        local = ours(N_BASIS).fit(path, "y")
        with serve(Path(folder)) as server:
            model, killed, workers_left = fitted_over_ssh(path, server)
    holds, equal = model.certificate_.holds, same_bits(model, local)
    print(f"{rows:,} rows over SSH: killed {', '.join(killed) or 'nobody'}, {workers_left} of 2 workers left")
    print(f"certificate {'holds' if holds else 'does not hold'}; {'the same' if equal else 'other'} bits as here")
    return 0 if holds and equal and killed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
