"""One mutant: the smallest change that removes a rule from the sources, and the tests that must fail."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replaces `old`, which must occur once in the file, by `new`."""

    path: str
    old: str
    new: str

    def misfit(self):
        """The reason why it cannot be applied, or None."""
        file = ROOT / self.path
        if not file.is_file():
            return f"there is no {self.path}"
        count = file.read_text(encoding="utf-8").count(self.old)
        return None if count == 1 else f"{self.path} has {self.old!r} {count} times, not once"


@dataclasses.dataclass(frozen=True)
class Mutant:
    rule: str      # "R7"
    takes_out: str  # what the changed program does
    edits: tuple
    tests: tuple   # "sql/test_store_settle.c::name", "system/test_x.py::test_name", as in docs/rules.md

    @property
    def name(self):
        words = re.sub(r"[^a-z0-9]+", "-", self.takes_out.lower()).strip("-")
        return f"{self.rule}-{words}"

    def misfit(self):
        """The reason why it cannot be applied to the current sources, or None."""
        return "; ".join(filter(None, (change.misfit() for change in self.edits))) or None


def edit(path, old, new):
    return Edit(path, old, new)


def mutant(rule, takes_out, *edits, tests):
    return Mutant(rule, takes_out, edits, tuple(tests))
