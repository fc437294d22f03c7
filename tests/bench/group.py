"""A group of measurements that are shown in one table, and the one to compare the others with."""

import typing


class Group(typing.NamedTuple):
    name: str
    title: str
    base: str | None   # measured whenever another one of the group is; None: nothing to compare with
    columns: list      # of report.py
    measurements: list  # (name, function(servers, options) -> result)

    def chosen(self, only):
        """The measurements that `only` selects, by their name or the group's; all if it is empty."""
        if not only or self.name in only:
            return self.measurements
        wanted = [(name, run) for name, run in self.measurements if name in only]
        base = [(name, run) for name, run in self.measurements if wanted and name == self.base]
        return base + [entry for entry in wanted if entry not in base]

    def names(self):
        return [self.name, *(name for name, _ in self.measurements)]


def add_ratios(results, base):
    """`ratio`: rows/s over those of the base, within one round."""
    for result in results.values():
        if base in results and "rows_per_second" in result:
            result["ratio"] = result["rows_per_second"] / results[base]["rows_per_second"]
            result["ratio_to"] = base
