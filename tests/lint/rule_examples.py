"""Code in C, Python, JavaScript or Go in the documentation is an exact part of a file in examples/, or in the examples of a library in handlers/.
Tests build and run these files (examples/test_examples.py, tests/system/test_examples.py, tests/languages), so the documented
code is tested."""

import re

_FENCE = re.compile(r"^```(\w*)$")
LANGUAGES = {"c": ".c", "python": ".py", "js": ".js", "go": ".go"}


def problems(tree):
    for path in ("README.md", "docs/handlers.md"):
        for number, language, block in _blocks(tree, path):
            suffix = LANGUAGES.get(language)
            if suffix and not any(block in tree.text(file) for file in tree.paths(f"examples/*{suffix}", f"handlers/*/examples/*{suffix}")):
                yield path, number, "shows what is not in this form in any file of examples/ or of handlers/*/examples/"


def _blocks(tree, path):
    """(number of the first line, language, text) of each fenced block."""
    start, language, lines = 0, None, []
    for number, line in tree.lines(path):
        fence = _FENCE.match(line.rstrip("\n"))
        if fence and language is None:
            start, language, lines = number, fence[1], []
        elif fence:
            yield start, language, "".join(lines)
            language = None
        else:
            lines.append(line.rstrip("\n") + "\n")
