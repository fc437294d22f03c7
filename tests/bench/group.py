"""A group of measurements that are shown in one table, and the one to compare the others with."""

import fnmatch
import typing

BEFORE = ", build before"  # behind the name of a measurement: the same with the inboxd that --before names


class Group(typing.NamedTuple):
    name: str
    title: str
    # The measurement that the others are compared with, and that is measured with them; None: there is none. A
    # function returns it for the name of a measurement.
    base: str | typing.Callable | None
    columns: list      # of report.py
    measurements: list  # (name, function(servers, options) -> result)
    rounds: int | None = None  # of a group that is only measured on request; None: --repeat rounds
    matrices: list = []    # of report.py
    comparisons: list = []  # (measurement, the measurement to compare it with)
    # (title, key of the results) of the columns of these comparisons, and of those with the build before.
    compared: list = [("rows/s", "rows_per_second"), ("inboxd µs", "inboxd_us"), ("PostgreSQL µs", "postgres_us")]

    def chosen(self, only):
        """The measurements that `only` selects with shell patterns for their name or the group's, and those they are
        compared with. If it is empty, all; but none of a group that is only measured on request."""
        patterns = only or ([] if self.rounds else ["*"])
        wanted = {name for name, _ in self.measurements
                  if any(fnmatch.fnmatchcase(text, pattern) for text in (self.name, name) for pattern in patterns)}
        wanted |= {self.base_of(name) for name in wanted}
        return [(name, run) for name, run in self.measurements if name in wanted]

    def base_of(self, name):
        return self.base(name) if callable(self.base) else self.base

    def names(self):
        return [self.name, *(name for name, _ in self.measurements)]


def add_ratios(group, results):
    """`ratio`: rows/s over those of the base, within one round."""
    for name, result in results.items():
        base = group.base_of(name.removesuffix(BEFORE))
        if name.endswith(BEFORE) and f"{base}{BEFORE}" in results:
            base += BEFORE
        if base in results and "rows_per_second" in result:
            result["ratio"] = result["rows_per_second"] / results[base]["rows_per_second"]
            result["ratio_to"] = base
