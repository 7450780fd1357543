"""The section on risks beyond the criterion: probabilities, refusals, population uniques, guesses. None decides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from sdc.intruder.chains import written_error, written_r_hat
from sdc.intruder.guesses import Guesses, Score, mean_score
from sdc.intruder.measures import log_probability_if_uniform
from sdc.intruder.summary import Summary
from sdc.report import svg
from sdc.report.blocks import Block, Cell, FigureBlock, ListBlock, TextBlock, interval, pairs
from sdc.report.evidence import AuditEvidence
from sdc.utility.uniques import POISSON, Uniques

MOST_CELLS, MOST_DRAWN, MOST_LAWS = 20, 2_000, 50
MOST_WRITTEN = 10**15


def blocks(audit: AuditEvidence) -> Iterator[Block]:
    """The paragraphs, tables and figure of the section."""
    found = [*_likely(audit), *_refusals(audit), *_uniques(audit), *_guesses(audit)]
    yield TextBlock(
        "No figure of this section decides what is released."
        if found
        else "The config has no section posterior, uniques or attack, so that nothing further was estimated."
    )
    yield from found


def _by_cell(audit: AuditEvidence, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, str, int, str]]:
    """Row, cell, count and outer bounds of at-risk cells."""
    for row in rows.tolist():
        cell, count = pairs(audit.bounds.cells[row], audit.schema), int(audit.bounds.counts[row])
        yield row, cell, count, interval(audit.bounds.outer[row].tolist())


# What is likely


def _likely(audit: AuditEvidence) -> Iterator[Block]:
    if not audit.posteriors:
        return
    yield TextBlock(
        "A law states what an intruder held likely before the release. The true table's probability is a natural "
        "logarithm. A cell is identified if its true count is its most likely one and more probable than the threshold "
        f"{audit.threshold:g}; “above” counts the cells whose true count is more probable than that. {_groups(audit)}"
    )
    yield ListBlock(
        "laws", "Probabilities by law", _LAW, [_law(one, audit.threshold) for one in audit.posteriors[:MOST_LAWS]]
    )
    if audit.measures:
        columns = " | ".join(["Section of [DFT]", "Measure", *(f"#{one['release']}" for one in audit.measures)])
        title = "Measures of this release and of the least that might be published, by the law “released”"
        yield ListBlock("side-by-side", title, columns, list(_measures(audit)))
    known = next((summary for summary in audit.posteriors if summary.reason is None), None)
    if known is not None:
        yield FigureBlock(
            _figure(audit, known),
            f"A ring for the at-risk cells with one width and one probability of the true count, by the law "
            f"{known.label}; at most {MOST_DRAWN:,} cells. Far to the right and high up: wide, but all but known.",
        )
        columns = "Cell | #Count | #Bounds | #Probability | #Most likely | #Its probability | #Holds a group | Group"
        title, rows = "Cells whose true count is most probable", list(_most_likely(audit, known))
        yield ListBlock("likely-cells", title, columns, rows, len(audit.bounds), "posterior/")


_LAW = (
    "Law | Found by | #Feasible tables | #True table | #If all alike | #Identified | #Above | #Disclose a group | "
    "#True count, mean | #Largest"
)


def _law(summary: Summary, threshold: float) -> list[Cell]:
    """A law: how it was found, and the measures of [DFT] section 4; or why there is none."""
    if summary.reason is not None:
        return [summary.label, f"not known: {summary.reason}", *[""] * 8]
    tables, count = "", summary.feasible_tables
    if count is not None:
        # the number itself may have hundreds of digits
        tables = f"{count:,}" if count < MOST_WRITTEN else f"10^{math.log10(count):.1f}"
    if_uniform = "" if count is None else f"{log_probability_if_uniform(count):,.2f}"
    true_table = "" if summary.log_probability is None else f"{summary.log_probability:,.2f}"
    shares = summary.identified(threshold), summary.above(threshold)
    identified, above, mean, largest = (
        f"{100 * value:.2f} %" for value in (*shares, float(summary.at_truth.mean()), float(summary.at_truth.max()))
    )
    found = (tables, true_table, if_uniform, identified, above, summary.disclosed(threshold), mean, largest)
    return [summary.label, _engine(summary), *found]


def _engine(summary: Summary) -> str:
    made = summary.diagnostics
    if made is None:
        same = summary.equals_released and summary.law != "released"
        return f"{summary.engine}, exact{'; here the law released' if same else ''}"
    return (
        f"{made.chains} chains of {made.draws:,} draws, R-hat {written_r_hat(made.r_hat)}, effective sample size from "
        f"{made.effective_sample_size:,.0f}, standard errors {written_error(made.error, made.wanted)}, connectivity "
        f"{made.connectivity}"
    )


def _groups(audit: AuditEvidence) -> str:
    """The part of attribute disclosure that bounds prove."""
    if audit.groups is None:
        return ""
    certain, impossible = audit.groups.are_certain(audit.bounds.outer), audit.groups.are_impossible(audit.bounds.outer)
    share = "all" if audit.groups.share == 1 else f"at least {100 * audit.groups.share:g} %"
    return (
        f"A cell that holds {share} of a group, a released marginal cell, discloses all categories of a person known "
        f"to be in it: by their bounds {certain.sum():,} at-risk cells certainly do, and {impossible.sum():,} cannot."
    )


_OF_BOUNDS, _OF_CELLS = ("known_by_bounds", "total_width", "mean_width"), ("identified", "disclosure_risk")
_MEASURES = {
    "sub_tables": ("3", "utility: sub-tables without the grand total", ",d"),
    "disclosure_risk": ("3", "disclosure risk: mean loss by claims of an intruder, per cell", ".4f"),
    "known_by_bounds": ("4.1", "at-risk cells whose bounds leave one count", ",d"),
    "mean_width": ("4.1", "mean width of their bounds", ",.2f"),
    "log_probability_if_uniform": ("4.1", "log probability of the true table, all feasible ones alike", ",.2f"),
    "total_width": ("4.2", "total width of their bounds", ",d"),
    "log_probability_of_true_table": ("4.2", "log probability of the true table by the law", ",.2f"),
    "entropy": ("4.2", "entropy of the law of the tables", ",.2f"),
    "identified": ("4.3", "at-risk cells that are identified, equation 5", ".2%"),
}


def _measures(audit: AuditEvidence) -> Iterator[tuple[str, ...]]:
    for key, (section, name, form) in _MEASURES.items():
        if any(one[key] is not None for one in audit.measures):
            yield section, name, *(_measured(one, key, form) for one in audit.measures)


def _measured(of: Mapping[str, Any], key: str, form: str) -> str:
    if of[key] is None:
        return "not known"
    value = format(of[key], form)
    if key in _OF_BOUNDS and not of["bounds_are_sharp"]:
        return f"{value} by outer bounds"
    return f"{value} sampled" if of["sampled"] and key in _OF_CELLS else value


def _most_likely(audit: AuditEvidence, summary: Summary) -> Iterator[tuple[Cell, ...]]:
    """Those whose true count is most probable, the wider first where it is as probable."""
    first = np.lexsort((-audit.bounds.outer_width, -summary.at_truth))[:MOST_CELLS]
    for row, cell, count, outer in _by_cell(audit, first):
        group = audit.label(int(audit.groups.sub_tables[row])) if audit.groups else ""
        likely, highest = int(summary.most_likely[row]), f"{summary.highest[row]:.4f}"
        truth, disclosing = f"{summary.at_truth[row]:.4f}", f"{summary.disclosing[row]:.4f}"
        yield cell, count, outer, truth, likely, highest, disclosing, group


def _figure(audit: AuditEvidence, summary: Summary) -> Markup:
    """The probability of the true count against the outer width; most probable ones where there are too many cells."""
    widths = audit.bounds.outer_width
    drawn = np.argsort(-summary.at_truth, kind="stable")[:MOST_DRAWN]
    low, high = int(widths[drawn].min()), int(widths[drawn].max())
    plot = svg.chart_plot((low, high), (0.0, 1.0))
    steps = [float(digit * 10**power) for power in range(10) for digit in (1, 2, 5)]
    marks = [s for s in steps if low <= s <= high] if plot.logarithmic else svg.ticks(*plot.x_range, 10, 1)
    # cells of one place are one point
    places = {(int(width), round(float(p), 3)) for width, p in zip(widths[drawn], summary.at_truth[drawn], strict=True)}
    rings = [svg.element("circle", cx=plot.x(w), cy=plot.y(p), r=3, class_="faint") for w, p in sorted(places)]
    description = "To the right the width of the bounds of an at-risk cell, upwards the probability of its true count."
    titles, axes = ("Bounds and probabilities", description), ("outer width", "probability of the true count")
    return svg.chart("likely", plot, titles, axes, (marks, [0, 0.2, 0.4, 0.6, 0.8, 1]), rings)


# Refusals


def _refusals(audit: AuditEvidence) -> Iterator[Block]:
    found, bounds = audit.refusals, audit.bounds
    if found is None:
        return
    if found.reason is not None:
        yield TextBlock(f"The effect of knowing the settings is not known: {found.reason}", "refusals")
        return
    yield TextBlock(
        f"An intruder who also knows the method and all settings can exclude tables that agree with the release but "
        f"lead to another one. {found.feasible_tables:,} tables agree with the release, and {found.alike:,} of these "
        f"lead to it. {_narrowed(audit)} The guarantee holds against an intruder who does not know the settings.",
        "refusals",
    )
    widths = np.diff(found.left)[:, 0]
    first = np.lexsort((-found.at_truth, widths, widths - np.diff(found.possible)[:, 0]))[:MOST_CELLS]
    rows = list[tuple[Cell, ...]]()
    for row, cell, count, _ in _by_cell(audit, first):
        possible, left = (interval(ends[row].tolist()) for ends in (found.possible, found.left))
        rows.append((cell, count, possible, left, f"{found.at_truth[row]:.4f}"))
    columns = "Cell | #Count | #Possible | #Left | #Probability, all left alike"
    yield ListBlock("refused", "Cells that refusals narrow most", columns, rows, len(bounds), "posterior/")


def _narrowed(audit: AuditEvidence) -> str:
    """How many cells are too narrow for an intruder who knows the settings."""
    found, width = audit.refusals, audit.criteria.width.min_width
    assert found is not None
    cells, own = found.narrowed(width)
    of = f"For that intruder {cells:,} of {len(found.left):,} at-risk cells fall below the width of {width}"
    if not audit.found.suppressed_tables.tables:
        return f"{of}."
    return f"{of}, and {own:,} of {len(found.own_left):,} small cells of the suppressed tables."


# Uniques


def _uniques(audit: AuditEvidence) -> Iterator[Block]:
    found = audit.uniques
    if found is None:
        return
    if not isinstance(found, Uniques):
        yield TextBlock(f"Sample uniques in the population are not known: {found}", "uniques")
        return
    by = (
        f"the Poisson log-linear model {found.model} and a sampling fraction of {found.fraction:g} (Skinner and "
        "Holmes 1998, Skinner and Shlomo 2008)"
        if found.estimator == POISSON
        else "the weights of records, by a negative binomial distribution (Benedetti and Franconi 1998)"
    )
    alone, matched = float(found.alone.sum()), float(found.matched.sum())
    yield TextBlock(
        f"{len(found):,} {'cells have' if len(found) > 1 else 'cell has'} one record, a sample unique. "
        f"{alone:,.1f} of them, {100 * alone / len(found):.2f} %, are expected to be population uniques: nobody else "
        f"in the population is in the cell. The estimate is by {by}. An intruder who links each to a random person of "
        f"the population in its cell is expected to be right {matched:,.1f} times.",
        "uniques",
    )
    yield TextBlock(
        f"The estimate puts {100 * found.right_matches:.2f} % of all persons in these cells in the sample; without "
        f"a model, by data intrusion simulation (Skinner and Elliot 2002), {100 * found.intrusion:.2f} % from "
        f"{len(found):,} cells of one record and {found.twos:,} of two. If the two are far apart the first does not "
        "fit."
    )
    outer = audit.bounds.outer[audit.bounds.counts == 1]  # both are in the order of the table's rows
    first = np.lexsort((outer[:, 1] - outer[:, 0], -found.alone))[:MOST_CELLS]
    rows = list[tuple[Cell, ...]]()
    for row in first:
        chances = (f"{found.alone[row]:.4f}", f"{found.matched[row]:.4f}", f"{found.expected[row]:,.1f}")
        rows.append((pairs(found.cells[row], audit.schema), interval(outer[row].tolist()), *chances))
    columns = "Cell | #Bounds | #Population unique | #Match is right | #Persons expected"
    yield ListBlock("unique-cells", "Sample uniques", columns, rows, len(found), "uniques/")


# Guesses


def _guesses(audit: AuditEvidence) -> Iterator[Block]:
    found = audit.guesses
    if found is None:
        return
    if not isinstance(found, Guesses):
        yield TextBlock(f"Guesses from all public tables are not known: {found}", "guesses")
        return
    scores = found.scores(audit.bounds)
    mean = mean_score(scores)
    yield TextBlock(
        f"Each cell of the table was guessed from the public tables, and the guess rounded: by "
        f"{'; by '.join(found.methods)}. A right guess is provable if the lower bound of the cell is 1 or more. A "
        "right guess does not break the criterion: other counts, as far apart as the cell is wide, agree with all that "
        "is public.",
        "guesses",
    )
    rows: list[Sequence[Cell]] = [(name, s.at_risk, s.provable, s.claimed, s.cells) for name, s in scores.items()]
    if mean:
        values = (mean[key] for key in ("at_risk", "provable", "claimed", "cells"))
        rows.append(("mean of seeds", *(f"{value:,.1f}" for value in values)))
    columns = "Guessed by | #At-risk cells right | #Provable | #Guessed to be small | #All cells right"
    yield ListBlock("guessed", "Right guesses", columns, rows)
    law = next((one for one in audit.posteriors if one.reason is None), None)
    columns = "Cell | #Count | #Bounds | #Guessed | #By independence | #Probability, law "
    f"{law.label if law else 'none'}"
    first, cells = np.argsort(audit.bounds.outer_width, kind="stable")[:MOST_CELLS], list[Sequence[Cell]]()
    for row, cell, count, outer in _by_cell(audit, first):
        guessed = "" if found.mean is None else f"{found.mean[row]:,.2f}"
        probability = f"{law.at_truth[row]:.4f}" if law else ""
        cells.append((cell, count, outer, guessed, f"{found.expected[-1, row]:,.2f}", probability))
    yield ListBlock("guessed-cells", "Guesses of the narrowest cells", columns, cells, len(audit.bounds), "attack/")


def right_guesses(audit: AuditEvidence) -> str:
    """The sentence of page one about right guesses; empty if the attack is not known."""
    found = audit.guesses
    if not isinstance(found, Guesses) or not len(audit.bounds):
        return ""
    *own, alone = found.scores(audit.bounds).values()
    by = [own, [alone]] if own else [[alone]]
    listed = [f"by {method} {_right(scores)}" for method, scores in zip(found.methods, by, strict=True)]
    return (
        "The criterion does not exclude right guesses. Guessed from the published tables, the counts of at-risk cells "
        f"are right {'; '.join(listed)}."
    )


def _right(scores: Sequence[Score]) -> str:
    """How many, over all seeds, and of how many of them a record is certain."""
    certain = max(one.provable for one in scores)
    right = sorted({one.at_risk for one in scores})
    number = " to ".join(f"{one:,}" for one in {right[0]: None, right[-1]: None})
    return number + f", of which at most {certain:,} hold a record for certain" * (certain > 0)
