"""Names that are none: the nearest is suggested, and no message lists a hundred."""

from sdc.model.errors import meant, nearest

COLUMNS = [f"v{number:02}" for number in range(45)] + ["region"]


def test_the_nearest_is_suggested_and_few_are_listed() -> None:
    found = nearest("regoin", COLUMNS)
    assert "did you mean region?" in found
    assert [name for name in COLUMNS if name in found] == [*COLUMNS[:12], "region"]
    assert "34 more" in found
    assert nearest("income", ["age", "sex"], "the table has") == "the table has age, sex"


def test_case_does_not_count() -> None:
    assert meant("SEX", ["age", "sex"]) == "did you mean sex? "
    assert meant("sex", ["AGE", "Sex"]) == "did you mean Sex? "


def test_as_many_are_suggested_as_are_wanted() -> None:
    assert meant("ages", ["age", "aged", "sex"], most=2) == "did you mean age, aged? "
