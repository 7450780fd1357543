"""The notebook that walks through every verb: its cells are run as a notebook would, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNER = """
import ast, asyncio, json, sys

async def run(source, names):
    # as a kernel does: in a loop that runs, on the thread that it runs on
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    page = getattr(value, "_repr_html_", None)
    return [repr(value), page() if page else None]

async def main(sources):
    names = {}
    return [await run(source, names) for source in sources]

json.dump(asyncio.run(main(json.load(sys.stdin))), sys.stdout)
"""


def test_the_notebook_runs_and_shows_what_it_says() -> None:
    cells = json.loads((ROOT / "tests" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps(sources), capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert done.returncode == 0, done.stderr
    shown = dict(zip(sources, json.loads(done.stdout), strict=True))

    def told(part: str) -> str:
        return next(text for source, (text, _) in shown.items() if part in source)

    assert told("read_table") == "Table(6 variables, 63 non-zero cells, 1841 records)"
    assert told("sdc.find_release(table, public").startswith("FoundRelease: ")
    assert "Assessment: safe" in told("sdc.assess")
    assert told("sdc.enumerate") == "810"
    assert told("marginal").split()[-4:] == ["3", "yes", "yes", "493"]
    assert told("sdc.run").startswith("Build of 59 sub-tables and the grand total; to publish: ")
    assert [told(part) for part in ("verify_run", "built.table", "sdc.check")] == ["True"] * 3
    assert "001_" in told("published.files")
    assert told("found.explore(") == "Explorer of the query space of a release that was found"
    drawn = [page for source, (_, page) in shown.items() if ".plot(" in source]
    assert len(drawn) == 3
    assert all(page.startswith("<img alt=") for page in drawn)
    assert all(page for source, (_, page) in shown.items() if source.endswith(("widths", "found", "bounds", "likely")))
