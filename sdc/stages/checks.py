"""Whether settings fit a table: better known before the work than after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from sdc.config.build import BuildConfig
from sdc.config.release import ReleaseConfig
from sdc.intruder.summary import laws_of
from sdc.model import subtable as st
from sdc.model.errors import ConfigError, InputError
from sdc.model.extras import require_packages
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.model.table import Table
from sdc.public.earlier import Origin, check_publications
from sdc.public.mixture import Mixture
from sdc.publish.publication import Texts, require_formats, signing_key
from sdc.search.wishes import Wishes
from sdc.stages.assemble import SearchSettings
from sdc.stages.build import Build
from sdc.utility.uniques import check_model

WISHES = "release.require, forbid and in_part"


def check_labels(config: BuildConfig, schema: Schema) -> None:
    """ConfigError where the table does not have what is labelled."""
    with fault_of("labels"):
        config.labels.labels.require(schema)


def check_before(build: Build) -> None:
    """What columns and config alone tell, before a record is read, by the same errors as later.

    InputError where parts or earlier publications are not what the settings say of them, ConfigError where settings
    name what the table will not have, or need what is not installed. Of levels of earlier publications only the table
    knows.
    """
    config = build.config
    if config.attack and config.attack.seeds:
        Mixture().require()
    if "xlsx" in config.publication.formats:
        require_packages("publication.formats: xlsx", "xlsxwriter")
    schema = build.schema
    check_publications(config)
    listed = {variable.name for variable in schema.variables if variable.categories != ("",)}
    with fault_of("labels"):
        config.labels.labels.of_categories(listed).require(schema)
    with fault_of(WISHES):
        Wishes.of(schema, _unweighed(config.release))
    if not config.earlier and config.ledger is None:
        _check_variables(config, build.settings(origin=Origin()), schema)


def _unweighed(release: ReleaseConfig) -> ReleaseConfig:
    """Without weights of cells, whose categories are not known yet."""
    if isinstance(release.in_part, str):
        return release
    in_part = tuple(one.model_copy(update={"cost": None}) for one in release.in_part)
    return release.model_copy(update={"in_part": in_part})


def check_names(build: Build, known: Knowledge, table: Table) -> None:
    """ConfigError where settings do not fit the table and what is known, ReleaseError where a format does not."""
    settings, about = build.settings(), build.config.publication
    check_labels(build.config, known.schema)
    with fault_of(WISHES):
        wishes = settings.wished(known)
    _check_variables(build.config, settings, known.schema)
    children = (st.parse(child, known.schema) for child in about.children)
    wanted = dict.fromkeys([*wishes.require, *(part.view for part in wishes.in_part), *children])
    schema = known.schema
    shown = st.union(wanted) if wishes.only_required else st.full(len(schema)) & ~settings.origin.hides(schema)
    shown = st.of(v for v in st.members(shown) if wishes.allows(schema.levels.closed(1 << v)))
    require_formats(table, build.config.name, Texts(about, build.config.labels.labels), wanted, shown)


def _check_variables(config: BuildConfig, settings: SearchSettings, schema: Schema) -> None:
    """ConfigError where settings name variables that the table does not have."""
    # made, and not kept: what is wanted is the refusal
    with fault_of("release.demand"):
        settings.requests(schema)
    with fault_of("release.weights"):
        settings.weights(schema)
    with fault_of(f"release.annealing.start = {config.release.annealing.start!r}"):
        settings.start_graph(schema)
    with fault_of("risk.attributes.sensitive"):
        settings.criteria.check(schema)
    signing_key(config.publication)
    with fault_of("publication.children"):
        for name in chain(*(child.split("*") for child in config.publication.children)):
            schema.index(name.strip())
    if (asked := config.posterior) is not None:
        with fault_of(f"posterior.laws = {list(asked.laws)!r}"):
            laws_of(asked.laws, asked.alpha, schema)
    if config.uniques is not None and (model := config.uniques.model) is not None:
        with fault_of(f"uniques.model = {model!r}"):
            check_model(model, schema)


@contextmanager
def fault_of(setting: str) -> Iterator[None]:
    """Says which setting an input error is about."""
    try:
        yield
    except InputError as error:
        raise ConfigError(f"{setting}: {error}", error.detail) from error
