"""A function has at most 60 lines and 5 parameters, a source file at most 800 lines.

Relies on the format that clang-format enforces: a definition's braces stand alone in column 0.
Constant tables inside a function do not count as its lines, so main() of a test program may list many tests.
"""

import re

MOST_LINES = 60
MOST_PARAMETERS = 5
MOST_LINES_A_FILE = 800
_TABLE = re.compile(r"^\t(static const\b.*|const .*\] =) \{$")
# Callbacks whose parameters a library defines.
_PRESCRIBED = {"on_certificate"}
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")


def problems(tree):
    for path in tree.paths("*.c", "*.h"):
        lines = tree.text(path).splitlines()
        if len(lines) > MOST_LINES_A_FILE and not path.startswith("tests/"):
            yield path, 1, (f"{len(lines)} lines; beyond {MOST_LINES_A_FILE}"
                            " there is a second subject in it")
        for start, body, end in _functions(lines):
            yield from _check(path, lines, start, body, end)


def _check(path, lines, start, body, end):
    signature = " ".join(lines[start:body])
    name = _NAME.search(signature)
    if not name:
        return
    size = end - start + 1 - _table_lines(lines[body:end])
    if size > MOST_LINES:
        yield path, start + 1, f"{name[1]}() has {size} lines; {MOST_LINES} are the limit"
    count = _parameters(signature[name.end():])
    if count > MOST_PARAMETERS and name[1] not in _PRESCRIBED:
        yield path, start + 1, f"{name[1]}() takes {count} parameters; make a struct of them"


def _functions(lines):
    """(first line of the signature, line of {, line of }) of every definition, from 0."""
    body = None
    for number, line in enumerate(lines):
        if line == "{":
            body = number
        elif line == "}" and body is not None:
            yield _signature_start(lines, body), body, number
            body = None


def _signature_start(lines, body):
    start = body - 1
    while start > 0 and lines[start][:1] in ("\t", " "):
        start -= 1
    return start


def _table_lines(lines):
    count, inside = 0, False
    for line in lines:
        inside = inside or bool(_TABLE.match(line))
        count += inside
        if line == "\t};":
            inside = False
    return count


def _parameters(text):
    """Number of parameters in `text`, which begins after the opening parenthesis."""
    depth, commas = 1, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        commas += letter == "," and depth == 1
        if depth == 0:
            inside = text[:position].strip()
            return 0 if inside in ("", "void") else commas + 1
    return commas + 1
