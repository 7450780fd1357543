"""The curve: releases of other risk criteria."""

from __future__ import annotations

from pathlib import Path

from sdc.executor import Executor
from sdc.search.curve import CurvePoint, CurveSearch, LikelyCurve, LikelyPoint
from sdc.stages.assemble import release_search
from sdc.stages.build import Build
from sdc.stages.stage import Say, Stage, given, plain
from sdc.stages.table import TABLE
from sdc.stages.widths import WIDTHS
from sdc.storage.results import write_curve, write_likely_curve


def _make(build: Build, into: Path, executor: Executor, say: Say) -> None:
    made, settings = build.made, given(build.config.curve, "curve")
    curve = CurveSearch(
        release_search(made.table, made.known, build.settings(executor), made.widths),
        settings.min_width,
        settings.small_count or (build.config.risk.small_count,),
        settings.methods,
        on_point=lambda point: say(_describe_point(point)),
    )
    write_curve(curve.run(), into)
    if settings.max_above:
        chains = release_search(made.table, made.known, build.settings(executor), made.widths).decomposable
        likely = LikelyCurve(
            chains, settings.threshold, settings.max_above, lambda point: say(_describe_likely_point(point))
        )
        write_likely_curve(likely.run(), into)


def _describe_point(point: CurvePoint) -> str:
    criteria = f"small count {point.small_count}, min width {point.min_width_required}"
    return f"curve: {point.method}, {criteria}: {point.sub_tables} sub-tables"


def _describe_likely_point(point: LikelyPoint) -> str:
    limit = "no limit" if point.max_above is None else f"at most {point.max_above:g} above the threshold"
    found = point.reason or f"{point.sub_tables} sub-tables, {point.above or 0:.4f} above the threshold"
    return f"curve: decomposable, {limit}: {found}"


CURVE = Stage(
    "curve",
    "finds the releases of other risk criteria",
    needs=(TABLE.name, WIDTHS.name),
    sections=lambda build: [plain(part) for part in (build.config.curve, build.config.risk, build.config.release)],
    make=_make,
    asked=lambda config: config.curve is not None,
)
