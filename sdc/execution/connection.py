"""Connections: is there a scheduler, and do its workers run the same code and see the same folder?"""

from __future__ import annotations

import importlib.metadata
import platform
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sdc.events import EXECUTION, emit
from sdc.execution.settings import AddressSettings, TlsSettings
from sdc.model.errors import ConfigError, NoWorkersError
from sdc.paths import require_own
from sdc.storage.run_folder import code_digest
from sdc.version import deciding

SAME = ("dask", "distributed")
"""Other packages with equal versions on driver and workers."""
PATIENCE = 300.0  # seconds to wait for a lost scheduler or worker
SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_LINES = 2.0, 60.0


def connect(settings: AddressSettings) -> Any:
    """Connect to the scheduler; ConfigError with the reason if it does not accept us within the timeout.

    NoWorkersError if nothing listens there.
    """
    _wait_for_answer(settings)
    from distributed import Client, Security

    tls = settings.tls
    security = tls and Security(  # type: ignore[no-untyped-call]
        tls_ca_file=str(tls.ca_file),
        tls_client_cert=str(tls.cert),
        tls_client_key=str(tls.key),
        require_encryption=True,
    )

    def client(timeout: float) -> Any:
        return Client(settings.address, timeout=timeout, security=security)  # type: ignore[no-untyped-call]

    try:
        # again with the timeout for reconnecting
        client(settings.timeout_seconds).close()
        return client(PATIENCE)
    except Exception as error:  # bytes of another service cause any error, such as MemoryError
        raise _refused(settings, f"it answers, but is not a Dask scheduler of this version ({error!r})") from error


def _wait_for_answer(settings: AddressSettings) -> None:
    """Wait for a scheduler's first byte; Dask itself would not report the cause of a failure."""
    context = None if settings.tls is None else tls_context(settings.tls)
    deadline = time.monotonic() + settings.timeout_seconds
    while True:
        try:
            return _first_byte(settings.address, context, deadline)
        except ssl.SSLError as error:
            raise _refused(settings, _why_no_tls(error)) from error
        except socket.gaierror as error:
            raise _refused(settings, f"unknown host ({error.strerror})") from error
        except OSError as error:
            # retry: the scheduler may be starting
            if time.monotonic() + 0.2 > deadline:
                away, why = isinstance(error, ConnectionRefusedError), str(error.strerror or error)
                if isinstance(error, TimeoutError):
                    why = "it is silent; is it another service, or a tls:// scheduler?"
                raise _refused(settings, why, NoWorkersError if away else ConfigError) from error
            time.sleep(0.2)


def _first_byte(address: str, context: ssl.SSLContext | None, deadline: float) -> None:
    url = urlsplit(address)
    left = max(deadline - time.monotonic(), 0.1)
    plain = socket.create_connection((url.hostname, url.port), timeout=left)
    with plain, plain if context is None else context.wrap_socket(plain) as connection:
        # a scheduler greets first; refusing a certificate, it closes silently
        if not connection.recv(1):
            raise ConnectionResetError("it hangs up")


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the TLS context that Dask makes of these files; ConfigError if one is missing or does not fit."""
    for name in ("ca_file", "cert", "key"):
        if not getattr(tls, name).is_file():
            raise ConfigError(f"tls.{name} = {str(getattr(tls, name))!r}: file not found; name a PEM file")
        require_own(getattr(tls, name))
    try:
        context = ssl.create_default_context(cafile=str(tls.ca_file))
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"tls.ca_file = {str(tls.ca_file)!r} has no certificate; name a PEM file") from error
    # as in Dask: the user's own authority signs these certificates, without host names
    context.check_hostname = False
    try:
        context.load_cert_chain(tls.cert, tls.key, password=lambda: "")  # never prompt for a password
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"tls.key = {str(tls.key)!r} is not the key of tls.cert = {str(tls.cert)!r} "
            f"({_reason(error)}); name a matching pair with an unencrypted key"
        ) from error
    return context


def _why_no_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not signed by tls.ca_file ({error.verify_message})"
    if "ALERT" in (error.reason or ""):
        return f"it does not accept tls.cert ({_reason(error)})"
    return f"it does not speak TLS ({_reason(error)}); is it a tcp:// scheduler?"


def _reason(error: OSError) -> str:
    return (getattr(error, "reason", None) or error.strerror or str(error)).replace("_", " ").lower()


def _refused(settings: AddressSettings, why: str, kind: type[ConfigError] = ConfigError) -> ConfigError:
    return kind(
        f"no scheduler accepts us at {settings.address!r} within {settings.timeout_seconds:g} s: {why}; start it, or "
        "fix the cluster file"
    )


# Workers


def check_workers(
    client: Any, scratch: Path, timeout: float, memory: int = 0, waiting: Callable[[], str] = lambda: ""
) -> int:
    """Return the number of workers; NoWorkersError if none comes in time, ConfigError if one does not fit.

    Each must have this process's code and library versions, the scratch folder, and the memory in bytes. Waiting is
    logged.
    """
    wait = Waiting(timeout)
    while True:
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=min(SECONDS_BETWEEN_LOOKS, wait.seconds_left))
            break
        if not wait.seconds_left:
            raise NoWorkersError(
                f"the scheduler {client.scheduler.address} has no worker within {timeout:g} s{wait.why}; start one, or "
                "wait longer (timeout_seconds)"
            )
        wait.emit("no worker yet", waiting())
    # a worker must read a file from here and write beside it, to prove that the folder is shared
    token = scratch / f"token-{uuid.uuid4().hex}"
    token.write_text(token.name)
    try:
        answers = client.run(worker_facts, str(token), on_error="return")
        # all are checked at once; the first that does not fit is named
        for worker, answer in answers.items():
            _check_worker(f"worker {worker}", answer, token)
    finally:
        for path in scratch.glob(f"{token.name}*"):
            path.unlink(missing_ok=True)
    for worker, facts in workers_of(client).items():
        if 0 < facts["memory_limit"] < memory:  # 0: it has no limit
            raise ConfigError(
                f"worker {worker} has {facts['memory_limit']} bytes of memory, less than memory_per_worker ({memory}); "
                "start it with a larger limit, or lower memory_per_worker in the cluster file"
            )
    return len(answers)


def workers_of(client: Any) -> dict[str, Any]:
    """Return the scheduler's facts about each worker."""
    # not `client.scheduler_info`, which is updated only now and then
    found: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


class Waiting:
    """Logs what is waited for and why, once a minute and when the reason changes.

    timeout  seconds after which waiting ends
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self._clock = timeout, clock
        self.again()

    def again(self) -> None:
        """Restart the wait."""
        self._begun, self._last, self.why = self._clock(), self._clock(), ""

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._begun + self.timeout - self._clock())

    def emit(self, what: str, reason: str = "") -> None:
        now = self._clock()
        why = f" ({reason})" if reason else ""
        if why != self.why or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last, self.why = now, why
            line = f"{what}{why}; waiting, {now - self._begun:.0f} s of {self.timeout:g} s"
            emit("waiting", line, EXECUTION)


def worker_facts(token: str) -> dict[str, str]:
    """Return a worker's software, and whether it reads the token and can write beside it."""
    try:
        seen = Path(token).read_text()
        Path(f"{token}-{uuid.uuid4().hex}").touch()
    except OSError as error:
        return {**software(), "scratch": error.strerror or str(error)}
    return {**software(), "scratch": seen}


@lru_cache(maxsize=1)
def software() -> dict[str, str]:
    """Return the versions of code and libraries that results depend on."""
    facts = {"sdc code": code_digest()[:12], "python": ".".join(platform.python_version_tuple()[:2])}
    return facts | deciding() | {name: importlib.metadata.version(name) for name in SAME}


def require_software(worker: str, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise ConfigError if a worker has other software than this process."""
    other = [f"{name} {there.get(name)} (here {value})" for name, value in here.items() if there.get(name) != value]
    if other:
        raise ConfigError(f"{worker} differs from this process: {', '.join(other)}; install the same versions there")


def _check_worker(worker: str, answer: Any, token: Path) -> None:
    if isinstance(answer, BaseException):
        raise ConfigError(f"{worker} has another sdc, or none: {answer!r}; install the same version there") from answer
    require_software(worker, answer, software())
    if answer["scratch"] != token.name:
        raise ConfigError(
            f"{worker} cannot read or write the scratch folder {token.parent} ({answer['scratch']}); name a "
            "folder that all workers share"
        )
