"""Who may: users by their keys, sessions of browsers, forms that are not replayed, and how often one may ask."""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from itsdangerous import BadSignature, URLSafeTimedSerializer

from sdc.config.server import ServerConfig
from sdc.model.errors import SdcError
from sdc.server.desk.outcome import PROBLEMS

Role: TypeAlias = Literal["user", "operator", "auditor"]
KEY, REVOKED = "key", "key_revoked"
KINDS = (KEY, REVOKED)
"""The entries of the history that say who may."""
PUBLIC = "public"
KEY_PATTERN = re.compile(r"sdc_[0-9a-f]{12}_[A-Za-z0-9_-]{40,60}", re.ASCII)
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
"""What users are called: it goes into the history, and into addresses."""
FORM_SECONDS, SESSION_SECONDS = 3600, 12 * 3600
MOST_CALLERS = 10_000  # of whom it is remembered how often they asked

Store = Callable[[str, str, str, Mapping[str, Any]], Any]


class AccessError(SdcError):
    """Somebody who may not; `code` is what the API calls it, and `status` that of HTTP."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, PROBLEMS[code]


@dataclass(frozen=True)
class User:
    """Who asks; `key` is the number of the key, empty of the public and of those whom a proxy names."""

    name: str
    role: Role = "user"
    is_public: bool = False
    key: str = ""

    @property
    def may_look(self) -> bool:
        """Whether what is confidential is shown to them."""
        return self.role in ("operator", "auditor")


@dataclass(frozen=True)
class _AccessKey:
    user: str
    role: Role
    digest: str
    expires: datetime


@dataclass(eq=False)
class Access:
    """The keys, by the entries of the history; what changes them is stored there first.

    Of a key nothing is kept but its SHA-256: it has 256 random bits, which nobody can try out.
    """

    settings: ServerConfig
    store: Store
    _keys: dict[str, _AccessKey] = field(default_factory=dict)

    def apply(self, kind: str, body: Mapping[str, Any]) -> None:
        """Takes over an entry of one of `KINDS`."""
        if kind == REVOKED:
            self._keys.pop(str(body["key"]), None)
        elif kind == KEY:
            expires = datetime.fromisoformat(body["expires"])
            self._keys[str(body["key"])] = _AccessKey(body["user"], body["role"], body["sha256"], expires)

    def has_key(self, user: str) -> bool:
        """Whether a key was made for the user that is not revoked; it may have expired."""
        return any(key.user == user for key in list(self._keys.values()))

    def new_key(self, user: str, role: Role, days: int, now: datetime, by: str = "") -> str:
        """A key, shown this once."""
        number, text = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = f"sdc_{number}_{text}"
        expires = (now + timedelta(days=days)).isoformat(timespec="seconds")
        body = {"key": number, "user": user, "role": role, "sha256": _digest(key), "expires": expires}
        self.store(KEY, by, user, body)
        self.apply(KEY, body)
        return key

    def revoke(self, number: str, by: str) -> bool:
        """Ends a key and its sessions; False where there is none of that number."""
        if number not in self._keys:
            return False
        self.store(REVOKED, by, self._keys[number].user, {"key": number})
        self.apply(REVOKED, {"key": number})
        return True

    def by_key(self, key: str, now: datetime) -> User:
        """Whose key it is; AccessError, the same whatever is wrong with it."""
        number = key.split("_")[1] if KEY_PATTERN.fullmatch(key) else ""
        found = self._keys.get(number)
        # compared in any case, so that time does not tell which numbers there are
        is_right = hmac.compare_digest(_digest(key), found.digest if found else _digest(""))
        if found is None or not is_right:
            raise _not_valid()
        return self.by_number(number, now)

    def by_number(self, number: str, now: datetime) -> User:
        """Whose session it is; AccessError where the key has expired or was revoked."""
        found = self._keys.get(number)
        if found is None or found.expires <= now:
            raise _not_valid()
        return User(found.user, found.role, key=number)

    def by_proxy(self, name: str) -> User:
        """Whom a proxy has authenticated, with the role that the settings give them; AccessError where it is nobody."""
        if not re.fullmatch(NAME, name, re.ASCII) or name.endswith("\n"):
            text = "the proxy names nobody who may ask: one name of letters, digits and . _ @ -, at most 64"
            raise AccessError("unauthorised", text)
        roles = {user.name: user.role for user in self.settings.users}
        return User(name, roles.get(name, "user"))

    def anybody(self) -> User:
        """Who has no key; AccessError where the settings do not let them in."""
        if not self.settings.is_public:
            raise AccessError("unauthorised", "give a key of this server, as `Authorization: Bearer KEY`, or log in")
        return User(PUBLIC, is_public=True)


def _not_valid() -> AccessError:
    return AccessError("unauthorised", "this key is not valid here; ask the operator for one")


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def require_operator(user: User, *, changes: bool = False) -> None:
    """AccessError where they may not look, or not change anything."""
    if not user.may_look or (changes and user.role != "operator"):
        raise AccessError("forbidden", "this is for operators of this server; use an operator's key")


class Signed:
    """What the server gives to browsers and knows again: sessions and forms."""

    def __init__(self, secret: bytes) -> None:
        self._sessions = URLSafeTimedSerializer(secret, salt="sdc session")
        self._forms = URLSafeTimedSerializer(secret, salt="sdc form")

    def session(self, user: User) -> str:
        return str(self._sessions.dumps([user.key, secrets.token_hex(8)]))

    def number_of(self, cookie: str) -> str | None:
        """The number of the key that a session is of; None where it is none of ours, or has expired."""
        try:
            return str(self._sessions.loads(cookie, max_age=SESSION_SECONDS)[0])
        except (BadSignature, TypeError, IndexError, ValueError):
            return None

    def form(self, browser: str) -> str:
        """For the forms of a page; `browser` is the session, or what else tells one browser from another."""
        return str(self._forms.dumps(_digest(browser)[:32]))

    def check_form(self, token: str, browser: str) -> None:
        """AccessError where the form is not one that this browser got, or has expired."""
        try:
            made_for = self._forms.loads(token, max_age=FORM_SECONDS)
        except (BadSignature, ValueError, TypeError):
            made_for = ""
        # the form of no browser would be everybody's
        if not browser or not hmac.compare_digest(str(made_for).encode(), _digest(browser)[:32].encode()):
            raise AccessError("form-expired", "this form has expired; load the page again and send it from there")


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
