"""Old names do not come back: docs/glossary.md lists them beside the names in use. A name counts wherever it
stands as a word of its own or as a part of an identifier, in code, comments, log lines and file names.
"""

import re

GLOSSARY = "docs/glossary.md"
_TABLE = re.compile(r"^## Names that are not used$(.*?)(?=^## |\Z)", re.S | re.M)
_ROW = re.compile(r"^\| (\w+) \| (\w+) \|$", re.M)


def problems(tree):
    if not tree.has(GLOSSARY):
        return
    names = dict(old_names(tree.text(GLOSSARY)))
    if not names:
        yield GLOSSARY, 1, "has no table of names that are not used"
        return
    pattern = re.compile(r"(?<![A-Za-z])(%s)(?![A-Za-z])" % "|".join(names), re.I)
    for path in tree.paths("src/*", "include/*"):
        match = pattern.search(path)
        if match:
            yield path, 1, _words(match, names)
        for number, line in tree.lines(path):
            match = pattern.search(line)
            if match:
                yield path, number, _words(match, names)


def old_names(text):
    table = _TABLE.search(text)
    return _ROW.findall(table[1]) if table else []


def _words(match, names):
    return f'"{match[1]}" is {names[match[1].lower()]} (docs/glossary.md)'
