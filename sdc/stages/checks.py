"""Whether settings fit a table: better known before the work than after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from sdc.config.build import BuildConfig
from sdc.intruder.summary import laws_of
from sdc.model.errors import ConfigError, InputError
from sdc.model.knowledge import Knowledge
from sdc.model.schema import Schema
from sdc.publish.publication import signing_key
from sdc.stages.build import Build
from sdc.utility.uniques import check_model


def check_labels(config: BuildConfig, schema: Schema) -> None:
    """ConfigError where the table does not have what is labelled."""
    with fault_of("labels"):
        config.labels.labels.require(schema)


def check_names(build: Build, known: Knowledge) -> None:
    """ConfigError where settings do not fit the table and what is known."""
    config, settings, schema = build.config, build.settings(), known.schema
    check_labels(config, schema)
    # made, and not kept: what is wanted is the refusal
    with fault_of("release.demand"):
        settings.requests(schema)
    with fault_of("release.weights"):
        settings.weights(schema)
    with fault_of("release.require, forbid and in_part"):
        settings.wished(known)
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
