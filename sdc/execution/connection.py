"""Is there a scheduler, and do its workers run the same code and see the same folder: asked before any work."""

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

from sdc.events import EXECUTION, tell
from sdc.execution.settings import AddressSettings, TlsSettings
from sdc.model.errors import ConfigError, NoWorkersError
from sdc.paths import require_own
from sdc.storage.run_folder import code_digest
from sdc.version import deciding

SAME = ("dask", "distributed")
"""Packages that driver and workers must have in the same version, beside those that decide."""
PATIENCE = 300.0  # seconds to wait for a scheduler or a worker that went away
SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_LINES = 2.0, 60.0


def connect(settings: AddressSettings) -> Any:
    """A client of the scheduler; ConfigError, which says why, where it does not accept us within the timeout.

    NoWorkersError where nobody listens there.
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
        # the second time with the time for which it tries to reach a scheduler that it lost
        client(settings.timeout_seconds).close()
        return client(PATIENCE)
    except Exception as error:  # what the bytes of another service do to Dask, a MemoryError for one
        raise _refused(settings, f"it answers, but is no Dask scheduler of this version ({error!r})") from error


def _wait_for_answer(settings: AddressSettings) -> None:
    """Waits for the first byte that a scheduler sends who accepts us; Dask itself would not say what is wrong."""
    context = None if settings.tls is None else tls_context(settings.tls)
    deadline = time.monotonic() + settings.timeout_seconds
    while True:
        try:
            return _first_byte(settings.address, context, deadline)
        except ssl.SSLError as error:
            raise _refused(settings, _why_no_tls(error)) from error
        except socket.gaierror as error:
            raise _refused(settings, f"the host is not known ({error.strerror})") from error
        except OSError as error:
            # tried again until the time is over: the scheduler may just be starting
            if time.monotonic() + 0.2 > deadline:
                away = isinstance(error, ConnectionRefusedError)
                raise _refused(settings, _why_no_answer(error), NoWorkersError if away else ConfigError) from error
            time.sleep(0.2)


def _first_byte(address: str, context: ssl.SSLContext | None, deadline: float) -> None:
    url = urlsplit(address)
    left = max(deadline - time.monotonic(), 0.1)
    plain = socket.create_connection((url.hostname, url.port), timeout=left)
    with plain, plain if context is None else context.wrap_socket(plain) as connection:
        # a scheduler greets first; one that refuses a certificate closes, and tells nothing
        if not connection.recv(1):
            raise ConnectionResetError("it hangs up")


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """The context that Dask makes of the same files; ConfigError where one is missing or does not fit."""
    for name in ("ca_file", "cert", "key"):
        if not getattr(tls, name).is_file():
            raise ConfigError(f"tls.{name} = {str(getattr(tls, name))!r}: there is no such file; name a PEM file")
        require_own(getattr(tls, name))
    try:
        context = ssl.create_default_context(cafile=str(tls.ca_file))
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"tls.ca_file = {str(tls.ca_file)!r} holds no certificate; name a PEM file") from error
    # as Dask has it: such certificates are signed by an authority of the user's own, and name no host
    context.check_hostname = False
    try:
        context.load_cert_chain(tls.cert, tls.key, password=lambda: "")  # an encrypted key must not ask for a password
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"tls.key = {str(tls.key)!r} is not the key of tls.cert = {str(tls.cert)!r} "
            f"({_reason(error)}); name the two that belong together, the key not encrypted"
        ) from error
    return context


def _why_no_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not signed by tls.ca_file ({error.verify_message})"
    if "ALERT" in (error.reason or ""):
        return f"it does not accept tls.cert ({_reason(error)})"
    return f"it does not speak TLS ({_reason(error)}); is it a tcp:// scheduler?"


def _why_no_answer(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it says nothing; is it another service, or a tls:// scheduler?"
    return str(error.strerror or error)


def _reason(error: OSError) -> str:
    return (getattr(error, "reason", None) or error.strerror or str(error)).replace("_", " ").lower()


def _refused(settings: AddressSettings, why: str, kind: type[ConfigError] = ConfigError) -> ConfigError:
    return kind(
        f"no scheduler accepts us at {settings.address!r} within {settings.timeout_seconds:g} s: {why}; start it, or "
        "mend the cluster file"
    )


# Workers


def check_workers(
    client: Any, scratch: Path, timeout: float, memory: int = 0, waiting: Callable[[], str] = lambda: ""
) -> int:
    """How many workers there are; NoWorkersError where in time there is none, ConfigError where one is not as it must.

    Each must have the code of this process, the versions of libraries, the scratch folder, and the memory, in bytes.
    While there is none, what is waited for is told.
    """
    said = Waiting(timeout)
    while True:
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=min(SECONDS_BETWEEN_LOOKS, said.seconds_left))
            break
        if not said.seconds_left:
            raise NoWorkersError(
                f"the scheduler {client.scheduler.address} has no worker within {timeout:g} s{said.why}; start one, or "
                "wait longer (timeout_seconds)"
            )
        said.tell("no worker yet", waiting())
    # a folder of the same name on each node is not a shared one: a worker must read what was written here, and write
    # too
    token = scratch / f"token-{uuid.uuid4().hex}"
    token.write_text(token.name)
    try:
        answers = client.run(worker_facts, str(token), on_error="return")
        # all are asked at once, and the first that is not as it must be is named
        for worker, answer in answers.items():
            _check_worker(f"worker {worker}", answer, token)
    finally:
        for path in scratch.glob(f"{token.name}*"):
            path.unlink(missing_ok=True)
    _check_memory(client, memory)
    return len(answers)


def workers_of(client: Any) -> dict[str, Any]:
    """What the scheduler knows of each."""
    # not `client.scheduler_info`, which may give none: the client itself asks now and then, without workers
    found: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return found


class Waiting:
    """Tells that something is waited for, and why, about once a minute and where the reason is another one.

    timeout  seconds after which nobody waits any more
    """

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self._clock = timeout, clock
        self.again()

    def again(self) -> None:
        """What was waited for is there; from here on it is waited for anew."""
        self._begun, self._last, self.why = self._clock(), self._clock(), ""

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._begun + self.timeout - self._clock())

    def tell(self, what: str, reason: str = "") -> None:
        now = self._clock()
        why = f" ({reason})" if reason else ""
        if why != self.why or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last, self.why = now, why
            line = f"{what}{why}; waiting, {now - self._begun:.0f} s of {self.timeout:g} s"
            tell("waiting", line, EXECUTION)


def worker_facts(token: str) -> dict[str, str]:
    """Of the process that runs it: its software, and whether it reads the token and writes beside it."""
    try:
        seen = Path(token).read_text()
        Path(f"{token}-{uuid.uuid4().hex}").touch()
    except OSError as error:
        return {**software(), "scratch": error.strerror or str(error)}
    return {**software(), "scratch": seen}


@lru_cache(maxsize=1)
def software() -> dict[str, str]:
    """Of this process: the code and the versions that what it computes depends on."""
    facts = {"sdc code": code_digest()[:12], "python": ".".join(platform.python_version_tuple()[:2])}
    return facts | deciding() | {name: importlib.metadata.version(name) for name in SAME}


def require_software(worker: str, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    """ConfigError where a worker has other software than the process of the build."""
    other = [f"{name} {there.get(name)} (here {value})" for name, value in here.items() if there.get(name) != value]
    if other:
        raise ConfigError(f"{worker} differs from this process: {', '.join(other)}; install the same versions there")


def _check_worker(worker: str, answer: Any, token: Path) -> None:
    if isinstance(answer, BaseException):
        raise ConfigError(
            f"{worker} has no sdc, or another one: {answer!r}; install the same version there"
        ) from answer
    require_software(worker, answer, software())
    if answer["scratch"] != token.name:
        raise ConfigError(
            f"{worker} does not see or cannot write the scratch folder {token.parent} ({answer['scratch']}); name a "
            "folder that all workers share"
        )


def _check_memory(client: Any, memory: int) -> None:
    """A worker without a limit says 0."""
    for worker, facts in workers_of(client).items():
        if 0 < facts["memory_limit"] < memory:
            raise ConfigError(
                f"worker {worker} has {facts['memory_limit']} bytes of memory, less than memory_per_worker ({memory}); "
                "start it with a larger limit, or set memory_per_worker in the cluster file to what workers have"
            )
