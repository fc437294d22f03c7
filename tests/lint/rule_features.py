"""The table of docs/handlers.md about the libraries side by side has a cell for each library, and names only what this library has."""

import re

TABLE = "docs/handlers.md"
_HEADING = "| feature |"
# Names of the languages and their libraries.
_FOREIGN = {"CancelledError", "AbortSignal", "context.Context", "database/sql"}
# A name is called, is behind a dot, names an argument, begins with a capital letter, or is alone.
_NAME = re.compile(r"(?<=\.)\w+|\b[A-Za-z_]\w*(?=[(=:])|\b[A-Z]\w+|^\w+$")
# Column: where the library is, and the forms of a definition.
_SOURCES = {
    "C": (("include/inboxd/handler.h",), (r"^INBOX_API .*\b{0}\(", r"^\t[^(]*\b{0};")),
    "Python": (("handlers/python/src/*.py",), (r"^\s*(?:async )?(?:def|class) {0}\b", r"^\s+(?:self\.)?{0}(?::|\s=)")),
    "Node.js": (("handlers/node/src/*.ts",), (r"\b(?:class|interface|function) {0}\b", r"^  (?:async |get |static |readonly )*{0}\??[(<:]")),
    "Go": (("handlers/go/*.go",), (r"^func (?:\([^)]*\) )?{0}[\[(]", r"^type {0}\b", r"^\t{0} +\S")),
    "Java": (("handlers/java/src/main/*.java",), (r"\b(?:class|interface|record|enum) {0}\b", r"^\s+(?:public|static)\b[^;={{}}()]*\b{0}\(",
                                                  r"\brecord \w+\([^{{]*\b{0}[,)]")),
}


def problems(tree):
    if not tree.has(TABLE):
        return
    for number, languages, cells in _rows(tree):
        if len(cells) != len(languages):
            yield TABLE, number, f"has {len(cells)} cells for {len(languages)} libraries"
        for language, cell in zip(languages, cells):
            for name in sorted(_names(cell)):
                if not _is_defined(tree, language, name):
                    yield TABLE, number, f"names {name}, which the library for {language} does not have"


def _rows(tree):
    """(number, languages, cells without the feature) of the rows below the heading."""
    languages = None
    for number, line in tree.lines(TABLE):
        cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
        if line.startswith(_HEADING):
            languages = cells
        elif languages and not line.startswith("|"):
            return
        elif languages and not line.startswith("|-"):
            yield number, languages, cells


def _names(cell):
    spans = set(re.findall(r"`([^`]+)`", cell)) - _FOREIGN
    return {name for span in spans for name in _NAME.findall(span)}


def _is_defined(tree, language, name):
    files, forms = _SOURCES[language]
    form = re.compile("|".join(one.format(name) for one in forms), re.M)
    return any(form.search(tree.text(path)) for path in tree.paths(*files) if not path.endswith("_test.go"))
