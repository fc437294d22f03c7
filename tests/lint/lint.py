#!/usr/bin/env python3
"""The rules of the source tree that no compiler checks.

Each rule_*.py has one function, `problems(tree)`, which yields (path, line, words). This program runs them over all
files that git knows or would add, and prints and counts the problems.
"""

import importlib
import pathlib
import sys

from tree import Tree

HERE = pathlib.Path(__file__).resolve().parent


def rules():
    return sorted(path.stem for path in HERE.glob("rule_*.py"))


def main():
    tree = Tree.of_repository(HERE.parents[1])
    total = 0
    for rule in rules():
        for path, line, words in importlib.import_module(rule).problems(tree):
            print(f"{path}:{line}: {words} [{rule}]")
            total += 1
    print(f"lint: {len(rules())} rules, {len(tree.paths())} files, {total} problems")
    return 1 if total else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
