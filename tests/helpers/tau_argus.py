"""Batches of tau-ARGUS with invented data: the statements are those of examples in public manuals."""

from pathlib import Path

import numpy as np

README = """\
<OPENMICRODATA> "tau_testW.asc"
<OPENMETADATA>  "tau_testW.rda"
<SPECIFYTABLE>  "Size""Region"|"Var2"||
<SAFETYRULE>    NK(2,75)|NK(0,0)
<READMICRODATA>
<SUPPRESS>      MOD(1)
<WRITETABLE>    (1,3,AS-,"safe-table.txt")
"""
"""The quick start of pytauargus 0.6.0: a table of sums under a dominance rule."""

FREQUENCIES = """\
// counts with a hierarchy, as in the documentation of rtauargus
<OPENMICRODATA> "tau_testW.asc"
<OPENMETADATA>  "tau_testW.rda"
<SPECIFYTABLE>  "Region""Size"|"<freq>"||
<SAFETYRULE>    FREQ(4,25)|ZERO(10)
<READMICRODATA>
<SUPPRESS>      GH(1,100)
<WRITETABLE>    (1,1,,"counts.csv")
"""

MANUAL = """\
<LOGBOOK>       "log.txt"
<OPENMICRODATA> "C:\\data\\tau_testW.asc"
<OPENMETADATA>  "C:\\data\\tau_testW.rda"
<SPECIFYTABLE>  "Size""GK"|"Var2"|"Var2"|"Var2"
<SAFETYRULE>    P(15,1)|FREQ(3,30)
<SPECIFYTABLE>  "Size""GK"|"<freq>"||"-2"
<SAFETYRULE>    FREQ(3,20)|WGT(0)
<READMICRODATA>
<SUPPRESS>      OPT(1,5)
<SUPPRESS>      OPT(2,5)
<WRITETABLE>    (1,1,AS+,"sums.csv")
<WRITETABLE>    (2,1,AS+,"counts.csv")
<SOLVER>        FREE
"""
"""Two tables, of sums and of counts, with the statements of the batch chapter of the manual of tau-ARGUS 4.2."""

BATCHES = {"readme": README, "frequencies": FREQUENCIES, "manual": MANUAL}

METADATA = """\
Size 1 2 99
  <RECODEABLE>
  <TOTCODE> "Total"
Region 4 2
  <RECODEABLE>
  <TOTCODE> "Total"
  <HIERARCHICAL>
  <HIERCODELIST> "region.hrc"
  <HIERLEADSTRING> "@"
GK 7 3
  <RECODEABLE>
  <TOTCODE> "Total"
  <HIERARCHICAL>
  <HIERLEVELS> 1 1 1
Var2 11 5
  <NUMERIC>
One 17 1
  <NUMERIC>
"""
HIERARCHY = {"N": ("N1", "N2", "N3"), "S": ("S1", "S2"), "W": ("W1", "W2", "W3")}


def batch(folder: Path, name: str) -> Path:
    """The batch with its files in the folder; the data are drawn alike each time."""
    rng = np.random.default_rng(8)
    regions = [area for areas in HIERARCHY.values() for area in areas]
    lines = []
    for _ in range(220):
        size = ("1", "2", "3", "04")[min(int(rng.geometric(0.5)) - 1, 3)]
        region = regions[min(int(rng.geometric(0.25)) - 1, len(regions) - 1)]
        gk = f"{rng.integers(1, 3)}{rng.integers(1, 3)}{rng.integers(1, 4)}"
        lines.append(f"{size:>2} {region:>2} {gk:>3} {int(rng.lognormal(5, 1.4)) + 1:>5} 1")
    (folder / "tau_testW.asc").write_text("\n".join(lines) + "\n")
    (folder / "tau_testW.rda").write_text(METADATA)
    tree = [line for level, areas in HIERARCHY.items() for line in (level, *(f"@{area}" for area in areas))]
    (folder / "region.hrc").write_text("\n".join(tree) + "\n")
    (folder / f"{name}.arb").write_text(BATCHES[name])
    return folder / f"{name}.arb"
