"""One mutant: the smallest change that removes a rule from the sources, and the tests that must fail.

An edit quotes the piece of source that it replaces, and names no file: the piece is looked for in all sources, and white space does not
count. So a mutant stays as it is when a function moves, a file gets another name or a line is wrapped anew. If the piece occurs more
than once, or is short, `within` names the function, or the SQL file without `.sql`, in which it occurs once. Quote what the
rule needs and no more: each further name is one that a later commit may change. An edit to nothing also removes lines that are empty then.
"""

import dataclasses
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [f"{folder}/*.{ending}" for folder in ("examples", "handlers", "include", "sql", "src") for ending in ("c", "h", "py", "sql")]


@functools.cache
def sources():
    """{path: text} of the files that a mutant may change."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in sorted(filter(None, listed.split("\0")))
            if (ROOT / path).is_file()}


def squeeze(text):
    """The text without white space, except one space between two words."""
    return re.sub(r"(?<!\w) | (?!\w)", "", re.sub(r"\s+", " ", text))


@functools.cache
def squeezed(path):
    return squeeze(sources()[path])


@functools.cache
def pattern(piece):
    """Matches the piece with any white space."""
    return re.compile(r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", piece))))


def spans(name, path):
    """(start, end) of each function of that name in a file, or of the whole file if it is a statement of that name."""
    text = sources()[path]
    if path.endswith(f"/{name}.sql"):
        return [(0, len(text))]
    if name not in text:
        return []
    define = (rf"^CREATE OR REPLACE \w+ inbox\.{name}\b.*?(?=^CREATE |\Z)" if path.endswith(".sql") else
              rf"^\w[^;=\n]*\b{name}\([^;{{]*\)\n\{{\n.*?^\}}$")
    return [one.span() for one in re.finditer(define, text, re.M | re.S)]


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replaces the only place of `old` in the sources, or in what `within` names, by `new`."""

    old: str
    new: str
    within: str | None

    @functools.cached_property
    def places(self):
        """[(path, start, end)]"""
        words = squeeze(self.old)
        found = []
        for path in (path for path in sources() if words in squeezed(path)):
            parts = spans(self.within, path) if self.within else [(0, len(sources()[path]))]
            found += [(path, *one.span()) for part in parts for one in pattern(self.old).finditer(sources()[path], *part)]
        return found

    def lines(self):
        """["src/store/settle.c:12"]"""
        return [f"{path}:{sources()[path].count(chr(10), 0, start) + 1}" for path, start, _ in self.places]

    def misfit(self):
        """The reason why it cannot be applied, or None."""
        if len(self.places) > 1:
            return f"{self.old!r} is at {', '.join(self.lines())}; say within which function or statement, or quote more"
        if not self.places:
            return f"{self.old!r} is nowhere in {self.within or 'the sources'}"
        return f"{self.old!r} is replaced by itself" if squeeze(self.old) == squeeze(self.new) else None


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

    def places(self):
        return [line for change in self.edits for line in change.lines()]

    def changed(self):
        """{path: text} of the changed files."""
        texts = {}
        for path, start, end, new in sorted(((*one.places[0], one.new) for one in self.edits), reverse=True):
            text = texts.get(path, sources()[path])
            if not new and not lines_around(text, start, end).strip():
                start, end = text.rfind("\n", 0, start) + 1, text.find("\n", end) + 1
            texts[path] = text[:start] + new + text[end:]
        return texts


def lines_around(text, start, end):
    """What stands before and behind a piece in its first and its last line."""
    return text[text.rfind("\n", 0, start) + 1:start] + text[end:text.find("\n", end)]


def edit(old, new, *, within=None):
    return Edit(old, new, within)


def mutant(rule, takes_out, *edits, tests):
    return Mutant(rule, takes_out, edits, tuple(tests))
