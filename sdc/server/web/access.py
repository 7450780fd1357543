"""Who may: users by their keys, sessions of browsers, forms that are not replayed, and how often one may ask."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from itsdangerous import BadSignature, URLSafeTimedSerializer

from sdc.config.server import ServerConfig, UserConfig
from sdc.events import PROBLEM, SERVER, emit, for_this_user
from sdc.record.chain import Chain
from sdc.record.database import Use
from sdc.server.service.history import RequestLog, owner_of
from sdc.server.web.problems import Problem

Role: TypeAlias = Literal["user", "operator", "auditor"]
KEY, REVOKED, LOGGED_OUT = "key", "key_revoked", "logged_out"
KINDS = (KEY, REVOKED, LOGGED_OUT)
"""The entries of the history about keys and sessions."""
KEYS_FILE = "keys.txt"  # in the folder of a server
NOTICE_DAYS = 30  # before the last key of a user expires
PUBLIC = "public"
KEY_PATTERN = re.compile(r"sdc_[0-9a-f]{12}_[A-Za-z0-9_-]{40,60}", re.ASCII)
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
"""What users are called: it goes into the history, and into addresses."""
FORM_SECONDS, SESSION_SECONDS = 3600, 12 * 3600
MOST_CALLERS = 10_000  # of whom it is remembered how often they asked

Store = Callable[[str, str, str, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class User:
    """Who asks: `key` is the number of the key, if any, and `visitor` names a visitor without a key by their cookie."""

    name: str
    role: Role = "user"
    is_public: bool = False
    key: str = ""
    visitor: str = ""

    @property
    def owner(self) -> str:
        """Whose requests these are: the user's, or of the public those of one visitor."""
        return owner_of(self.name, self.visitor) if self.is_public else self.name

    @property
    def may_look(self) -> bool:
        """Whether what is confidential is shown to them."""
        return self.role in ("operator", "auditor")


@dataclass(frozen=True)
class Session:
    """A session of a browser; `key` is the number of the key that it began with."""

    key: str
    name: str


@dataclass(frozen=True)
class AccessKey:
    """A key without its secret; `digest` is the SHA-256 of the whole key."""

    number: str
    user: str
    digest: str
    expires: datetime


@dataclass(eq=False)
class Access:
    """Users by their keys. The config decides who exists and with which role; the history has their keys.

    A change is stored in the history before it takes effect. Of a key only its SHA-256 is kept: it has 256 random
    bits, which nobody can guess.
    """

    settings: ServerConfig
    store: Store
    _keys: dict[str, AccessKey] = field(default_factory=dict)
    _logged_out: dict[str, datetime] = field(default_factory=dict)  # sessions, until they would have expired

    def read(self, history: Chain) -> Access:
        """Apply all entries of a history."""
        for entry in history.entries(kinds=KINDS):
            self.apply(entry.kind, entry.body)
        return self

    def apply(self, kind: str, body: Mapping[str, Any]) -> None:
        """Apply an entry of one of `KINDS`."""
        if kind == REVOKED:
            self._keys.pop(str(body["key"]), None)
        elif kind == KEY:
            number, expires = str(body["key"]), datetime.fromisoformat(body["expires"])
            self._keys[number] = AccessKey(number, body["user"], body["sha256"], expires)
        elif kind == LOGGED_OUT:
            self._logged_out[str(body["session"])] = datetime.fromisoformat(body["expires"])

    def listed(self) -> list[AccessKey]:
        """All keys that are not revoked, expired ones and those of unknown users included."""
        return list(self._keys.values())

    def expiries(self) -> dict[str, datetime]:
        """When the last key of each user of the config expires, of those who have one."""
        ends: dict[str, datetime] = {}
        for key in self.listed():
            if key.user in self.settings.accounts:
                ends[key.user] = max(key.expires, ends.get(key.user, key.expires))
        return ends

    def without_key(self, now: datetime) -> list[str]:
        """The users of the config who have no valid key."""
        ends = self.expiries()
        return [user for user in self.settings.accounts if ends.get(user, now) <= now]

    def expiring(self, now: datetime) -> dict[str, datetime]:
        """The users of the config whose last key expires within 30 days, with the time."""
        return {user: end for user, end in self.expiries().items() if now < end <= now + timedelta(days=NOTICE_DAYS)}

    def new_key(self, user: str, now: datetime, days: int | None = None, by: str = "") -> str:
        """Make a key, shown this once, for so many days or as the config says; Problem for unknown users."""
        account = self.account(user)
        number, text = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = f"sdc_{number}_{text}"
        expires = (now + timedelta(days=days or account.days)).isoformat(timespec="seconds")
        body = {"key": number, "user": user, "role": account.role, "sha256": _digest(key), "expires": expires}
        self.store(KEY, by, user, body)
        self.apply(KEY, body)
        return key

    def account(self, user: str) -> UserConfig:
        """A user of the config; Problem if there is none of the name."""
        if user not in self.settings.accounts:
            there = ", ".join(self.settings.accounts)
            raise Problem("unknown-user", f"server.users has no {user[:64]!r}, only {there}; add the user there")
        return self.settings.accounts[user]

    def revoke(self, number: str, by: str) -> bool:
        """End a key and its sessions; False if no key has the number."""
        if number not in self._keys:
            return False
        self.store(REVOKED, by, self._keys[number].user, {"key": number})
        self.apply(REVOKED, {"key": number})
        return True

    def by_key(self, key: str, now: datetime) -> User:
        """The user of a key; Problem, the same for every reason."""
        number = key.split("_")[1] if KEY_PATTERN.fullmatch(key) else ""
        found = self._keys.get(number)
        # always compared, so that the time does not reveal which numbers exist
        is_right = hmac.compare_digest(_digest(key), found.digest if found else _digest(""))
        if found is None or not is_right:
            raise _not_valid()
        return self.by_number(number, now)

    def by_number(self, number: str, now: datetime) -> User:
        """The user of a key's number; Problem if it has expired or was revoked, or the config has no such user."""
        found = self._keys.get(number)
        user = None if found is None or found.expires <= now else self.settings.accounts.get(found.user)
        if user is None:
            raise _not_valid()
        return User(user.name, user.role, key=number)

    def by_session(self, session: Session, now: datetime) -> User:
        """The user of a session; Problem if they logged out, or as `by_number`."""
        if session.name in self._logged_out:
            raise _not_valid()
        return self.by_number(session.key, now)

    def log_out(self, session: Session, user: str, now: datetime) -> None:
        """End a session, on all servers of the history."""
        body = {"session": session.name, "expires": (now + timedelta(seconds=SESSION_SECONDS)).isoformat()}
        self.store(LOGGED_OUT, user, user, body)
        self.apply(LOGGED_OUT, body)
        # in place: other sessions may end meanwhile
        for name in [name for name, end in list(self._logged_out.items()) if end <= now]:
            self._logged_out.pop(name, None)

    def by_proxy(self, name: str) -> User:
        """Whom a proxy has authenticated, with the role that the settings give them; Problem where it is nobody."""
        if not re.fullmatch(NAME, name, re.ASCII) or name.endswith("\n"):
            text = "the proxy sends no valid user name; send one of letters, digits and . _ @ -, at most 64"
            raise Problem("unauthorised", text)
        account = self.settings.accounts.get(name)
        return User(name, account.role if account and self.settings.users else "user")

    def anybody(self) -> User:
        """Who has no key; Problem where the settings do not let them in."""
        if not self.settings.is_public:
            raise Problem("unauthorised", "give a key of this server, as `Authorization: Bearer KEY`, or log in")
        return User(PUBLIC, is_public=True)


def access_to(log: RequestLog, settings: ServerConfig) -> Access:
    """The keys by the history so far and from then on: one that ends at a server ends at all on the history."""
    access = Access(settings, log.store)
    log.followers.append(lambda entry: access.apply(entry.kind, entry.body))
    return access.read(log.history)


@contextmanager
def open_access(url: str, settings: ServerConfig, *, writes: bool = False) -> Iterator[Access]:
    """The keys of an existing history, beside a server that uses it too; changes take effect there within seconds."""
    history = Chain.read(url)
    if writes:
        history.close()
        history = Chain.read(url, Use.SHARE)

    def store(*entry: Any) -> None:
        with history.turn() as turn:
            turn.append(*entry)

    try:
        yield Access(settings, store).read(history)
    finally:
        history.close()


def new_keys(access: Access, users: Iterable[str], folder: Path) -> Path | None:
    """Make a key for each user and return the file that has them, one a line; None without users."""
    if not (users := list(users)):
        return None
    for user in users:
        access.account(user)
    path = folder / KEYS_FILE
    # open before a key is made: of one that could not be written nobody would have it
    with open(path, "a", encoding="utf-8", opener=for_this_user) as file:
        os.fchmod(file.fileno(), 0o600)
        for user in users:
            file.write(f"{user} {access.new_key(user, utc_now())}\n")
            file.flush()
    return path


def announce_expiry(access: Access) -> None:
    """Log each user whose last key expires within 30 days, and users of keys that the config does not have."""
    for user, end in access.expiring(utc_now()).items():
        emit(PROBLEM, expiry_text(user, end), SERVER)
    if unknown := sorted({key.user for key in access.listed()} - {*access.settings.accounts}):
        emit(PROBLEM, f"keys of {', '.join(unknown)} are not valid: server.users does not have them", SERVER)


def expiry_text(user: str, end: datetime) -> str:
    return f"the last key of {user} expires on {end:%Y-%m-%d}; make another: sdc keys CONFIG --make {user}"


def visitor_of(cookie: str) -> str:
    """Names a visitor by the cookie of their browser, which it does not reveal."""
    return _digest(cookie)[:16]


def _not_valid() -> Problem:
    return Problem("unauthorised", "this key is not valid here; ask the operator for one")


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def require_operator(user: User, *, changes: bool = False) -> None:
    """Problem where they may not look, or not change anything."""
    if not user.may_look or (changes and user.role != "operator"):
        raise Problem("forbidden", "this is for operators of this server; use an operator's key")


class Signed:
    """What the server gives to browsers and knows again: sessions and forms."""

    def __init__(self, secret: bytes) -> None:
        self._sessions = URLSafeTimedSerializer(secret, salt="sdc session")
        self._forms = URLSafeTimedSerializer(secret, salt="sdc form")

    def session(self, user: User) -> str:
        return str(self._sessions.dumps([user.key, secrets.token_hex(8)]))

    def session_of(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is not one of this server, or has expired."""
        try:
            key, name = self._sessions.loads(cookie, max_age=SESSION_SECONDS)
        except (BadSignature, TypeError, ValueError):
            return None
        return Session(str(key), str(name))

    def form(self, browser: str) -> str:
        """For the forms of a page; `browser` is the session, or another cookie that differs between browsers."""
        return str(self._forms.dumps(_digest(browser)[:32]))

    def check_form(self, token: str, browser: str) -> None:
        """Problem where the form is not one that this browser got, or has expired."""
        try:
            made_for = self._forms.loads(token, max_age=FORM_SECONDS)
        except (BadSignature, ValueError, TypeError):
            made_for = ""
        # the form of no browser would be everybody's
        if not browser or not hmac.compare_digest(str(made_for).encode(), _digest(browser)[:32].encode()):
            raise Problem("form-expired", "this form has expired; load the page again and send it from there")


class Rate:
    """A bucket for each caller that fills by so many a minute; the callers longest silent are forgotten."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self.a_minute, self._clock = a_minute, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until the caller may ask again; 0 where now, and then it is counted."""
        now = self._clock()
        left, at = self._left.pop(caller, (float(self.a_minute), now))
        left = min(float(self.a_minute), left + (now - at) * self.a_minute / 60)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        while len(self._left) > MOST_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self.a_minute


def utc_now() -> datetime:
    return datetime.now(UTC)
