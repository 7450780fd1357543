"""Labels of variables and categories: what has none has its name; every refusal, of a code list too."""

from pathlib import Path

import pytest

from sdc.config.build import BuildConfig
from sdc.config.file import read_config
from sdc.model.errors import ConfigError, InputError
from sdc.model.labels import Labels, VariableLabels
from sdc.model.schema import Schema, Variable

SCHEMA = Schema((Variable("age", ("1", "2", "3")), Variable("sex", ("f", "m"))))
AGES = {"1": "under 15", "2": "15 to 64"}
LABELS = Labels({"age": VariableLabels("Age group", "at the last birthday", "years", AGES)})


def test_what_has_no_label_is_called_by_its_name() -> None:
    LABELS.require(SCHEMA)
    assert (LABELS.variable("age"), LABELS.variable("sex")) == ("Age group", "sex")
    assert LABELS.categories(SCHEMA.variables[0]) == ("under 15", "15 to 64", "3")
    assert Labels().category("age", "1") == "1"
    assert (LABELS.of("age").unit, LABELS.of("sex").unit) == ("years", None)
    assert LABELS
    assert not Labels()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"income": VariableLabels("Income")}, "unknown variable 'income'; the table has age, sex"),
        ({"age": VariableLabels(categories={"9": "not known"})}, "of the category '9', and variable 'age' has none"),
        (
            {"age": VariableLabels(categories={"1": "same", "3": "same"})},
            "two categories of 'age' would have the label 'same'",
        ),
        ({"age": VariableLabels(categories={"1": "2"})}, "two categories of 'age' would have the label '2'"),
        ({"age": VariableLabels("sex")}, "two variables would have the label 'sex'"),
    ],
)
def test_labels_that_do_not_fit_the_table(labels: dict[str, VariableLabels], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Labels(labels).require(SCHEMA)
    assert "f, m" not in str(caught.value)  # the data's own categories are not quoted
    assert "2, 3" not in str(caught.value)


@pytest.mark.parametrize("text", ["two\nlines", "turned \u202e text"])
def test_texts_that_are_not_what_they_seem(text: str) -> None:
    with pytest.raises(InputError, match=r"label .* of variable 'age': it has a control character"):
        Labels({"age": VariableLabels(note="fine", categories={"1": text})})


def read(folder: Path, labels: str) -> BuildConfig:
    path = folder / "c.yaml"
    path.write_text(f"name: c\ntable: {{path: t.csv}}\nrisk: {{min_width: 3}}\nlabels: {labels}\n", encoding="utf-8")
    return read_config(path)


def test_a_code_list_is_read_with_the_config_and_counts_by_its_content(tmp_path: Path) -> None:
    rows = "variable,category,label\nage,,Age group\nage,1,under 15\nage,2,15 to 64\n"
    (tmp_path / "codes.csv").write_text("\ufeff" + rows, encoding="utf-8")
    own = "{age: {note: at the last birthday, unit: years}}"
    config = read(tmp_path, f"{{code_list: codes.csv, variables: {own}}}")
    assert config.labels.labels == LABELS
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "codes.csv").rename(tmp_path / "elsewhere" / "others.csv")
    assert read(tmp_path, f"{{code_list: elsewhere/others.csv, variables: {own}}}").labels == config.labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age,,Age\n", r"codes.csv has the columns \['age', '', 'Age'\]; give it variable, category, label"),
        ("", r"codes.csv has the columns \[\]"),
        ("variable,category,label\nage,1\n", r"codes.csv, line 2 is \['age', '1'\]; give a variable"),
        ("variable,category,label\nage,1,\n", "line 2 is .* and a label"),
        ("variable,category,label\n,1,x\n", "line 2 is .*give a variable"),
        ("variable,category,label\nage,1,x\nage,1,y\n", "line 3: category '1' of variable 'age' has the label 'x' al"),
        ("variable,category,label\nsex,,x\n", "line 2: variable 'sex' has the label 'Sex' already; drop one"),
        ("variable,category,label\nage,1,a\u200eb\n", r"codes.csv: labels.variables.age.categories.1 = .* control"),
        ("variable,category,label\nage,1,für\n".encode("latin-1"), "codes.csv cannot be read: .*UTF-8"),
        (None, "labels.code_list = 'codes.csv': there is no file"),
        ('variable,category,label\nage,1,"x\n', "codes.csv cannot be read: .*; give a CSV file in UTF-8"),
    ],
)
def test_what_is_no_code_list(content: str | bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "codes.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, "{code_list: codes.csv, variables: {sex: {label: Sex}}}")
