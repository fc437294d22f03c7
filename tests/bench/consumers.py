"""What consumers cost: nothing without the section `consumers`, and for each row of a second consumer as much as for one
of the first.

"two consumers" reads half of the records, so that as many rows are stored and processed as in the other measurements.
"""

import functools

import endtoend
import report
from group import Group
from records import Shape

BASE = "no consumers"


def _measure(servers, options, *, names=()):
    shape = Shape(options.messages // max(1, len(names)))
    return endtoend.measure(servers, endtoend.Scenario(
        shape, configuration={"consumers": {name: {} for name in names}} if names else {}))


GROUP = Group(
    "consumers", "ordering key; 400 B, 10 % duplicates, 4 partitions; a row is a message of one consumer", BASE,
    [report.column("records", "records", "{:,}"), report.RATE, report.RATIO, *report.COSTS, *report.BATCHES, *report.PATHS,
     report.PEAK],
    [(BASE, _measure),
     ("one consumer", functools.partial(_measure, names=("billing",))),
     ("two consumers", functools.partial(_measure, names=("billing", "search")))])
