"""Other messages, other topics, more sidecars, each compared with the usual shape."""

import functools

import endtoend
import floor
import report
from group import Group
from records import Shape

BASE = "400 B"
# Few of the large ones: their bytes decide, and a topic holds them all.
PAYLOADS = [("100 B", 100, 1), ("4 KiB", 4096, 10), ("64 KiB", 65536, 100)]


def _measure(servers, options, *, share=1, instances=1, **shape):
    return endtoend.measure(servers, endtoend.Scenario(Shape(options.messages // share, **shape),
                                                       instances=instances))


def _all_known(servers, options):
    """The table has every message already, processed; the topic is read anyway."""
    shape = Shape(options.messages)
    return endtoend.measure(servers, endtoend.Scenario(
        shape, known=True,
        configuration={"topics": {shape.topic(): {"source": ["literal:bench"]}}},
        prepare=lambda connection: floor.fill(servers, connection, shape.distinct(),
                                              floor.PROCESSED)))


def _with(**scenario):
    return functools.partial(_measure, **scenario)


GROUP = Group(
    "shapes", "ordering key; unless the name says otherwise 400 B, 10 % duplicates, 4 partitions,"
    " 1 instance; peak MiB is that of one instance", BASE,
    [report.column("records", "records", "{:,}"), report.RATE, report.RECORDS, report.RATIO,
     report.column("payload MB/s", "payload_bytes_per_second", "{:.1f}", 1e-6), *report.COSTS,
     *report.BATCHES, *report.PATHS, report.PEAK],
    [(BASE, _with())]
    + [(name, _with(payload=size, share=share)) for name, size, share in PAYLOADS]
    + [("100 % duplicates", _all_known),
       ("1 partition", _with(partitions=1)), ("32 partitions", _with(partitions=32)),
       ("4 instances", _with(instances=4))])
