"""Forbidden text: goto, typedefs of structs, unbounded string calls, notes for later, directories of one machine. Every
C file starts with a comment about its purpose; for a .c file it can be in the header of the same name. docs/handlers.md
explains the minimal example.
"""

import re

_LATER = "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX"))
_MACHINE = "|".join(("/wo" + "rk/", "/ro" + r"ot/\w", r"/ho" + r"me/\w"))

IN_CODE = [
    (re.compile(r"^\s+goto\b"), "no goto: the cleanup attribute does it"),
    (re.compile(r"^\s*typedef\s+(struct|union|enum)\b"), "no typedef for structs, unions, enums"),
]
# Tests may use them, because their input is known.
IN_SHIPPED_CODE = [
    (re.compile(r"\b(sprintf|vsprintf|strcpy|strcat|gets|strtok|atoi|atol|alloca)\s*\("),
     "unbounded or silent: use its checked relative"),
]
EVERYWHERE = [
    (re.compile(rf"\b({_LATER})\b"), "finish it or leave it out"),
    (re.compile(rf"(^|[\s\"'=(:])({_MACHINE})"), "a directory of one machine"),
]


def problems(tree):
    for path in tree.paths():
        rules = list(EVERYWHERE)
        if path.endswith((".c", ".h")):
            rules += IN_CODE
            rules += [] if path.startswith("tests/") else IN_SHIPPED_CODE
            yield from _opening(path, tree)
        for number, line in tree.lines(path):
            yield from ((path, number, words) for pattern, words in rules if pattern.search(line))
            if line != line.rstrip() and not path.endswith(".md"):
                yield path, number, "trailing white space"


def _opening(path, tree):
    if path == "examples/minimal.c" or path.endswith(".c") and tree.has(path[:-1] + "h"):
        return
    if not tree.text(path).lstrip().startswith("/*"):
        yield path, 1, "a file opens with its story: what for, what it promises"
