"""One mutant: the sources with a rule taken out, as small as possible, and the tests that must notice."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Edit:
    """In this file `old`, which is there once, becomes `new`."""

    path: str
    old: str
    new: str

    def misfit(self):
        """Why it cannot be made, or None."""
        file = ROOT / self.path
        if not file.is_file():
            return f"there is no {self.path}"
        count = file.read_text(encoding="utf-8").count(self.old)
        return None if count == 1 else f"{self.path} has {self.old!r} {count} times, not once"


@dataclasses.dataclass(frozen=True)
class Mutant:
    rule: str      # "R7"
    takes_out: str  # what no longer holds, in words
    edits: tuple
    tests: tuple   # "sql/test_store_settle.c::name", "system/test_x.py::test_name", as in docs/rules.md

    @property
    def name(self):
        words = re.sub(r"[^a-z0-9]+", "-", self.takes_out.lower()).strip("-")
        return f"{self.rule}-{words}"

    def misfit(self):
        """Why it cannot be made of the sources as they are, or None."""
        return "; ".join(filter(None, (change.misfit() for change in self.edits))) or None


def edit(path, old, new):
    return Edit(path, old, new)


def mutant(rule, takes_out, *edits, tests):
    return Mutant(rule, takes_out, edits, tuple(tests))
