"""What the processes of a build listen to, and what they answer to whoever asks without a key."""

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import psutil

PATHS = "status", "metrics", "info/main/workers.html"
"""Of Dask's HTTP servers; all of them answer /health, and list their paths in /sitemap.json."""


@dataclass(frozen=True)
class Socket:
    """A socket that a process listens to."""

    process: int
    address: str
    port: int


def listened_to(
    build: subprocess.Popen[str], others: Callable[[], Iterable[psutil.Process]] = list, seconds: float = 300.0
) -> tuple[set[Socket], list[str]]:
    """All sockets that a build, what it started, and other processes of it listen to until it ends; and what answers.

    answers  the URLs that gave a page to somebody without a key
    """
    found, answers, deadline = set[Socket](), list[str](), time.monotonic() + seconds
    while build.poll() is None:
        assert time.monotonic() < deadline, "the build hangs"
        new = {socket for process in [*_family(build.pid), *others()] for socket in _sockets(process)} - found
        found |= new
        answers += [url for socket in new for path in PATHS if _answers(url := _url(socket, path))]
        time.sleep(0.1)
    return found, answers


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        build = psutil.Process(pid)
        return [build, *build.children(recursive=True)]
    return []


def _sockets(process: psutil.Process) -> list[Socket]:
    with suppress(psutil.Error):
        listening = (c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN)
        return [Socket(process.pid, c.laddr.ip, c.laddr.port) for c in listening]
    return []


def _url(socket: Socket, path: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(socket.address, socket.address)
    return f"http://{host}:{socket.port}/{path}"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as page:
            return bool(page.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
    except Exception:  # it speaks, but not HTTP
        return False


def status_of(url: str, data: bytes | None = None) -> int:
    """Of the answer; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
