"""The files beside the code: each can be read by the programs that it is for, and agrees with the code."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from sdc.version import VERSION
from tests.papers.references import references

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CI = ROOT / ".ci" / "run"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_layout_lists_all_packages_in_the_order_of_imports() -> None:
    listed = re.findall(r"^(sdc/\w+|flows)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    depth = {name.replace(".", "/"): number for number, layer in enumerate(layers) for name in layer.split(" | ")}
    packages = {f"sdc/{path.parent.name}" for path in (ROOT / "sdc").glob("*/__init__.py")}
    assert packages | {"flows"} <= {*listed}
    assert [depth[name] for name in listed] == sorted(depth[name] for name in listed)


def test_the_commands_of_contributors_are_those_of_ci() -> None:
    checks = re.findall(r'"([^"]+)"', re.findall(r"^checks=\((.*)\)$", CI.read_text(), re.MULTILINE)[0])
    hooks = read(".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == checks
    assert {hook["language"] for hook in hooks} == {"system"}
    assert " && ".join(checks) in (ROOT / "CONTRIBUTING.md").read_text()


def test_temporary_folders_go_with_their_process() -> None:
    """Those of Python stay where it is killed, and may have counts: `own_scratch` alone makes some."""
    files = [path for name in ("sdc", "flows") for path in (ROOT / name).rglob("*.py")]
    assert [path.name for path in files if re.search(r"TemporaryDirectory|mkdtemp", path.read_text())] == []


def test_the_workflow_calls_the_script_of_ci() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert os.access(CI, os.X_OK)
    (python,) = (step["with"]["python-version"] for step in steps if "with" in step)
    assert PROJECT["project"]["requires-python"] == f">={python}"


def test_the_citation_names_the_founding_papers() -> None:
    cited = read("CITATION.cff")
    assert (cited["cff-version"], cited["license"]) == ("1.2.0", PROJECT["project"]["license"])
    for paper, key in zip(cited["references"], ("KDSF", "DKS", "DFT", "CACM", "DF"), strict=True):
        assert all(text in references()[key] for text in (f'"{paper["title"]}"', str(paper["year"])))


def test_the_changelog_has_this_version_first() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert VERSION in versions[:2]
    assert versions == sorted(versions, reverse=True)
