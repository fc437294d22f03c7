"""Old names do not come back: docs/glossary.md lists them beside the names in use. A name counts wherever it
stands as a word of its own or as a part of an identifier, in code, comments, log lines and file names.

Tests, SQL and documents may use it as data: alone in quotes or backticks, for example the event type `mail`. CHANGELOG.md
describes earlier versions and is not checked. Some names are ordinary words, so only code may not use them.
"""

import re

GLOSSARY = "docs/glossary.md"
_CODE = ("src/*", "include/*")
_OTHERS = ("tests/*", "sql/*", "docs/*", "deploy/*", "examples/*", "tools/*", "*.md")
_NOT_CHECKED = (GLOSSARY, "CHANGELOG.md", "tests/lint/", "tests/fuzz/corpus/")
_ORDINARY = {"mail"}
_TABLE = re.compile(r"^## Names that are not used$(.*?)(?=^## |\Z)", re.S | re.M)
_ROW = re.compile(r"^\| (\w+) \| (\w+) \|$", re.M)
_DATA = re.compile(r"([\"'`])\w+\1")


def problems(tree):
    if not tree.has(GLOSSARY):
        return
    names = dict(old_names(tree.text(GLOSSARY)))
    if not names:
        yield GLOSSARY, 1, "has no table of names that are not used"
        return
    yield from _found(tree, tree.paths(*_CODE), names, lambda line: line)
    others = [path for path in tree.paths(*_OTHERS)
              if path not in tree.paths(*_CODE) and not path.startswith(_NOT_CHECKED)]
    ordinary = {old: new for old, new in names.items() if old not in _ORDINARY}
    yield from _found(tree, others, ordinary, lambda line: _DATA.sub("", line))


def _found(tree, paths, names, strip):
    pattern = re.compile(r"(?<![A-Za-z])(%s)(?![A-Za-z])" % "|".join(names), re.I)
    for path in paths:
        match = pattern.search(path)
        if match:
            yield path, 1, _words(match, names)
        for number, line in tree.lines(path):
            match = pattern.search(strip(line))
            if match:
                yield path, number, _words(match, names)


def old_names(text):
    table = _TABLE.search(text)
    return _ROW.findall(table[1]) if table else []


def _words(match, names):
    return f'"{match[1]}" is {names[match[1].lower()]} (docs/glossary.md)'
