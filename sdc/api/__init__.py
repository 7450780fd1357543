"""The stable names of `import sdc`, but for `run`: functions, and the classes of what they take and give.

Functions take names and give values. The command line calls the same ones.
"""

from sdc.api.cells import (
    cell_bounds,
    decomposable_models,
    enumerate_tables,
    fit,
    posterior,
    sharp_bounds,
    super_cell_bounds,
    uniques,
)
from sdc.api.releases import assess, critical_widths, decide, find_release, publish, redesign, risk_utility_curve, why
from sdc.api.tables import check, magnitude_table, round, suppress
from sdc.data.reading import read_table, read_weights
from sdc.intruder.losses import Losses
from sdc.model.cell_bounds import CellBounds
from sdc.model.knowledge import Knowledge
from sdc.model.release import Release
from sdc.model.table import Table
from sdc.protect.magnitude import MagnitudeTable
from sdc.protect.one_table import Suppressed
from sdc.protect.rounding import Rounded
from sdc.public.incomplete import read_incomplete
from sdc.public.synthetic import synthesize
from sdc.record.ledger import ledger
from sdc.risk.asked import criteria
from sdc.risk.assessment import Assessment
from sdc.risk.attribute_disclosure import AttributeDisclosure
from sdc.risk.critical_width import CriticalWidths
from sdc.risk.posterior_limit import PosteriorLimit
from sdc.search.best import FoundRelease
from sdc.search.found import ReleasedTable
from sdc.stages.answers import attack
from sdc.stages.assemble import Watch
from sdc.stages.finished import compare, explore
from sdc.stages.release import PublishedFolder
from sdc.stages.resolved import knowledge
from sdc.stages.verified import verify_run
