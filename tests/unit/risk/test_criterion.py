"""The registry of criteria: names, declarations, and the keys by which the verifier finds them."""

import pytest

import sdc
from sdc.config.methods import CRITERIA
from sdc.model.errors import InputError
from sdc.risk.criteria import Criteria
from sdc.risk.criterion import Criterion, register, registered
from sdc.risk.min_frequency import MinFrequency
from sdc.verify.core.verdict import CHECKS


def test_every_declared_criterion_is_registered_and_of_counts_ones_are_verified():
    assert [kind.setting for kind in registered()] == [one.name for one in CRITERIA]
    assert {kind.document or kind.key for kind in registered() if kind.is_of_counts} == {*CHECKS}


def test_a_name_is_registered_once():
    class Another(Criterion):
        key, setting = MinFrequency.key, MinFrequency.setting

    with pytest.raises(ValueError, match="named min_frequency: MinFrequency and Another"):
        register(Another)


def test_a_criterion_declares_what_it_works_with():
    class Undeclared(Criterion):
        key, setting = "undeclared", "risk.undeclared"

    with pytest.raises(ValueError, match=r"Undeclared has the setting risk\.undeclared"):
        register(Undeclared)


def test_criteria_are_asked_by_their_arguments():
    assert Criteria.of(2, 3, min_frequency=4) == Criteria.of(2, 3, MinFrequency(4), min_frequency=None)
    assert Criteria.of(2, 3, min_frequency=4).facts == {"small_count": 2, "min_width": 3, "n_rule": 4}
    assert Criteria.of(2, 3).without(MinFrequency).get(MinFrequency) is None
    with pytest.raises(InputError, match=r"'frequency' is not a criterion; choose from .*min_frequency"):
        Criteria.of(2, 3, frequency=4)


def test_the_former_name_of_a_class_warns():
    with pytest.warns(DeprecationWarning, match=r"sdc\.Attributes is called sdc\.AttributeDisclosure"):
        assert sdc.Attributes is sdc.AttributeDisclosure
