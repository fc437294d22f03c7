"""Code in C, Python, JavaScript, Go or Java in the documentation is an exact part of a file in examples/, or in the examples of a library
in handlers/. A method of a Java class is indented there. Tests build and run these files (examples/test_examples.py,
tests/system/test_examples.py, tests/languages), so the documented code is tested."""

import re
import textwrap

_FENCE = re.compile(r"^```(\w*)$")
LANGUAGES = {"c": ".c", "python": ".py", "js": ".js", "go": ".go", "java": ".java"}


def problems(tree):
    for path in tree.paths("README.md", "docs/handlers.md", "docs/schema-registry.md"):
        for number, language, block in _blocks(tree, path):
            suffix = LANGUAGES.get(language)
            forms = [block, textwrap.indent(block, "    ")] if language == "java" else [block]
            files = tree.paths(f"examples/*{suffix}", f"handlers/*/examples/*{suffix}")
            if suffix and not any(form in tree.text(file) for form in forms for file in files):
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
