"""A forger of published files who makes every digest anew: no random edit that changes what a reader sees passes."""

import io
import random
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from sdc.stages.verified import verify_run
from sdc.storage.run_folder import folder_digest
from tests.integration.verify.forging import record
from tests.integration.verify.signing import signed_by, yearbook

ABOUT = {"title": "The book", "population": "Residents", "period": "2024", "source": "Register", "notes": ["A note."]}
LABELS = {"sex": {"label": "Sex", "note": "as registered", "categories": {"sex00": "women", "sex01": "men"}}}
WORD, NUMBER = re.compile(r'[^",<>;=\n]+'), re.compile("[0-9]+")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release in all formats, of which a table is suppressed."""
    return yearbook(tmp_path_factory.mktemp("book"), LABELS, **ABOUT, totals=True)


def edited(text: str, rng: random.Random) -> str:
    """Two words, or two lines, have changed places, or a number or a character is another."""
    if rng.random() < 0.5:
        lines = [*re.finditer(".+", text)]
        spots = lines if len(lines) > 2 and rng.random() < 0.5 else [*WORD.finditer(text)]
        one, other = sorted(rng.sample(spots, 2), key=re.Match.start)
        return text[: one.start()] + other[0] + text[one.end() : other.start()] + one[0] + text[other.end() :]
    spot = rng.choice([*(NUMBER if rng.random() < 0.5 else re.compile("[^\n]")).finditer(text)])
    by = str(int(spot[0]) + rng.randint(1, 9)) if spot[0].isdigit() else rng.choice("0123456789abc ,;")
    return text[: spot.start()] + by + text[spot.end() :]


def forged(path: Path, rng: random.Random) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".xlsx":
        return edited(content.decode(), rng).encode()
    with ZipFile(path) as old, ZipFile(found := io.BytesIO(), "w") as new:
        sheet = rng.choice([name for name in old.namelist() if "worksheets/sheet" in name])
        for name in old.namelist():
            new.writestr(name, edited(old.read(name).decode(), rng) if name == sheet else old.read(name))
    return found.getvalue()


@pytest.mark.parametrize("number", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_no_random_edit_passes(number: int, honest: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rng, run = random.Random(request.config.option.hypothesis_seed), tmp_path / "run"
    files = sorted(path.name for path in (honest / "release").iterdir() if path.suffix not in (".parquet", ""))
    for _ in range(number):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(honest, run)
        path = run / "release" / rng.choice(files)
        path.write_bytes(content := forged(path, rng))
        try:
            signed_by(run / "release", None)
        except (ValueError, LookupError, TypeError, OSError):  # no JSON any more, or a key or path is another
            assert path.suffix == ".json"
        if folder_digest(run / "release") == folder_digest(honest / "release"):
            continue  # the edit was of a digest
        record(run)
        assert not verify_run(run).verified, (path.name, content)
