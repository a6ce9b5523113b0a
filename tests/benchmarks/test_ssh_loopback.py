"""The SSH recipe of the documentation, over loopback."""

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # importing the benchmarks sets these; this gives back what was there
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import ssh_loopback

    return ssh_loopback


@pytest.mark.slow
# cluster and workers log the loss of one of them, and leave a socket to the collector
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fit_over_ssh_has_the_bits_of_a_fit_here_though_a_worker_is_killed(
    loopback: ModuleType, tmp_path: Path
) -> None:
    lacking = loopback.missing()
    if lacking:
        pytest.skip(lacking)
    path = loopback.written_rows(str(tmp_path), 1_000_000)
    local = loopback.ours(loopback.N_BASIS).fit(path, "y")
    keys = tmp_path / "keys"
    keys.mkdir()
    with loopback.served(keys) as server:
        model, killed, left = loopback.fitted_over_ssh(path, server)
    assert killed
    assert left == 1
    assert model.certificate_.holds
    assert loopback.same_bits(model, local)


def test_what_is_missing_is_named(loopback: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "_sshd", lambda: None)
    assert "apt-get install openssh-server" in loopback.missing()
    monkeypatch.setattr(loopback, "_sshd", lambda: "/usr/sbin/sshd")
    monkeypatch.setattr(loopback.importlib.util, "find_spec", lambda name: None)
    assert (
        loopback.missing() == "not installed: asyncssh, distributed, pyarrow; pip install asyncssh distributed pyarrow"
    )


def test_the_script_says_that_it_was_skipped(
    loopback: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loopback, "missing", lambda: "sshd is not installed")
    assert loopback.main([]) == 0
    assert capsys.readouterr().out == "skipped: sshd is not installed\n"
