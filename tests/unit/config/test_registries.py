"""Methods, formats, clusters and criteria stand once in their registries."""

from dataclasses import replace
from typing import ClassVar

import pytest

from sdc.config.features import FORMAT_NAMES, by_name
from sdc.config.methods import DECLARED_METHODS
from sdc.execution.cluster import KINDS
from sdc.publish.catalogue import media_of
from sdc.publish.formats import FORMATS
from sdc.risk.criterion import register
from sdc.risk.min_frequency import MinFrequency


def test_a_name_is_registered_once() -> None:
    first, second = DECLARED_METHODS[:2]
    with pytest.raises(ValueError, match=f"two features are declared under the name {first.name}"):
        by_name([first, replace(second, name=first.name)])
    local, slurm = (KINDS[name] for name in ("local", "slurm"))
    with pytest.raises(ValueError, match="two features are declared under the name local"):
        by_name([local, replace(slurm, name="local")])
    with pytest.raises(ValueError, match=f"two criteria are named {MinFrequency.key}"):
        register(MinFrequency)


def test_each_format_has_a_writer_and_a_name_of_its_media() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES
    assert all(media_of({"path": "t", "format": name}) for name in FORMAT_NAMES)


def test_a_criterion_is_declared_in_the_config() -> None:
    class Undeclared(MinFrequency):
        key: ClassVar[str] = "undeclared"
        setting: ClassVar[str] = "risk.undeclared"

    with pytest.raises(ValueError, match=r"Undeclared has the setting risk\.undeclared"):
        register(Undeclared)
