"""The floor and the whole way from Kafka to a handler: the limit of PostgreSQL, and the rate of inboxd."""

import functools

import endtoend
import floor
import report
from group import Group
from records import REPEATS_OF, Shape

# Name, ordering, batch of the handler, share of the messages. One message of a partition at a time is
# bound by round trips, not by throughput.
SCENARIOS = [("key", "key", 1, 1), ("key, batch 100", "key", 100, 1),
             ("none", "none", 1, 1), ("none, batch 100", "none", 100, 1),
             ("partition", "partition", 1, 0.1)]
# Name, how, connections, one record in how many repeats an earlier one. COPY takes no repetition, and two
# connections would wait for each other's.
FLOORS = [("floor", "insert", 1, REPEATS_OF), ("floor, 2 connections", "insert", 2, 0),
          ("COPY", "copy", 1, 0)]


def _floor(servers, options, *, how, connections, repeats_of):
    return floor.measure(servers, options.messages, how, connections, repeats_of)


def _endtoend(servers, options, *, ordering, batch, share):
    return endtoend.measure(servers, endtoend.Scenario(Shape(int(options.messages * share)),
                                                       ordering=ordering, batch=batch))


GROUP = Group(
    "throughput", "400 B, 4 partitions, every tenth record repeats an earlier one", "floor",
    [report.RATE, report.RECORDS, report.RATIO, *report.COSTS, *report.BATCHES, *report.PATHS,
     report.PEAK],
    [(name, functools.partial(_floor, how=how, connections=connections, repeats_of=repeats_of))
     for name, how, connections, repeats_of in FLOORS]
    + [(name, functools.partial(_endtoend, ordering=ordering, batch=batch, share=share))
       for name, ordering, batch, share in SCENARIOS])
