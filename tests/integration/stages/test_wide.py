"""A build of more variables than can be listed: a floor is chosen, said, and what goes out is verified."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdc.executor import IN_PROCESS
from sdc.model import subtable as st
from sdc.stages.build import Build, open_build
from sdc.stages.stages import run_all
from sdc.stages.verified import verify_run
from tests.helpers.builds import document_of, report_of, written
from tests.wide import wide_table

VARIABLES, RECORDS, MOST = 24, 300, 400


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Build, list[str]]:
    folder = tmp_path_factory.mktemp("wide")
    table = wide_table(VARIABLES, RECORDS, 3)
    records = np.repeat(table.codes, table.counts, axis=0)
    columns = {name: records[:, v].astype(str) for v, name in enumerate(table.schema.names)}
    pq.write_table(pa.table(columns), folder / "wide.parquet")
    table, widths = {"path": "wide.parquet"}, {"most": MOST}
    file = written(folder, table=table, risk={"min_width": 3}, widths=widths, release={"max_evaluations": 12})
    build, said = open_build(file), list[str]()
    run_all(build, IN_PROCESS, said.append)
    return build, said


def test_the_floor_is_chosen_and_said(built: tuple[Build, list[str]]) -> None:
    build, said = built
    widths, cut = build.made.widths, build.made.widths.cut(3)
    assert len(widths) <= MOST
    assert f"widths: {cut}" in said
    page = report_of(build)
    assert f"{cut}; the search evaluated none of the others." in page
    assert f": {cut}. No width of any other is listed." in page
    assert document_of(build, "search", "search.json")["reason"].startswith(cut)


def test_what_goes_out_is_on_the_list_and_verified(built: tuple[Build, list[str]]) -> None:
    build, _ = built
    release, listed = build.made.found.release, set(build.made.widths.sub_tables.tolist())
    assert release.sub_tables(build.made.table.schema) > VARIABLES
    assert all(element in listed for element in release.frontier if st.dimension(element) > 1)
    assert verify_run(build.folder.path).verified
