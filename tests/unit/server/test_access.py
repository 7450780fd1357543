"""Who may: keys, sessions, forms, how often, and which roles; tried on what somebody else would send."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from itsdangerous import TimestampSigner

from sdc.config.server import ServerConfig
from sdc.model.errors import SdcError
from sdc.server.web.access import (
    FORM_SECONDS,
    KEY,
    KINDS,
    LOGGED_OUT,
    MOST_CALLERS,
    SESSION_SECONDS,
    Access,
    Rate,
    Signed,
    User,
    require_operator,
)
from sdc.server.web.listening import proxy_secret
from sdc.server.web.problems import Problem

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"s" * 32


def access_of(stored: list[tuple[Any, ...]] | None = None, **settings: Any) -> Access:
    """With what would be stored in a history; without `users` ada is an operator, bob an auditor and cy a user."""
    entries = [] if stored is None else stored
    roles = {"ada": "operator", "bob": "auditor", "cy": "user"}
    settings = settings or {"users": [{"name": name, "role": role, "days": 30} for name, role in roles.items()]}
    return Access(ServerConfig.model_validate(settings), lambda *entry: entries.append(entry))


def started_again(entries: list[tuple[Any, ...]], **settings: Any) -> Access:
    """By what was stored."""
    access = access_of(**settings)
    for kind, _, _, body in entries:
        assert kind in KINDS
        access.apply(kind, body)
    return access


def answer_to(access: Access, key: str, now: datetime = NOW) -> tuple[int, str, str]:
    with pytest.raises(Problem) as caught:
        access.by_key(key, now)
    return caught.value.status, caught.value.code, str(caught.value)


def test_a_key_is_stored_as_a_hash_alone() -> None:
    entries = list[tuple[Any, ...]]()
    access = access_of(entries)
    key = access.new_key("ada", NOW, by="root")
    ((kind, who, subject, body),) = entries
    assert (kind, who, subject) == (KEY, "root", "ada")
    assert key.rpartition("_")[2] not in str(body)
    assert key not in repr(access)
    assert access.by_key(key, NOW) == User("ada", "operator", key=body["key"])


def test_whatever_is_wrong_with_a_key_is_answered_alike() -> None:
    access, foreign = access_of(), access_of()
    key, expired, revoked = (access.new_key("ada", NOW, days) for days in (30, 1, 30))
    assert access.revoke(revoked.split("_")[1], "root")
    number, _, secret = key.removeprefix("sdc_").partition("_")
    wrong = [
        foreign.new_key("ada", NOW),
        expired,
        revoked,
        f"sdc_{number}_{'A' * 43}",
        f"sdc_{'0' * 12}_{secret}",
        f"sdc_{expired.split('_')[1]}_{secret}",
        key[:-1],
        key + "=",
        key.upper(),
        f" {key}",
        f"{key}\n",
        "",
        "sdc_",
        "sdc__",
        "\0",
        "\ud800",
        "é" * 40,
        "sdc_" + "٣" * 12 + "_" + "A" * 43,
        "x" * 1_000_000,
    ]
    tomorrow = NOW + timedelta(days=1)
    assert access.by_key(expired, tomorrow - timedelta(seconds=1)).name == "ada"
    told = {answer_to(access, one, tomorrow) for one in wrong}
    assert told == {(401, "unauthorised", "this key is not valid here; ask the operator for one")}
    assert access.by_key(key, tomorrow).name == "ada"


def test_keys_are_the_same_after_a_new_start() -> None:
    entries = list[tuple[Any, ...]]()
    access = access_of(entries)
    key, revoked = access.new_key("bob", NOW), access.new_key("cy", NOW)
    access.revoke(revoked.split("_")[1], "root")
    again = started_again(entries)
    assert again.by_key(key, NOW).role == "auditor"
    assert again.without_key(NOW) == ["ada", "cy"]
    answer_to(again, revoked)


def test_what_cannot_be_stored_changes_nothing() -> None:
    access = access_of()
    number = access.new_key("ada", NOW).split("_")[1]

    def fails(*_: Any) -> None:
        raise OSError("the disk is full")

    access.store = fails
    with pytest.raises(OSError, match="the disk is full"):
        access.revoke(number, "root")
    assert access.by_number(number, NOW).name == "ada"
    with pytest.raises(OSError, match="the disk is full"):
        access.new_key("bob", NOW)
    assert "bob" in access.without_key(NOW)


def test_a_session_ends_with_its_key() -> None:
    access, signed = access_of(), Signed(SECRET)
    user = access.by_key(access.new_key("ada", NOW, 1), NOW)
    session = signed.session_of(signed.session(user))
    assert session is not None
    assert access.by_session(session, NOW) == user
    with pytest.raises(Problem, match="not valid"):
        access.by_session(session, NOW + timedelta(days=1))
    access.revoke(session.key, "root")
    with pytest.raises(Problem, match="not valid"):
        access.by_session(session, NOW)


def test_a_session_ends_with_its_logout_after_a_new_start_too() -> None:
    entries = list[tuple[Any, ...]]()
    access, signed = access_of(entries), Signed(SECRET)
    user = access.by_key(access.new_key("ada", NOW), NOW)
    session, other = (signed.session_of(signed.session(user)) for _ in range(2))
    assert session
    assert other
    access.log_out(session, "ada", NOW)
    for one in (access, started_again(entries)):
        with pytest.raises(Problem, match="not valid"):
            one.by_session(session, NOW)
        assert one.by_session(other, NOW) == user


def test_a_session_that_ends_while_another_does_stays_ended() -> None:
    access, signed = access_of([]), Signed(SECRET)
    user = access.by_key(access.new_key("ada", NOW), NOW)
    sessions = [session for _ in range(3) if (session := signed.session_of(signed.session(user)))]
    access.log_out(sessions[0], "ada", NOW)

    class Meanwhile(datetime):
        """Another server's logout is read while times are compared."""

        def __ge__(self, other: datetime) -> bool:
            access.apply(LOGGED_OUT, {"session": sessions[2].name, "expires": other.isoformat()})
            return super().__ge__(other)

    access.log_out(sessions[1], "ada", Meanwhile.fromisoformat(NOW.isoformat()))
    for session in sessions:
        with pytest.raises(Problem, match="not valid"):
            access.by_session(session, NOW)


def test_the_config_decides_who_exists_and_with_which_role() -> None:
    entries = list[tuple[Any, ...]]()
    access = access_of(entries)
    root, ada = access.new_key("ada", NOW), access.new_key("bob", NOW)
    with pytest.raises(Problem, match=r"server\.users has no 'eve', only ada, bob, cy; add the user there"):
        access.new_key("eve", NOW)
    later = started_again(entries, users=[{"name": "bob", "role": "user"}])
    assert answer_to(later, root)[0] == 401
    assert later.by_key(ada, NOW).role == "user"
    assert access_of(users=[]).settings.accounts["operator"].role == "operator"


def test_keys_that_expire_are_announced_and_made_again() -> None:
    access = access_of(users=[{"name": "ada", "days": 31}, {"name": "bob", "days": 90}])
    access.new_key("ada", NOW)
    access.new_key("bob", NOW)
    expired = NOW + timedelta(days=31)
    assert access.expiring(NOW) == {}
    assert access.expiring(NOW + timedelta(days=1)) == {"ada": expired}
    assert access.without_key(expired - timedelta(seconds=1)) == []
    assert access.without_key(expired) == ["ada"]
    access.new_key("ada", expired)
    assert access.expiring(NOW + timedelta(days=1)) == {}


def test_a_session_is_ours_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    signed, user = Signed(SECRET), User("ada", key="0" * 12)
    cookie = signed.session(user)
    assert signed.session(user) != cookie
    for wrong in (Signed(b"t" * 32).session(user), signed.form("ada"), cookie[:-1], "", "a.b.c", "\ud800", "é"):
        assert signed.session_of(wrong) is None
    later = int(datetime.now(UTC).timestamp()) + SESSION_SECONDS
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: later - 60)
    session = signed.session_of(cookie)
    assert session is not None
    assert session.key == "0" * 12
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: later + 60)
    assert signed.session_of(cookie) is None


def test_a_form_is_of_one_browser_and_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = Signed(SECRET)
    form = signed.form("a browser")
    signed.check_form(form, "a browser")
    made_up = [Signed(b"t" * 32).form("a browser"), signed.session(User("ada")), form[:-1], "", "x.y.z", "\ud800"]
    # nor has anybody a form who has no cookie: it would be everybody's
    for token, browser in [
        (signed.form(""), ""),
        (form, "another"),
        (form, ""),
        *((token, "a browser") for token in made_up),
    ]:
        with pytest.raises(Problem, match="this form has expired") as caught:
            signed.check_form(token, browser)
        assert (caught.value.status, caught.value.code) == (403, "form-expired")
    later = int(datetime.now(UTC).timestamp()) + FORM_SECONDS + 60
    monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _: later)
    with pytest.raises(Problem, match="this form has expired"):
        signed.check_form(form, "a browser")


def test_a_bucket_fills_by_the_minute() -> None:
    now = [0.0]
    rate = Rate(6, lambda: now[0])
    assert [rate.wait("ada") for _ in range(6)] == [0.0] * 6
    assert rate.wait("ada") == pytest.approx(10)
    assert rate.wait("bob") == 0
    for now[0] in (1, 4):  # asking in vain puts nothing off
        assert rate.wait("ada") == pytest.approx(10 - now[0])
    now[0] = 10.001
    assert rate.wait("ada") == 0
    assert rate.wait("ada") > 0
    now[0] = 10_000
    assert [rate.wait("ada") for _ in range(7)][5:] == [0.0, pytest.approx(10)]


def test_the_callers_longest_silent_are_forgotten() -> None:
    rate = Rate(1, lambda: 0.0)
    rate.wait("first")
    for number in range(MOST_CALLERS - 1):
        rate.wait(str(number))
    assert rate.wait("first") > 0
    for number in range(3 * MOST_CALLERS):
        rate.wait(str(number))
    assert len(rate._left) == MOST_CALLERS
    assert rate.wait("first") == 0


@pytest.mark.parametrize(
    ("content", "mode", "match"),
    [
        ("s" * 31 + "\n", 0o600, "has 31 characters; make one of 32 or more"),
        ("s" * 32, 0o604, "every user may read it"),
    ],
)
def test_a_secret_of_a_proxy_is_long_and_secret(content: str, mode: int, match: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    settings = ServerConfig(url="https://a", proxy_secret=str(path))
    path.write_text("s" * 32 + "\n")
    path.chmod(0o640)
    assert proxy_secret(settings) == b"s" * 32
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(SdcError, match=match):
        proxy_secret(settings)


def test_a_proxy_names_users_whose_roles_the_settings_give() -> None:
    access = access_of(users=[{"name": "ada", "role": "operator"}, {"name": "bob", "role": "auditor"}])
    assert access.by_proxy("ada") == User("ada", "operator")
    assert access.by_proxy("bob").role == "auditor"
    assert access.by_proxy("eve") == User("eve", "user")


def test_without_a_key_there_is_the_public_or_nobody() -> None:
    for closed in ({"users": [{"name": "ada"}]}, {"public": False}):
        with pytest.raises(Problem, match="give a key of this server") as caught:
            access_of(**closed).anybody()
        assert caught.value.status == 401
    for is_open in ({"users": []}, {"users": [{"name": "ada"}], "public": True}):
        user = access_of(**is_open).anybody()
        assert (user.is_public, user.role, user.may_look) == (True, "user", False)


def test_auditors_look_and_operators_change() -> None:
    operator, auditor, user = User("a", "operator"), User("b", "auditor"), User("c")
    require_operator(operator)
    require_operator(operator, changes=True)
    require_operator(auditor)
    for who, changes in ((auditor, True), (user, False), (user, True)):
        with pytest.raises(Problem, match="this is for operators") as caught:
            require_operator(who, changes=changes)
        assert (caught.value.status, caught.value.code) == (403, "forbidden")
