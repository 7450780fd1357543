"""Pages of a run: Prefect's page, with the dashboard of Dask's scheduler."""

from __future__ import annotations

import base64
import mimetypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import prefect
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, PREFECT_UI_URL
from tornado.httpclient import AsyncHTTPClient
from tornado.web import RequestHandler

from sdc.config.build import ExecutionConfig
from sdc.execution.watch import WatchAddress, require_own_scheduler, watched

BASE = b"/PREFECT_UI_SERVE_BASE_REPLACE_PLACEHOLDER"  # placeholder of the path in Prefect's files
HEADERS = "Accept", "Content-Type", "X-PREFECT-API-VERSION"  # forwarded headers, besides the key


@contextmanager
def watched_server(
    await_server: Callable[[], None], execution: ExecutionConfig, port: int
) -> Iterator[Callable[[], None]]:
    """Yield a function that waits for a server and prints where to see the run, on a loopback port; 0 takes a free one.

    ConfigError at once if the port is taken or the workers' pages cannot be served here.
    """
    has_workers, elsewhere = require_own_scheduler(execution), PREFECT_API_URL.value()
    with watched(port) as watch:

        def await_and_print() -> None:
            await_server()
            page = f"its own server's page, {PREFECT_UI_URL.value()}" if elsewhere else prefect_page(watch)
            dask = f"{watch.address}/status" if has_workers else "no workers: this process computes all"
            lines = "see the run until it ends (keep the addresses secret):", f"  Prefect  {page}"
            print(*lines, f"  Dask     {dask}", sep="\n", file=sys.stderr, flush=True)

        yield await_and_print


def prefect_page(watch: WatchAddress) -> str:
    """Return the address of Prefect's page. The server has none, which would be open to all users of this machine."""
    key = base64.b64encode(str(PREFECT_API_AUTH_STRING.value()).encode()).decode()
    api = {"url": PREFECT_API_URL.value(), "key": f"Basic {key}"}
    base = f"{watch.root}/prefect"
    watch.add([("/api/.*", _Api, api), ("/prefect/ui-settings", _WatchSettings, {"root": watch.root})])
    watch.add([("/prefect/(.*)", _Files, {"base": base})])
    return f"{watch.address}/prefect/runs"


class _Files(RequestHandler):
    """The files of Prefect's page."""

    def initialize(self, base: str) -> None:
        self.base, self.files = base.encode(), Path(prefect.__ui_static_path__)

    def get(self, path: str) -> None:
        file = (self.files / path).resolve()
        if not (file.is_relative_to(self.files.resolve()) and file.is_file()):
            file = self.files / "index.html"  # it shows the page of that path
        self.set_header("Content-Type", mimetypes.guess_type(file)[0] or "application/octet-stream")
        self.finish(file.read_bytes().replace(BASE, self.base))


class _WatchSettings(RequestHandler):
    """The settings that the page loads first."""

    def initialize(self, root: str) -> None:
        self.root = root

    def get(self) -> None:
        pages = {"default_ui": "v1", "available_uis": ["v1"], "v1_base_url": f"{self.root}/prefect"}
        # the requested host, which differs through a tunnel
        url = f"{self.request.protocol}://{self.request.host}{self.root}/api"
        self.finish({"api_url": url, "csrf_enabled": False, "auth": None, "flags": [], **pages})


class _Api(RequestHandler):
    """The server's API, with its key."""

    SUPPORTED_METHODS = "GET", "POST", "PATCH", "PUT", "DELETE"

    def initialize(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    async def _pass_on(self) -> None:
        request = self.request
        headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
        answer = await AsyncHTTPClient().fetch(
            f"{self.url}/{str(request.uri).partition('/api/')[2]}",
            raise_error=False,
            method=request.method,
            headers={**headers, "Authorization": self.key},
            body=request.body or None,
            allow_nonstandard_methods=True,
        )
        self.set_status(answer.code)
        self.set_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.finish(answer.body)

    get = post = patch = put = delete = _pass_on
