"""Behind a real nginx, as the handbook configures it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sdc.handbook import pages
from sdc.handbook.markdown import snippets
from sdc.model.table import Table
from sdc.risk.criteria import Criteria
from sdc.server.web.gateway import BROWSER
from tests.helpers.http import PROXY, SECONDS_TO_ASK, running, server_of
from tests.helpers.small_service import SmallService

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
URL = "https://tables.agency.example"
SETTINGS = {"url": URL, "proxy_header": "X-User", "proxy_secret": "a file"}
OPERATORS = "/api/operator/frontier"

pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx; install nginx-light or the like")


@contextmanager
def behind(location: str, folder: Path) -> Iterator[httpx.Client]:
    """Clients of an nginx with this location, at a Unix socket."""
    temporary = "".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
    listens = f"server {{ listen unix:{folder}/socket; {location} }}"
    user = "user root; " if os.geteuid() == 0 else ""  # else it may not read what root has
    (folder / "nginx.conf").write_text(
        f"{user}daemon off; pid {folder}/pid; error_log stderr; events {{}} "
        f"http {{ access_log off; {temporary} {listens} }}"
    )
    process = subprocess.Popen([str(NGINX), "-p", folder, "-c", folder / "nginx.conf"])
    try:
        deadline = time.monotonic() + 300
        while not (folder / "socket").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(folder / "socket")),
            base_url=URL.replace("s:", ":"),
            timeout=SECONDS_TO_ASK,
        ) as it:
            yield it
    finally:
        process.terminate()
        process.wait(600)


def location_of_the_handbook() -> str:
    (location,) = (one.text for one in snippets(dict(pages())["server.md"]) if one.kind == "nginx")
    return location


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def test_nginx_of_the_handbook_names_users(czech: Table, tmp_path: Path) -> None:
    location = location_of_the_handbook()
    (tmp_path / "users").write_text("ada:{PLAIN}a\neve:{PLAIN}e\n")
    server = server_of(SmallService(czech, Criteria.of(2, 6)), **SETTINGS, users=[{"name": "ada", "role": "operator"}])
    with running(server.app) as url:
        for old, new in (("http://127.0.0.1:8090", url), ("the secret", PROXY.decode())):
            assert old in location
            location = location.replace(old, new)
        with behind(location, tmp_path) as client:
            assert client.get("/", auth=("ada", "wrong")).status_code == 401
            assert client.get(OPERATORS, auth=("ada", "a"), headers={"x-user": "eve"}).status_code == 200
            assert client.get(OPERATORS, auth=("eve", "e"), headers={"x-user": "ada"}).status_code == 403
            wanted, own = {"variables": ["A"]}, {"origin": URL, "sec-fetch-site": "same-origin"}
            assert client.post("/api/requests", json=wanted, auth=("eve", "e"), headers=own).status_code == 200
            others = {"origin": "https://evil.example"}
            assert client.post("/api/requests", json=wanted, auth=("eve", "e"), headers=others).status_code == 403


def test_nginx_at_a_unix_socket_needs_no_secret(czech: Table, tmp_path: Path) -> None:
    """As the handbook says: the address of the socket, and the line of the secret left out."""
    lines = location_of_the_handbook().replace("http://127.0.0.1:8090", f"http://unix:{tmp_path}/sdc").splitlines()
    location = "\n".join(line for line in lines if "X-Proxy-Secret" not in line)
    (tmp_path / "users").write_text("ada:{PLAIN}a\n")
    settings = {"url": URL, "proxy_header": "X-User", "socket": "here", "users": [{"name": "ada", "role": "operator"}]}
    server = server_of(SmallService(czech, Criteria.of(2, 6)), **settings)
    with running(server.app, path=str(tmp_path / "sdc")) as url, behind(location, tmp_path) as client:
        assert client.get(OPERATORS, auth=("ada", "a")).status_code == 200
        assert client.get(OPERATORS).status_code == 401
        assert httpx.get(f"{url}{OPERATORS}", headers={"x-user": "ada"}, timeout=SECONDS_TO_ASK).status_code == 401


def test_nginx_that_is_told_nothing_else_serves_visitors(czech: Table, tmp_path: Path) -> None:
    """Host is then the own address of the server."""
    server = server_of(SmallService(czech, Criteria.of(2, 6)), url=URL, users=[{"name": "ada"}], public=True)
    with running(server.app) as url, behind(f"location / {{ proxy_pass {url}; }}", tmp_path) as client:
        assert client.get("/").status_code == 200
        assert client.get(OPERATORS, headers={"x-user": "ada"}).status_code == 403
        own = {"origin": URL, "sec-fetch-site": "same-origin"}
        found = client.post("/api/requests", json={"variables": ["A"]}, headers=own)
        assert found.status_code == 200
        cookie = found.headers["set-cookie"]
        assert "; Secure" in cookie
        (mine,) = client.get("/api/requests", headers={"cookie": cookie.partition(";")[0]}).json()["requests"]
        assert mine["sub_table"] == ["A"]
        other = {"cookie": f"{BROWSER}={'x' * 20}"}
        assert client.get("/api/requests", headers=other).json() == {"requests": []}
