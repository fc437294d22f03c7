"""docs/rules.md has each rule that the sources name, and the tests it names exist."""

import re

TABLE = "docs/rules.md"
_TEST = re.compile(r"`([a-z]+/test_\w+\.(?:py|c))::(\w+)`")
_NAMED = re.compile(r"\brules? ([IRO]\d+)\b")


def problems(tree):
    if not tree.has(TABLE):
        return
    rules = {}
    rule = None
    rows = set()
    for number, line in tree.lines(TABLE):
        heading = re.match(r"## ([IRO]\d+) ", line)
        if heading:
            rule = heading[1]
            if rule in rules:
                yield TABLE, number, f"has {rule} twice"
            rules[rule] = 0
        row = line.split(" | `")[0]
        if row in rows:
            yield TABLE, number, "has this row twice; a merge may have kept both versions"
        if " | `" in line:
            rows.add(row)
        for path, name in _TEST.findall(line):
            rules[rule] = rules.get(rule, 0) + 1
            if not _exists(tree, f"tests/{path}", name):
                yield TABLE, number, f"names {path}::{name}, which does not exist"
    for one, count in rules.items():
        if count == 0:
            yield TABLE, 1, f"{one} names no test"
    yield from _missing(tree, rules)


def _exists(tree, path, name):
    if not tree.has(path):
        return False
    define = rf"^def {name}\(" if path.endswith(".py") else rf"^static void {name}\("
    return re.search(define, tree.text(path), re.M) is not None


def _missing(tree, rules):
    for path in tree.paths("src/*.[ch]", "sql/*.sql"):
        for number, line in tree.lines(path):
            for rule in _NAMED.findall(line):
                if rule not in rules:
                    yield path, number, f"names rule {rule}, which {TABLE} does not have"
