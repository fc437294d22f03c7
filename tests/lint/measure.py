#!/usr/bin/env python3
"""Measures the shape of src/, for a comparison over time: tests/lint/measure.py [DIRECTORY…] prints a column each.

Relies on the format that clang-format enforces. A call is the name of a function of src/ in the body of
another one; a public function is one that is not static; a call circle is a set of .c files of which each
calls, directly or not, each other.

The statements of a function are its semicolons, without the two in the head of a `for`, and its words `if`, `for`,
`while` and `switch`. A declaration counts; a label, an `else` and a block do not. The files of a commit are the .c
and .h files that it changes, tests included, in the last commits (--commits) that change one of them.
"""

import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from rule_functions import _NAME, _functions  # noqa: E402

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_STRUCT = re.compile(r"^(?:static )?(?:const )?struct (\w+) \{$(.*?)^\}", re.S | re.M)
_FIELD = re.compile(r"[^;{}]+;")
_LETTER = re.compile(r"'(?:\\.|[^'\\])'")
_HEAD = re.compile(r"\b(if|for|while|switch) \(")


class Function:
    def __init__(self, path, lines, start, body, end):
        signature = " ".join(lines[start:body])
        match = _NAME.search(signature)
        self.path = path
        self.name = match[1] if match else None
        self.static = signature.startswith("static")
        self.lines = end - start + 1
        self.frame = body - start + 2  # the lines of the signature and of both braces
        text = _LETTER.sub("0", _TEXT.sub('""', _COMMENT.sub("", "\n".join(lines[body:end]))))
        heads = _HEAD.findall(text)
        self.statements = text.count(";") - 2 * heads.count("for") + len(heads)
        self.words = collections.Counter(_WORD.findall(text))


def functions_of(path, text):
    lines = text.splitlines()
    found = [Function(path, lines, *where) for where in _functions(lines)]
    return [one for one in found if one.name]


def comment_lines(text):
    return sum(match[0].count("\n") + 1 for match in _COMMENT.finditer(text))


def fields(text):
    """{name of a struct: number of its fields}."""
    plain = _COMMENT.sub("", text)
    return {name: len(_FIELD.findall(body)) for name, body in _STRUCT.findall(plain)}


def circles(edges):
    """Strongly connected sets of more than one file (Tarjan)."""
    order, low, stack, found, on = {}, {}, [], [], set()

    def visit(file):
        order[file] = low[file] = len(order)
        stack.append(file)
        on.add(file)
        for other in sorted(edges[file]):
            if other not in order:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in on:
                low[file] = min(low[file], order[other])
        if low[file] == order[file]:
            component = []
            while not component or component[-1] != file:
                component.append(stack.pop())
                on.discard(component[-1])
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10000)
    for file in sorted(edges):
        if file not in order:
            visit(file)
    return sorted(found, key=len, reverse=True)


def call_edges(functions):
    """Which .c file calls which, by the names of public functions."""
    homes = {one.name: one.path for one in functions if not one.static}
    edges = {one.path: set() for one in functions}
    for one in functions:
        edges[one.path] |= {homes[word] for word in one.words if word in homes} - {one.path}
    return edges


def quantiles(values):
    """"median / p75 / p90" of some numbers."""
    ordered = sorted(values)
    return " / ".join(str(ordered[int(len(ordered) * part)]) for part in (0.5, 0.75, 0.9)) if ordered else "-"


def commit_sizes(root, commits):
    """The number of .c and .h files in each of the last commits that change one of them."""
    log = subprocess.run(["git", "log", "--no-merges", "-n", str(commits), "--format=%x00", "--name-only", "--", "*.c", "*.h"],
                         cwd=root, check=False, capture_output=True, text=True).stdout
    return [len(one.split()) for one in log.split("\0")[1:]]


def measure(root, commits):
    texts = {str(path.relative_to(root)): path.read_text(encoding="utf-8")
             for path in sorted(root.glob("src/**/*.[ch]"))}
    functions = [one for path, text in texts.items() if path.endswith(".c") for one in functions_of(path, text)]
    sizes = sorted(one.lines for one in functions)
    used = collections.Counter()
    users = collections.defaultdict(set)
    for one in functions:
        for word, times in one.words.items():
            used[one.path, word] += times
            users[word].add(one.path)
    public = [one for one in functions if not one.static]
    elsewhere = [len(users[one.name] - {one.path}) for one in public]
    crumbs = [one for one in functions if one.static and one.lines <= 12 and used[one.path, one.name] == 1]
    includes = collections.Counter(match for path, text in texts.items()
                                   for match in re.findall(r'#include "([^"]+)"', text)
                                   if path.removesuffix(".c") != "src/" + match.removesuffix(".h"))
    headers = [path for path in texts if path.endswith(".h")]
    lines = sum(text.count("\n") for text in texts.values())
    comments = sum(comment_lines(text) for text in texts.values())
    blank = sum(1 for text in texts.values() for line in text.splitlines() if not line.strip())
    rooms = collections.Counter(str(pathlib.PurePath(path).parent) for path in texts)
    largest = max(((count, name) for text in texts.values() for name, count in fields(text).items()), default=(0, "-"))
    rounds = circles(call_edges(functions))
    return {
        "lines / code lines": f"{lines} / {lines - comments - blank}",
        ".c / .h files": f"{len(texts) - len(headers)} / {len(headers)}",
        "functions; lines median / p90 / max":
            f"{len(sizes)}; {statistics.median(sizes):g} / {sizes[len(sizes) * 9 // 10]} / {sizes[-1]}",
        "statements a function": f"{statistics.mean(one.statements for one in functions):.1f}",
        "signatures and braces, of the lines in functions":
            f"{100 * sum(one.frame for one in functions) / sum(sizes):.0f} %",
        "static, used once, at most 12 lines": str(len(crumbs)),
        "public functions (with one user elsewhere)": f"{len(public)} ({sum(count == 1 for count in elsewhere)})",
        "headers with one user": str(sum(includes[path.removeprefix("src/")] <= 1 for path in headers)),
        "comment lines": f"{100 * comments / lines:.0f} %",
        "files in the largest room": "{1} ({0})".format(*rooms.most_common(1)[0]),
        "call circles (files in the largest)": f"{len(rounds)} ({len(rounds[0]) if rounds else 0})",
        "fields of the largest struct": f"{largest[0]} ({largest[1]})",
        f".c/.h files a commit (last {commits}): median / p75 / p90": quantiles(commit_sizes(root, commits)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("directories", nargs="*", type=pathlib.Path, metavar="DIRECTORY",
                        default=[pathlib.Path(__file__).resolve().parents[2]])
    parser.add_argument("--commits", type=int, default=100, help="count the files of the last N commits", metavar="N")
    options = parser.parse_args()
    columns = [measure(root, options.commits) for root in options.directories]
    width = max(map(len, columns[0]))
    for name in columns[0]:
        print(f"{name:<{width}}  " + "  ".join(f"{column[name]:<24}" for column in columns).rstrip())


if __name__ == "__main__":
    main()
