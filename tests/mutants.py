"""Mutation testing: put one small fault at a time into a copy of the product, and see whether a test fails.

    python -m pytest -n 2 --cov --cov-context=test --junitxml=FILE TESTS
    python -m tests.mutants --coverage FILE --junit FILE --output FILE [--seed 74 --number 400 | --again FILE] [FILES]

A mutant is tried with the tests that execute its line, by a coverage database with contexts, cheapest first and for at
most `--seconds` by the durations of the JUnit file. `--again` repeats the mutants of an earlier output, and tries first
the test that killed each then. Coverage.py is needed.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import gc
import importlib.util
import itertools
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import psutil
import pytest
from coverage import CoverageData

PRODUCT = [f"sdc/{name}.py" for name in ("risk/*", "verify/*", "intruder/guesses", "intruder/refusals", "publish/gate")]
QUIET = ["-n0", "-q", "-pno:cacheprovider"]
COMPILED = {"kernel", "inner", "njit"}  # decorators
PAIRS = [("<", "<="), (">", ">="), ("==", "!="), ("is", "is not"), ("in", "not in"), ("+", "-"), ("and", "or")]
PAIRS += [("min", "max"), ("minimum", "maximum"), ("any", "all")]
SWAPS = dict(PAIRS) | {other: one for one, other in PAIRS}
SYMBOLS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "Is": "is", "IsNot": "is not"}
SYMBOLS |= {"In": "in", "NotIn": "not in", "Add": "+", "Sub": "-", "And": "and", "Or": "or"}


@dataclass(frozen=True, order=True)
class Mutant:
    """One edit of a file: `text` in place of the bytes `start` to `stop`, in an expression of some lines."""

    file: str
    start: int
    stop: int
    text: str
    lines: tuple[int, int]
    line: int
    before: str
    after: str
    in_function: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"


def mutants(root: Path, file: str) -> Iterator[Mutant]:
    """All mutants of a file: comparisons, borders of comparisons, ranges and slices, and signs."""
    source = (root / file).read_bytes()
    starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]
    module = ast.parse(source)

    def span(node: Any) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    bodies = [span(one) for node in ast.walk(module) if isinstance(node, ast.FunctionDef) for one in node.body]

    def mutant(node: Any, start: int, stop: int, text: str) -> Mutant:
        line = source.count(b"\n", 0, start)
        head, tail = source[starts[line] : start], source[stop:].partition(b"\n")[0]
        shown = [(head + middle + tail).decode().strip() for middle in (source[start:stop], text.encode())]
        in_function = any(begin <= start < end for begin, end in bodies)
        return Mutant(file, start, stop, text, (node.lineno, node.end_lineno), line + 1, *shown, in_function)

    def operators(node: Any, operands: list[Any], kinds: list[Any]) -> Iterator[Mutant]:
        for (one, other), kind in zip(itertools.pairwise(operands), kinds, strict=True):
            if symbol := SYMBOLS.get(type(kind).__name__):
                begin, end = span(one)[1], span(other)[0]
                at = begin + source[begin:end].index(symbol.encode())
                yield mutant(node, at, at + len(symbol), SWAPS[symbol])

    def borders(node: Any, bounds: list[Any], others: bool) -> Iterator[Mutant]:
        for bound in bounds:
            match bound:
                case ast.Constant(value=bool()):
                    pass
                case (ast.Constant(value=int(n)) as one) | ast.UnaryOp(operand=ast.Constant(value=int(n)) as one):
                    yield from (mutant(node, *span(one), str(n + step)) for step in (1, -1))
                case ast.expr() if others:
                    text = source[slice(*span(bound))].decode()
                    yield from (mutant(node, *span(bound), f"({text}) {step} 1") for step in "+-")

    def visit(node: Any) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arg):
            return
        match node:
            case ast.FunctionDef(decorator_list=found) if {getattr(one, "id", "") for one in found} & COMPILED:
                return
            case ast.Compare(left=left, ops=kinds, comparators=right):
                yield from operators(node, [left, *right], kinds)
                yield from borders(node, [left, *right], False)
            case ast.BoolOp(op=kind, values=values):
                yield from operators(node, values, [kind] * (len(values) - 1))
            case ast.BinOp(left=one, right=other, op=kind) | ast.AugAssign(target=one, value=other, op=kind):
                yield from operators(node, [one, other], [kind])
            case ast.UnaryOp(op=ast.Not() | ast.USub() as kind):
                start = span(node)[0]
                yield mutant(node, start, start + (3 if isinstance(kind, ast.Not) else 1), "")
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()) if name.isalpha():
                if name in SWAPS:
                    yield mutant(node, span(node)[1] - len(name), span(node)[1], SWAPS[name])
            case ast.Call(func=ast.Name(id="range"), args=bounds):
                yield from borders(node, bounds, True)
            case ast.Slice(lower=lower, upper=upper):
                yield from borders(node, [lower, upper], True)
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from visit(child)

    yield from visit(module)


class Coverage:
    """The tests of each line, and the seconds of each test."""

    def __init__(self, tree: Path, database: Path, junit: Path) -> None:
        cases = [(one.get("classname", ""), one) for one in ET.parse(junit).iter("testcase")]
        self.seconds = {f"{of.replace('.', '/')}.py::{one.get('name')}": float(one.get("time", 1)) for of, one in cases}
        self._data = CoverageData(str(database))
        self._data.read()
        self._measured = {one.rpartition("|")[0] for one in self._data.measured_contexts()}
        self._lines = dict[str, dict[int, list[str]]]()
        files = {tree / file_of(test) for test in self.seconds}
        self._texts = {file.relative_to(tree).as_posix(): file.read_text() for file in files if file.exists()}

    def tests(self, mutant: Mutant) -> list[str]:
        """First those of files that import the module, then of folders named like its package; the cheapest first.

        Several cases of one test cost more each time, as they mostly see the same.
        Lines that a fixture executes are of all tests of its file. Tests of the package are taken too where the
        database has nothing of them, and all of them for lines that no test executes: another process may.
        """
        if mutant.file not in self._lines:
            (path, *_) = [*(path for path in self._data.measured_files() if path.endswith(f"/{mutant.file}")), ""]
            self._lines[mutant.file] = self._data.contexts_by_lineno(path)
        lines, module = self._lines[mutant.file], Path(mutant.file)
        near = {test for test in self.seconds if re.search(rf"[/_]{module.parent.name}[/_.]", test)}
        executed = range(mutant.lines[0], mutant.lines[1] + 1)
        contexts = {one for line in executed for one in lines.get(line, ())} - {""}
        files = {file_of(one) for one in contexts if one.endswith("|setup")}
        found = {one.rpartition("|")[0] for one in contexts}
        found |= {test for test in self.seconds if file_of(test) in files}
        found |= near - self._measured if contexts else near
        cases, cost = Counter[str](), dict[str, float]()
        for test in sorted(found & self.seconds.keys(), key=lambda test: (self.seconds[test], test)):
            cases[test.partition("[")[0]] += 1
            cost[test] = cases[test.partition("[")[0]] * self.seconds[test]
        imports = re.compile(rf"\b{module.parent.name}(\.| import .*\b){module.stem}\b")
        named = {one for one, text in self._texts.items() if imports.search(text) or f"test_{module.stem}." in one}
        return sorted(cost, key=lambda test: (file_of(test) not in named, test not in near, cost[test]))


class Trial:
    """A plugin of pytest: collect the tests once, and try each mutant in a forked process.

    There the code of the function is replaced. The mutated file is on disk too, for other processes and for what is
    imported later. A mutant outside of functions is tried by importing the product and the tests again.
    """

    def __init__(self, root: Path, coverage: Coverage, waiting: dict[Mutant, str], options: Any) -> None:
        self.results = dict[Mutant, str | None]()
        self._root, self._coverage, self._waiting, self._options = root, coverage, waiting, options
        self._warmed: pytest.Item | None = None
        self._failures, self._temporary = root.parent / "failures", root.parent / "temporary"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            with self._failures.open("a") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        plugins = session.config.pluginmanager
        plugins.unregister(plugins.get_plugin("terminalreporter"))
        self._functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        unfit, waiting = set[str](), self._waiting
        while waiting:
            fit = dict[Mutant, list[str]]()
            for mutant, first in waiting.items():
                tests = [test for test in self._coverage.tests(mutant) if test in self._items and test not in unfit]
                fit[mutant] = sorted(tests, key=lambda test: test.rpartition("/")[2] != first.rpartition("/")[2])
            for mutant, tests in sorted(fit.items(), key=lambda one: file_of(one[1][0]) if one[1] else ""):
                if tests:
                    self._warm(tests[0])
                begun, tried, self.results[mutant] = time.monotonic(), 0, None
                for most in (self._options.seconds / 8, self._options.seconds):
                    sums = [*itertools.accumulate(self._coverage.seconds[test] for test in tests[tried:])]
                    some = tests[tried:][: 1 + sum(one < most for one in sums)]
                    tried += len(some)
                    if some and (failing := self._mutated(mutant, some)):
                        self.results[mutant] = failing[0]
                        break
                with self._options.output.open("w") as output:
                    for one, killer in self.results.items():
                        row = {name: getattr(one, name) for name in ("file", "line", "before", "after")}
                        output.write(json.dumps({**row, "killed_by": killer}) + "\n")
                took = f"{tried} of {len(tests)} tests, {time.monotonic() - begun:.1f} s"
                print(f"{len(self.results)}: {mutant}: {self.results[mutant]}; {took}", flush=True)
            # a test that fails without a mutant kills none
            failed = self._failing(sorted({*self.results.values()} & self._items.keys()))
            print("fail without a mutant:", *failed, flush=True)
            unfit |= {*failed}
            waiting = {mutant: "" for mutant, killer in self.results.items() if killer in failed}
        return True

    def _warm(self, test: str) -> None:
        """Run a test of this file without a mutant, so that forked processes have its fixtures and compiled code."""
        if self._warmed is None or file_of(self._warmed.nodeid) != file_of(test):
            item = self._items[test]
            if self._warmed is not None:
                item.config.hook.pytest_runtest_protocol(item=self._warmed, nextitem=item)
            others = (other for other in self._items if file_of(other) == file_of(test) and other != test)
            self._warmed = self._items.get(next(others, ""))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self._warmed)

    def _mutated(self, mutant: Mutant, tests: list[str]) -> list[str]:
        path = self._root / mutant.file
        source, stat, cached = path.read_bytes(), path.stat(), Path(importlib.util.cache_from_source(str(path)))
        try:
            path.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.stop :])
            cached.unlink(missing_ok=True)
            return self._failing(tests, mutant)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            cached.unlink(missing_ok=True)

    def _failing(self, tests: list[str], mutant: Mutant | None = None) -> list[str]:
        """The tests that fail, with a mutant the first alone; "time-out" or "crash" where it is none of them."""
        self._failures.unlink(missing_ok=True)
        end = time.monotonic() + 60 + 4 * sum(self._coverage.seconds[test] for test in tests)
        kept, child, status = {*self._temporary.iterdir()}, os.fork(), None
        if child == 0:
            with suppress(BaseException):
                status = self._run(tests, mutant)
            os._exit(99 if status is None else status)
        while status is None and time.monotonic() < end:
            time.sleep(0.02)
            ended, raw = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(raw) if ended else None
        for left in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                left.kill()
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        for folder in {*self._temporary.iterdir()} - kept:
            shutil.rmtree(folder, ignore_errors=True)
        found = self._failures.read_text().splitlines() if self._failures.exists() else []
        return found or (["time-out"] if status is None else ["crash"] if status else [])

    def _run(self, tests: list[str], mutant: Mutant | None) -> int:
        os.setsid()
        for number in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        if mutant is not None and not mutant.in_function:
            for name in [name for name in sys.modules if name.partition(".")[0] in ("sdc", "flows", "tests")]:
                del sys.modules[name]
            reports = SimpleNamespace(pytest_runtest_logreport=self.pytest_runtest_logreport)
            return int(pytest.main([*tests, "-x", *QUIET, f"--basetemp={self._temporary}/again"], [reports]))
        if mutant is not None:
            path = str(self._root / mutant.file)
            mutated = {key(code): code for code in codes(compile(Path(path).read_bytes(), path, "exec"))}
            for function in self._functions:
                if function.__code__.co_filename == path:
                    function.__code__ = mutated[key(function.__code__)]
        items = sorted((self._items[test] for test in tests), key=lambda item: tests.index(item.nodeid))
        items.sort(key=lambda item: (file_of(item.nodeid) != file_of(tests[0]), item.path))
        if self._warmed is not None and file_of(self._warmed.nodeid) != file_of(tests[0]):
            items.insert(0, self._warmed)
        for item, following in itertools.zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if mutant is not None and self._failures.exists():
                break
        return 0


def file_of(test: str) -> str:
    return test.partition("::")[0]


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a module and of all its functions."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes(one)


def key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def chosen(every: list[Mutant], options: Any) -> dict[Mutant, str]:
    """Those drawn, or those of an earlier output that are still there, each with the test that killed it then."""
    if options.again is None:
        return dict.fromkeys(sorted(random.Random(options.seed).sample(every, min(options.number, len(every)))), "")
    found = dict[Mutant, str]()
    for old in map(json.loads, options.again.read_text().splitlines()):
        alike = [one for one in every if all(getattr(one, name) == old[name] for name in ("file", "before", "after"))]
        alike = [one for one in alike if one not in found]
        if alike:
            found[min(alike, key=lambda one: abs(one.line - old["line"]))] = old["killed_by"] or ""
        else:
            print(f"no more: {old['file']}:{old['line']}: {old['before']} -> {old['after']}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("seed", 0), ("number", 400), ("seconds", 60.0)):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    for name in ("again", "coverage", "junit", "output"):
        parser.add_argument(f"--{name}", type=Path, required=name != "again")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("files", nargs="*", default=PRODUCT)
    options = parser.parse_args()
    tree, coverage = options.tree, Coverage(options.tree, options.coverage, options.junit)
    files = {path.relative_to(tree).as_posix() for pattern in options.files for path in tree.glob(pattern)}
    every = sorted({one for file in files for one in mutants(tree, file)})
    waiting = chosen(every, options)
    root = Path(tempfile.mkdtemp(prefix="mutants-")) / "tree"
    shutil.copytree(tree, root, ignore=shutil.ignore_patterns(".git", "__pycache__", ".hypothesis"))
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # processes that tests leave behind become children of this one
    os.chdir(root)
    sys.path[:] = [str(root), *(one for one in sys.path if one and not Path(one, "tests").is_dir())]
    os.environ["PYTHONPATH"] = str(root)
    del sys.modules["tests"]
    trial, used = Trial(root, coverage, waiting, options), {test for one in waiting for test in coverage.tests(one)}
    pytest.main([*sorted({file_of(test) for test in used}), *QUIET, f"--basetemp={trial._temporary}"], [trial])
    alive = [mutant for mutant, killer in trial.results.items() if killer is None]
    print(
        *alive,
        f"{len(waiting)} of {len(every)} mutants, {len(waiting) - len(alive)} killed, {len(alive)} alive",
        sep="\n",
    )


if __name__ == "__main__":
    main()
