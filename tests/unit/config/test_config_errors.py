"""What is wrong in a config is one message: the key, its value, what is allowed."""

from pathlib import Path

import pytest

from sdc.config.file import read_config
from sdc.model.errors import ConfigError
from sdc.stages.build import open_build
from tests.unit.config.test_config import SMALLEST, config_of


@pytest.mark.parametrize(
    ("recode", "match"),
    [
        ("{groups: {x: [p, q], y: [q]}}", r"recodes\.a\.groups = .*: the value 'q' is in 'x' and again in 'y'"),
        ("{groups: {x: [p], x: [q]}}", "gives 'x' a second time"),
        ("{groups: {x: [1.5]}}", r"recodes\.a\.groups\.x\.0 = 1.5: .*string \(label: \[values\];"),
        ("{groups: {x: [01]}}", r"recodes\.a\.groups\.x\.0 = 1: 01 is 1 to YAML; write it in quotes"),
        ("{groups: {}}", r"recodes\.a\.groups = {}"),
        ("{bins: {x: [0, 5], y: [4, 9]}}", r"recodes\.a\.bins = .*: the bins 'x' and 'y' overlap; correct their ends"),
        ("{bins: {x: [0, 5], y: [6, 9]}}", "there is a gap between the bins 'x' and 'y'"),
        ("{bins: {x: [5, 5]}}", "the bin 'x' goes from 5 to below 5 and contains no value"),
        ("{bins: {x: [0, ten]}}", r"recodes\.a\.bins\.x\.1 = 'ten'"),
        ("{}", "recodes.a = {}: give only one of bins, groups, and top or bottom"),
        ("{top: 3, bottom: 3}", "bottom 3 is not below top 3"),
        ("{top: 3.5}", r"recodes\.a\.top = 3.5: .*integer.* \(a whole number"),
    ],
)
def test_faults_of_recodes(file: Path, recode: str, match: str) -> None:
    text = f"name: r\ntable: {{path: t.csv, recodes: {{a: {recode}}}}}\nrisk: {{min_width: 1}}"
    with pytest.raises(ConfigError, match=match) as caught:
        config_of(file, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ("variables: [b], recodes: {a: {top: 3}}", "'a' is not among the variables; add it there or drop its recode"),
        ("categories: {a: [x]}, recodes: {a: {top: 3}}", "'a' has categories too; its recode gives them"),
        ("invalid_records: drop", r"table\.invalid_records = 'drop': .*\(refuse a table with records"),
    ],
)
def test_faults_of_recoded_tables(file: Path, table: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        config_of(file, f"name: r\ntable: {{path: t.csv, {table}}}\nrisk: {{min_width: 1}}")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("risk:", "riks:", "riks is an unknown key; did you mean risk\\? allowed: name, table, risk, release"),
        ("risk:", "publication: {title: Age, sex and race}\nrisk:", "sex and race is .* a text with a comma"),
        ("min_width", "min_widht", "risk.min_width is missing; add it .*risk.min_widht is an unknown key; did you"),
        ("min_width: 3", "min_width: 0", "risk.min_width = 0: should be greater than or equal to 1 .*at least 1"),
        ("min_width: 3", "min_width: true", "risk.min_width = True: should be a valid integer"),
        ("min_width: 3", "min_width: 3, small_count: 0", "risk.small_count = 0"),
        (
            "min_width: 3",
            "min_width: 3, accept_undecided: maybe",
            "risk.accept_undecided = 'maybe': should be a valid bool",
        ),
        ("path: t.csv", "path: ''", "table.path = '': String should have at least 1 character"),
        ("path: t.csv", "path: t, variables: a", "table.variables = 'a': should be a list .a list of the column"),
        ("path: t.csv", "path: t, categories: {A: [no]}", "A.0 = False: YAML reads .*; write it in quotes .* write"),
        ("path: t.csv", "path: t, categories: {A: [010]}", "A.0 = 8: 010 is 8 to YAML; write it in quotes"),
        ("path: t.csv", "path: t, columns: {A: x, B: x}", "columns = .*: the column 'x' is there twice"),
        ("path: t.csv", "path: t, columns: {A: x}, recodes: {A: {column: y, top: 3}}", "'A' has a column under"),
        ("path: t.csv", "path: t, csv: {delimiter: x}", r"table.csv.delimiter = 'x': .*one of , ; \| and a tab"),
        ("path: t.csv", "path: t, csv: {encoding: utf-9}", "table.csv.encoding = 'utf-9': it is not an encoding"),
        ("path: t.csv", "path: t, csv: {decimal: ','}", "',' separates the columns and is the decimal sign too"),
        ("path: t.csv", "path: t, structural_zeros: no.yaml", "build.yaml: table.structural_zeros = 'no.yaml': there"),
        ("path: t.csv", "path: t, structural_zeros: [a]", "table.structural_zeros = .*string .a YAML file of imposs"),
        ("path: t.csv", "path: t, max_categories: 1", "table.max_categories = 1: .* from 2 to 65536"),
        ("path: t.csv", "path: t, partitions: 0", "table.partitions = 0: .* at least 1"),
        ("{path: t.csv}", "t.csv", "table = 't.csv': .*a section with a path at least"),
        ("name: small", "name: small\npublication: {published: 2024-05}", "published = '2024-05': it is not a day"),
        ("name: small", "name: ../up", r"name = '../up': .*letters, digits, dots, hyphens and underscores"),
        ("name: small", "1: small", "name is missing; add it .*1 = 1: Keys should be strings"),
        ("name: small", "name: small\nrelease: {method: worst}", "release.method = 'worst': .*'decomposable', 'best'"),
        ("name: small", "name: small\nrelease: {refute_cells: -1}", "release.refute_cells = -1: .* equal to 0"),
        ("name: small", "name: small\nrelease: {seconds: 0}", "seconds = 0: should be greater than 0 .*more than 0"),
        ("name: small", "name: small\nrelease: {seconds: .inf}", "release.seconds = inf: should be a finite number"),
        ("name: small", "name: small\nrelease: {seconds_per_cell: 0}", "release.seconds_per_cell = 0: .*more than 0"),
        (
            "name: small",
            "name: small\nrelease: {in_part: [{of: A, by: rounding, base: 1}]}",
            r": release.protect.0.base = 1: should be greater than or equal to 2 \(the base of rounding[^=]*\)$",
        ),
        ("name: small", "name: small\nrelease: {in_part: [{of: A, cost: money}]}", r": release.protect.0.cost ="),
        ("name: small", "name: small\nrelease: {in_part: [{of: A, cost: {weight: 1}}]}", r"cost.weights is missing"),
        ("name: small", "name: small\nwidths: {most: 0}", "widths.most = 0"),
        ("name: small", "name: small\nwidths: {threshold: 3, most: 9}", "threshold = 3 and most are both given"),
        ("name: small", "name: small\nexecution: {workers: 0}", "execution.workers = 0"),
        ("name: small", "name: small\nexecution: {cluster: in_process}", "cluster = 'in_process': write one of"),
        ("name: small", "name: small\nexecution: {cluster: no.yaml}", "cluster = 'no.yaml': there is no file /"),
        ("name: small", "name: small\noutput: {folder: }", "output.folder = None: should be a valid string"),
        ("name: small", "name: small\nname: small", "not valid YAML: line 3 gives 'name' a second time; correct it"),
        ("min_width: 3", "min_width: 3, min_width: 9", "line 4 gives 'min_width' a second time"),
        ("name: small", "name: !!python/name:os.system", "is not valid YAML: line 2, column 7: could not determine"),
        ("name: small", "a: !!map [b]", "is not valid YAML: line 2, column 4: expected a mapping"),
        ("name: small", "? [a]\n: b", "is not valid YAML: line 2, column 3: found unhashable key"),
        ("name: small", "name: !!timestamp x", "is not valid YAML: line 2, column 7: 'x' is no timestamp; correct"),
        ("name: small", "name: !!int x", "line 2, column 7: 'x' is no int"),
        ("min_width: 3", "min_width: " + "9" * 5000, r"line 4, column 19: '9+\.\.\.9+' is no int"),
        ("min_width: 3", "min_width: 0x" + "f" * 5000, "line 4, column 19: an integer of more than 1024 bits"),
        ("name: small", "name: " + "[" * 20_000, "line 2, column 56: more than 50 levels"),
        ("name: small", "release: &a {weights: *a}", "line 2, column 10: an alias within what it names"),
        ("name: small", 'name: "a\\0b"', r"line 2, column 7: 'a\\x00b' has a character that no text has"),
    ],
)
def test_faults(file: Path, old: str, new: str, match: str) -> None:
    assert_refused(file, SMALLEST.replace(old, new), match)


def test_what_people_read_may_look_like_a_number_or_a_date(file: Path) -> None:
    """A year is a text as it is written; of what YAML changes nobody knows what was written."""
    config = config_of(file, SMALLEST + "publication: {period: 2024, source: 2024-03-01, notes: [007]}")
    publication = config.publication
    assert (publication.period, publication.source, publication.notes) == ("2024", "2024-03-01", ("007",))
    for value, what in {"1.0": "a number", "2024-03-01 12:00:00": "a moment", "yes": "a truth value"}.items():
        told = rf"publication.period = .*: YAML reads it as {what}; write it in quotes \(the reference period"
        assert_refused(file, SMALLEST + f"publication: {{period: {value}}}", told)


def test_what_is_known_to_be_no_config(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text("{}")
    for name, told in {
        "people.parquet": "is a table, not a YAML file; write a first config for it by sdc init .*people.parquet",
        "s3://bucket/people.csv.gz": "is a table, not a YAML file",
        "run": "is a run folder; give the YAML file that it was made from, or read its state by sdc status",
        ".": "is a folder, not a YAML file; if it has the parts of a table, write a first config for it by sdc init",
    }.items():
        with pytest.raises(ConfigError, match=told):
            read_config(name if "://" in name else tmp_path / name)


def assert_refused(file: Path, text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        config_of(file, text)
    assert "build.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ("chains: 1025", "chains = 1025: .*from 1 to 1024"),
        ("patience: -1", "patience = -1: .*0: never"),
        ("seed: -1", "seed = -1: .*at least 0"),
        ("schedule: slow", "schedule = 'slow': should be 'geometric' or 'linear'"),
        ("start_temperature: -2", "start_temperature = -2: .*in units of utility, more than 0"),
        ("start_temperature: 0.1", "end_temperature = 0.5: it is above the start temperature 0.1 "),
        ("end_temperature: 0", "end_temperature = 0: geometric cooling never reaches 0; give more than 0, or the li"),
        ("cycles: 0", "cycles = 0: .*at least 1 and at most the steps"),
        ("cycles: 9, steps: 8", "cycles = 9: there are 8 steps, and each cycle needs one"),
        ("tempering: true, chains: 1", "tempering = True: there is 1 chain.*give at least 2 chains"),
        ("tempering: 1", "tempering = 1: .*true or false"),
        ("tempering: true, schedule: linear, end_temperature: 0", "tempering = True: the end temperature is 0, at"),
        ("start: ''", "start = '': .*by its cliques"),
        ("step: 3", "step is an unknown key; did you mean steps. allowed: chains, steps, rounds"),
    ],
)
def test_faults_of_annealing(file: Path, settings: str, match: str) -> None:
    assert_refused(file, SMALLEST + f"release: {{annealing: {{{settings}}}}}", r"release\.annealing\." + match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("risk: {min_width: 3, min_frequency: 1}", "risk.min_frequency = 1: should be greater than or"),
        (
            "risk: {min_width: 3, attribute_disclosure: {sensitive: [], most: 3}}",
            r"risk.attribute_disclosure.sensitive = \[\]: .* .a",
        ),
        (
            "risk: {min_width: 3, attribute_disclosure: {sensitive: [a], most: 0}}",
            "risk.attribute_disclosure.most = 0: .*at least 1",
        ),
        (
            "risk: {min_width: 3, attribute_disclosure: {sensitive: [a], most: 3, lacking: 1}}",
            "risk.attribute_disclosure.lacking = 1:",
        ),
        ("release: {at_least: {}}", "release.at_least = {}: it is empty; name a measure, such as sub_tables"),
        ("release: {at_least: {sub_tables: 0}}", "release.at_least.sub_tables = 0: should be greater than or equal"),
        ("release: {at_least: {requests_served: 1.5}}", "release.at_least.requests_served = 1.5: should be less than"),
        ("release: {at_least: {requests_served: 0.5}}", "at_least has requests_served, and no demand is known; give"),
        ("release: {at_least: {halvings: 0.0}}", "release.at_least.halvings = 0.0: should be greater than 0"),
        ("table: {path: t.csv, expect: {}}", "table.expect = {}: it is empty; give parts, records or marker"),
        ("table: {path: t.csv, expect: {parts: 0}}", "table.expect.parts = 0: .*at least 1"),
        ("table: {path: t.csv, expect: {records: [5, 4]}}", r"table.expect.records = \[5, 4\]: the least number, 5"),
        ("table: {path: t.csv, expect: {marker: a/b}}", "table.expect.marker = 'a/b': it is not a name of a file"),
        ("table: {path: t.csv, expect: {marker: done.csv}}", "table.expect.marker = 'done.csv': it would be a part"),
        ("table: {path: t.csv, expect: {part: 1}}", "table.expect.part is an unknown key; did you mean parts"),
        ("output: {folder: 's3://bucket/runs'}", "output.folder = 's3://bucket/runs': it is a URL, and run folders"),
        ("release: {annealing: fast}", "release.annealing = 'fast': .*a section of settings"),
        ("release: {weights: {age: 2}}", "release.weights.age is an unknown key; allowed: variables, sub_tables"),
        ("release: {weights: {variables: {a: 0}}}", "weights.variables.a = 0: should be greater than 0 .a number more"),
        ("release: {weights: {sub_tables: {a*b: .nan}}}", r"sub_tables.a\*b = nan: .*value of their own"),
        ("curve: {}", "curve.min_width is missing; add it .a list of minimum widths"),
        ("curve: {min_width: []}", r"curve.min_width = \[\]: it is empty .a list of minimum widths, each at least 1"),
        ("curve: {min_width: [3, 0]}", "curve.min_width.1 = 0: should be greater than or equal to 1"),
        ("curve: {min_width: [3], small_count: []}", r"curve.small_count = \[\]: it is empty"),
        ("posterior: {share: 0.5}", r"posterior.share = 0.5: .*above 0.5 up to 1"),
        ("attack: {seeds: 101}", "attack.seeds = 101: .*from 0 to 100"),
        ("uniques: {}", "uniques has no fraction, and table.weight names no column; give the share of the population"),
        ("uniques: {fraction: 0}", "uniques.fraction = 0: .*above 0 .* at most 1"),
        ("uniques: {model: best}", "model = 'best' is given without a fraction, and weights have no model"),
        ("curve: {min_width: [3], methods: [all]}", "curve.methods.0 = 'all': .*a list of ordered, bisection, decomp"),
        ("curve: {min_width: [3], max_above: [1.0]}", "curve.max_above.0 = 1.0: should be less than 1 .a list"),
        ("curve: {min_width: [3], threshold: 0}", "curve.threshold = 0: .*between 0 and 1"),
        ("release: {require: [{all: 2, of: [A]}]}", "give either all or of"),
        ("release: {forbid: [{of: []}]}", r"release.forbid.0.of = \[\]: .*at least 1 item"),
        ("release: {on_conflict: ignore}", "release.on_conflict = 'ignore'"),
        ("release: {max_evaluations: 0}", "release.max_evaluations = 0"),
        ("release: {demand: nothing.csv}", "release.demand = 'nothing.csv': there is no file"),
        ("release: {demand: {A: 0.0}}", "release.demand"),
        ("release: {protect: suppression}", "protect is suppression, and nothing is required"),
        ("release: {protect: [{of: a*b}], method: simulatable}", "release.protect: suppression depends on the records"),
        ("release: {protect: [{of: a*b, by: rounding}]}", "by: rounding needs a base"),
        ("release: {protect: [{of: a*b, by: [suppression, suppression]}]}", "by lists a method twice"),
        ("release: {protect: [{of: a*b, by: suppression, merge: a}]}", "merge belongs to by: recod"),
        ("assessment: shrap", "assessment = 'shrap'.*'proven' or 'sharp'"),
        ("sharp_seconds: 0", "sharp_seconds = 0"),
        ("sharp_seconds: .nan", "sharp_seconds = nan"),
        ("assessment: proven\nsharp_seconds: 5", "sharp_seconds is given, and assessment is not sharp; set it"),
    ],
)
def test_faults_of_sections(file: Path, text: str, match: str) -> None:
    kept = [line for line in SMALLEST.splitlines() if not line.startswith(text.split()[0])]
    assert_refused(file, "\n".join([*kept, text]), match)


@pytest.mark.parametrize(
    ("limit", "more", "match"),
    [
        ("{}", "", "risk.posterior = {}: the posterior limit has no limit; give max_above, max_probability or"),
        ("{losses: {intruder: {none: 0.1}}}", "", "risk.posterior = .*: max_loss needs losses; give both or neither"),
        ("{losses: {intruder: {none: 0.1}}, max_loss: 1.0}", "", "risk.posterior = .*: max_loss = 1.0; give at least"),
        ("{losses: {intruder: {}}, max_loss: 0.1}", "", "risk.posterior.losses.intruder.none is missing; add it"),
        ("{losses: {intruder: {none: -0.1}}, max_loss: 0.1}", "", "risk.posterior.losses.intruder.none = -0.1:"),
        ("{losses: {intruder: {none: 0.000000001}}, max_loss: 0.1}", "", "risk.posterior.losses.intruder = .*: none"),
        ("{losses: {intruder: {none: 0.1}, agency: {right: 0}}, max_loss: 0.1}", "", "risk.posterior.losses.agency ="),
        ("{max_above: 1}", "", r"risk.posterior.max_above = 1: .*at least 0 and below 1"),
        ("{max_probability: 0.0}", "", r"risk.posterior.max_probability = 0.0: should be greater than 0 .*"),
        ("{threshold: 1.0, max_above: 0.1}", "", r"risk.posterior.threshold = 1.0: should be less than 1"),
        ("{law: uniform, max_above: 0.1}", "", r"risk.posterior.law = 'uniform': .*the one law that is exact of"),
        ("{max_above: 0.1}", "release: {method: best}", r"release.method = best with risk.posterior: a limit on the"),
        ("{max_above: 0.1}", "release: {method: decomposable}\nremedies: {}", r"release.method = decomposable with"),
    ],
)
def test_faults_of_limits_on_the_posterior(file: Path, limit: str, more: str, match: str) -> None:
    text = SMALLEST.replace("min_width: 3", f"min_width: 3, posterior: {limit}")
    assert_refused(file, text + more, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "build.yaml is empty, not a mapping; it has the keys name, table"),
        ("- name: a", "build.yaml is a list, not a mapping"),
        ("just words", "build.yaml is a str, not a mapping"),
    ],
)
def test_what_is_no_mapping(file: Path, text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        config_of(file, text)


def test_aliases_that_explode(file: Path) -> None:
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 100)]
    assert_refused(file, "\n".join(["a0: &a0 [x]", *lines]), "line 7, .*: more than 1000000 values, most of them by al")


@pytest.mark.parametrize("path", ["a\0b", "a" * 3000, "loop"], ids=["NUL", "long", "loop"])
def test_paths_that_cannot_be(path: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    Path("loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r" is no path here: .*; name another"):
        read_config(path)
    file.write_text(SMALLEST)
    with pytest.raises(ConfigError, match=r" is no path here: .*; name another"):
        open_build(file, path)
    for section in (f"output: {{folder: {path}}}", f"execution: {{cluster: {path}/x.yaml}}"):
        if "\0" not in path:
            assert_refused(file, SMALLEST + section, " is no path here: ")


def test_another_encoding(file: Path) -> None:
    file.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"cannot be read: .*give a YAML file in UTF-8"):
        read_config(file)


def test_a_file_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdc.config.file.MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match="/dev/zero cannot be read: it has more than 1000 bytes; give a YAML file"):
        read_config("/dev/zero")


@pytest.mark.parametrize(
    ("section", "match"),
    [
        (
            "proxy_header: X-User",
            "proxy_header = X-User: any program of this machine can send it; name in proxy_secret",
        ),
        ("proxy_secret: build.yaml", "proxy_secret: url is missing; give the address"),
        *(
            (f"url: '{url}'", r"server\.url = .*give scheme, name and port alone")
            for url in (
                "tables.example",
                "https://tables.example/sdc",
                "ftp://a",
                "https://me@a",
                "https://A",
                "https://",
            )
        ),
        ("rules: [{rule: kind}]", r"server\.rules\.0\.rule = 'kind' is unknown .*one_step"),
        ("rules: [{most: 1}]", r"server\.rules\.0\.rule is missing; add rule .*one_step"),
        ("rules: [{rule: limit_unreleasable}]", "it has no limit and would refuse nothing; give most or share"),
        ("rules: [{rule: batch}, {rule: batch}]", "the rule batch is listed twice"),
        ("rules: [{rule: share, most: 1}]", "most = 1"),
        ("rules: [{rule: value, least: 1.0}, {rule: simulatable}]", "the rule value looks at the confidential table"),
        ("rules: [{rule: simulatable}, {rule: batch}]", "the rule batch looks at the confidential table"),
        ("users: [{name: a}, {name: a}]", "the user a is listed twice"),
        ("users: [{name: public}]", "this name stands for everybody without a key"),
        ("users: [{name: a, role: king}]", "user, operator or auditor"),
        ("limits: {cells: 0}", r"limits\.cells = 0"),
        ("slot: -1", r"slot = -1"),
        ("slots: 1", "slots"),
    ],
)
def test_faults_of_a_server(file: Path, section: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        config_of(file, SMALLEST + f"server: {{{section}}}")


def test_no_tables_are_drawn_for_a_server_where_there_are_structural_zeros(file: Path) -> None:
    (file.parent / "zeros.yaml").touch()
    text = SMALLEST.replace("t.csv", "t, structural_zeros: zeros.yaml") + "server: {rules: [{rule: simulatable}]}"
    with pytest.raises(ConfigError, match=r"table\.structural_zeros with server\.rules = simulatable: a draw may"):
        config_of(file, text)
