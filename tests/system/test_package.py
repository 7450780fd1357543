"""The distribution: its name, what it requires, what is in a wheel, and what runs without its extras."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sdc import __version__
from sdc.commands.cli import main
from sdc.model.extras import DISTRIBUTION, EXTRAS
from tests.conftest import CZECH_CSV, CZECH_YAML, ROOT
from tests.helpers.prefect_home import made_home
from tests.unit.config.test_cluster_files import SLURM

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]
SOURCES = [ROOT / folder for folder in ("sdc", "flows")]
NAMED = {"yaml": "pyyaml"}  # modules that are not called like their distribution
FOLDERS = (".ci", "cluster", "configs", "flows", "sdc", "tests")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project."""
    for folder in (ROOT, *(ROOT / name for name in FOLDERS)):
        for path in sorted(folder.iterdir() if folder == ROOT else folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path != Path(__file__):
                try:
                    yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue


def distributions(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


# Names


def test_texts_name_the_distribution_and_extras_that_exist() -> None:
    """`pip install sdc` would install another project."""
    wrong, named = [], set()
    for path, text in texts():
        extras = re.findall(r"(?:\bsdc-tables|['\"]\.)\\?\[([a-z0-9,]+)\\?\]", text)
        named |= {extra for found in extras for extra in found.split(",")}
        if found := re.findall(r"(?<![\w-])sdc\\?\[[a-z]\w*(?:,\w+)*\\?\]|\binstall '?sdc\b(?![-/])", text):
            wrong.append(f"{path}: {found}")
    assert not wrong
    assert named - {"test"} <= OPTIONAL.keys()
    assert {*EXTRAS.values()} <= named
    assert PROJECT["name"] == DISTRIBUTION


def test_the_version_has_one_home() -> None:
    assert "version" not in PROJECT
    images = {tag for _, text in texts() for tag in re.findall(r"sdc-worker:(\d+\.\d+\.\d+)", text)}
    assert images == {__version__}


# Requirements


def test_the_core_requires_what_it_imports_and_nothing_else() -> None:
    """The packages of extras are imported only inside functions, and by the server's pages."""
    imported, of_extras = set(), set()
    for path in (path for folder in SOURCES for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {child for node in ast.walk(tree) if _is_later(node) for child in ast.walk(node)}
        for node in ast.walk(tree):
            for module in _imported(node) - sys.stdlib_module_names - {"sdc", "flows", "jax"}:
                (of_extras if module in EXTRAS else imported).add(NAMED.get(module, module).replace("_", "-"))
                assert module not in EXTRAS or node in inside or "sdc/server/web" in path.as_posix(), path
    assert imported == distributions(PROJECT["dependencies"])
    assert of_extras <= {module.replace("_", "-") for module in EXTRAS}


def _is_later(node: ast.AST) -> bool:
    is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module.partition(".")[0]}
    return set()


def test_each_extra_installs_what_messages_say_of_it() -> None:
    for module, extra in EXTRAS.items():
        assert module.replace("_", "-") in distributions(OPTIONAL[extra])
    own = [Requirement(line) for name in ("test", "system") for line in OPTIONAL[name] if line.startswith(DISTRIBUTION)]
    assert set[str]().union(*(one.extras for one in own)) == {*EXTRAS.values(), "test"} - {"attack"}


# Without the extras


def hidden_modules() -> list[str]:
    """Modules that are installed here, and that an installation of the core alone does not have."""
    core, open_ = set[str](), [*PROJECT["dependencies"]]
    while open_:
        requirement = Requirement(open_.pop())
        extras = {"", *requirement.extras}
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        for extra in extras:
            core.add(canonicalize_name(requirement.name))
            try:
                lines = requires(requirement.name) or []
            except PackageNotFoundError:
                continue
            for line in lines:
                of_line = Requirement(line)
                if of_line.marker is None or of_line.marker.evaluate({"extra": extra}):
                    of_line.marker = None
                    if canonicalize_name(of_line.name) not in core or of_line.extras:
                        open_.append(str(of_line))
    homes = packages_distributions()
    own = {"sdc", "flows", "tests"}
    return sorted(name for name, of in homes.items() if not core & {*map(canonicalize_name, of)} and name not in own)


def test_a_default_build_needs_no_extra(tmp_path: Path) -> None:
    """From another folder, in a process that sees only the packages of the core; so do its workers and its server."""
    hidden = hidden_modules()
    assert {*EXTRAS} - {"mbi", "optax", "fastapi", "prometheus_client", "starlette"} <= {*hidden}  # Prefect's, or apart
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({hidden!r}))\n")
    for file in (CZECH_YAML, CZECH_CSV):
        shutil.copy(file, tmp_path)
    home = {"PREFECT_HOME": str(made_home(tmp_path / "prefect")), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "sdc.commands.cli", "run", CZECH_YAML.name]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | home, capture_output=True, text=True, timeout=900)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "59 sub-tables and the grand total" in done.stdout


CONFIG = "name: short\ntable: {path: czech_auto_workers.csv}\nrisk: {min_width: 6}\n"
COMMANDS = {
    "xlsxwriter": ("publication: {formats: [csv, xlsx]}", "run short.yaml", "publication.formats: xlsx"),
    "fastapi": ("", "serve short.yaml", "sdc serve"),
    "bokeh": ("", "run short.yaml --watch", "--watch"),
    "pyreadstat": ("", "init short.sav", "{place}/short.sav"),
    "s3fs": ("", "widths s3://bucket/table.parquet", "s3://bucket/table.parquet"),
    "psycopg": ("server: {history: 'postgresql://ann@here/x'}", "serve short.yaml", "a history in PostgreSQL"),
    "mbi": ("attack: {seeds: 2}", "run short.yaml", "seeds: a reconstruction"),
    "dask_jobqueue": ("execution: {cluster: slurm.yaml}", "run short.yaml", "{place}/slurm.yaml: kind = slurm"),
}


@pytest.mark.parametrize("module", COMMANDS)
def test_a_package_that_is_missing_is_one_message_before_any_work(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    section, words, what = COMMANDS[module]
    shutil.copy(CZECH_CSV, tmp_path)
    (tmp_path / "short.yaml").write_text(CONFIG + section)
    (tmp_path / "slurm.yaml").write_text(yaml.safe_dump(SLURM))
    (tmp_path / "short.sav").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["sdc", *words.split()])
    monkeypatch.setitem(sys.modules, module, None)
    if module == "mbi":
        monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr().err.splitlines()
    assert (ended.value.code, [line for line in said if line.startswith("sdc: ")]) == (1, said[-1:])
    assert said[-1].startswith(f"sdc: {what.format(place=tmp_path)} needs the package")
    assert f"; run: pip install '{DISTRIBUTION}[{EXTRAS[module]}]'" in said[-1]
    assert not (tmp_path / "runs").exists()


# A wheel


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, with a module in `build/` that was deleted from the source."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    for name in ("sdc", "flows", "configs", "cluster", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    stale = folder / "build" / "lib" / "sdc" / "deleted.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    return folder


def built(checkout: Path, kind: str) -> Path:
    """A wheel or an sdist, made by the backend alone: nothing is installed for it."""
    code = f"from hatchling.build import build_{kind} as build; print(build('dist'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return checkout / "dist" / done.stdout.split()[-1]


def test_a_wheel_has_the_source_tree_and_nothing_else(checkout: Path) -> None:
    with zipfile.ZipFile(built(checkout, "wheel")) as wheel:
        names = wheel.namelist()
        about = f"sdc_tables-{__version__}.dist-info"
        metadata = wheel.read(f"{about}/METADATA").decode()
        commands = wheel.read(f"{about}/entry_points.txt").decode()
    is_code = {name for name in names if not name.startswith(about)}
    assert is_code == {
        path.relative_to(ROOT).as_posix()
        for folder in SOURCES
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"sdc/py.typed", "sdc/handbook/server.md", "sdc/server/web/templates/page.html.j2"} <= is_code
    assert f"{about}/licenses/LICENSE" in names
    assert f"Name: {DISTRIBUTION}\nVersion: {__version__}\n" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "sdc = sdc.commands.cli:main" in commands


def test_an_sdist_has_what_a_wheel_is_built_from(checkout: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(built(checkout, "sdist"), tmp_path)
    (source,) = tmp_path.iterdir()
    top = {path.name for path in source.iterdir()}
    assert top == {
        *("sdc", "flows", "configs", "cluster", "constraints.txt"),
        *("pyproject.toml", "README.md", "LICENSE", ".gitignore", "PKG-INFO"),
    }
    with zipfile.ZipFile(built(source, "wheel")) as again, zipfile.ZipFile(built(checkout, "wheel")) as first:
        assert sorted(again.namelist()) == sorted(first.namelist())
