"""All items of the papers, computed and judged; and the page and the document that say how they stand."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdc.model.errors import ConfigError, RunFolderError
from sdc.page_templates import page_templates
from sdc.stages.release import require_new
from sdc.storage.run_folder import RunFolder
from tests.papers import cacm, dft, dks, kdsf
from tests.papers.item import Item, Outcome, Standing, written
from tests.papers.references import references
from tests.papers.sources import Sources

ITEMS: dict[str, Item] = {one.key: one for one in (*kdsf.ITEMS, *dks.ITEMS, *dft.ITEMS, *cacm.ITEMS)}
PAGE, DOCUMENT = "papers.html", "papers.json"
WORDS = {
    Standing.AGREES: "agree",
    Standing.DIFFERS: "differ for a known reason",
    Standing.NEEDS: "need what is not here",
    Standing.UNEXPLAINED: "differ for no known reason",
}


def chosen(names: Sequence[str]) -> list[Item]:
    """The items of these names, in their own order, all without one; ConfigError for a name that none has."""
    for name in names:
        if name not in ITEMS:
            near = difflib.get_close_matches(name, ITEMS, n=3) or list(ITEMS)
            raise ConfigError(f"--only {name!r} is no item of the papers; name one of {', '.join(near)}")
    return [one for key, one in ITEMS.items() if not names or key in names]


def computed(
    items: Iterable[Item],
    sources: Sources,
    *,
    pictures: bool = False,
    say: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Each item computed, where its data are there, and told as soon as it is; with its picture where one is wanted."""
    found = []
    for item in items:
        value = item.compute(sources) if item.compute is not None and sources.has(item.needs) else None
        drawn = item.draw(sources, value) if pictures and item.draw is not None and value is not None else None
        found.append(Outcome(item, value, drawn))
        say(found[-1])
    return found


def numbers(outcomes: Sequence[Outcome]) -> dict[Standing, int]:
    """How many items stand how."""
    counted = Counter(one.standing for one in outcomes)
    return {standing: counted[standing] for standing in Standing}


def facts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The document: each item, how many stand how, and the papers that they are of."""
    named = references()
    return {
        "items": [one.facts for one in outcomes],
        **{standing.value: number for standing, number in numbers(outcomes).items()},
        "references": {key: named[key] for key in dict.fromkeys(one.item.paper for one in outcomes)},
    }


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A new folder to write in, there whole when the block ends well, or not at all.

    ConfigError where it exists already or cannot be made, before the block begins.
    """
    folder = out.absolute()
    require_new(folder)
    try:
        with RunFolder(folder.parent).writing(folder.name) as into:
            yield into
    except RunFolderError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise ConfigError(f"--out {out} cannot be written: {reason}; name another folder") from error


def write(outcomes: Sequence[Outcome], folder: Path) -> None:
    """The page and the document in a folder."""
    (folder / PAGE).write_text(page(outcomes), encoding="utf-8")
    text = json.dumps(facts(outcomes), indent=1, ensure_ascii=False)
    (folder / DOCUMENT).write_text(f"{text}\n", encoding="utf-8")


def page(outcomes: Sequence[Outcome]) -> str:
    """One page that needs nothing else: no script, no network, the same bytes for the same outcomes."""
    named = references()
    papers = {
        key: [one for one in outcomes if one.item.paper == key]
        for key in dict.fromkeys(one.item.paper for one in outcomes)
    }
    template = Path(__file__).with_name("papers.html.j2").read_text(encoding="utf-8")
    return (
        page_templates("sdc.report")
        .from_string(template)
        .render(
            papers=papers,
            references=named,
            numbers=[(number, WORDS[standing], standing.value) for standing, number in numbers(outcomes).items()],
            differing=[one for one in outcomes if one.standing is not Standing.AGREES],
            written=written,
        )
    )
