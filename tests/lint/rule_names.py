"""A file that a comment in C names exists.

A name may be a whole path or its end: `admission.h`, `model/admission/admission.h`.
"""

import re

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.(?:c|h|sql|py|sh|md|in|yaml)\b(?!\()")
# Written by the build, of PostgreSQL, of the C library.
ELSEWHERE = {"queries.h", "numeric.c", "sysexits.h"}


def problems(tree):
    ends = {"/".join(parts[at:]) for parts in (path.split("/") for path in tree.paths()) for at in range(len(parts))}
    for path in tree.paths("src/*.[ch]", "include/*.h", "tools/*.[ch]", "tests/*.[ch]"):
        text = tree.text(path)
        for comment in COMMENT.finditer(text):
            for name in NAME.finditer(comment[0]):
                if name[0] not in ends | ELSEWHERE:
                    line = text.count("\n", 0, comment.start() + name.start()) + 1
                    yield path, line, f"a comment names {name[0]}, which does not exist"
