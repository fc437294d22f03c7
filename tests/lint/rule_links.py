"""Links between documents lead to an existing file and to an existing heading."""

import posixpath
import re

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)


def problems(tree):
    for path in tree.paths("*.md"):
        for number, line in tree.lines(path):
            for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if not re.match(r"[a-z]+:", target):
                    yield from ((path, number, words) for words in _wrong(tree, path, target))


def _wrong(tree, path, target):
    name, _, anchor = target.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
    if not tree.has(file):
        if not tree.paths(f"{file}/*"):
            yield f"leads to {file}, which does not exist"
    elif anchor and anchor not in _anchors(tree.text(file)):
        yield f"leads to #{anchor} of {file}, which has no such heading"


def _anchors(text):
    """Anchors of headings: lower case, dashes for blanks, no punctuation."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in _HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}
