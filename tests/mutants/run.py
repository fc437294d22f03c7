#!/usr/bin/env python3
"""Removes each rule from a copy of the sources, builds the copy, runs the tests of the rule, and expects one of them to
fail. A mutant that survives shows that a test is missing.

    tests/mutants/run.py [--list] [WORD…]    only mutants whose name has one of the words, e.g. R12, or that change
                                             a file whose path has it, e.g. store/batches

First all named tests must pass with the unchanged sources. The copy and its build have their own directory; PostgreSQL
and Kafka are started once for all mutants.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from mutants import ALL  # noqa: E402
from mutants.mutant import ROOT, sources  # noqa: E402
from support.kafka import Kafka  # noqa: E402
from support.postgres import Postgres  # noqa: E402

TEST_SECONDS = 200


class Copy:
    """A copy of the sources in its own directory, built with fault points."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory) / "tree"
        self.build = self.root / "build"
        sources()  # the mutants change and restore what is copied here, even if the tree is edited during the run
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for path in filter(None, listed.split("\0")):
            if (ROOT / path).is_file():
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, self.root / path, follow_symlinks=False)
        for name in (".venv", ".cache"):
            if (ROOT / name).exists():
                (self.root / name).symlink_to(ROOT / name)
        self._call("meson", "setup", "build", "-Dfaultpoints=true", "-Dwerror=false",
                   "-Dbuildtype=debug", env={**os.environ, "CC": "gcc"})

    def compile(self, tests):
        """Builds what these tests need. Returns None or the output of the compiler."""
        files = {name.split("::")[0] for name in tests}
        targets = [f"tests/{file.removesuffix('.c')}" for file in files if file.endswith(".c")]
        if any(not file.startswith(("sql/", "unit/")) or file == "sql/test_migrations.py" for file in files):
            targets += ["src/inboxd", "tests/sql/inboxd-next"]
        if any("test_examples" in file for file in files):
            targets.append("examples/exactly_once")
        if not targets:
            return None
        done = self._call("ninja", "-C", "build", "-j2", *targets, check=False)
        return None if done.returncode == 0 else done.stdout[-2000:]

    def write(self, texts):
        for path, text in texts.items():
            (self.root / path).write_text(text, encoding="utf-8")

    def _call(self, *command, check=True, env=None):
        return subprocess.run(command, cwd=self.root, check=check, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Tests:
    """Runs tests by name, each kind like its own suite."""

    def __init__(self, copy, server, kafka):
        self.copy = copy
        self.server = server
        self.kafka = kafka
        self.runs = 0

    def failures(self, names, stop_early=False):
        """The failed tests: {name as given: the end of its output}."""
        failed = {}
        for file in dict.fromkeys(name.split("::")[0] for name in names):
            mine = [name for name in names if name.split("::")[0] == file]
            run = self._cmocka if file.endswith(".c") else self._pytest
            failed.update(run(file, mine, stop_early))
            if failed and stop_early:
                break
        return failed

    def _cmocka(self, file, names, _):
        program = self.copy.build / "tests" / file.removesuffix(".c")
        try:
            done = subprocess.run([program], env={**os.environ, **self.server.environment()}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TEST_SECONDS,
                                  errors="replace")
        except subprocess.TimeoutExpired:
            return dict.fromkeys(names, "it did not end")
        broken = set(re.findall(r"^\[  FAILED  \] (\w+)$", done.stdout, re.M))
        crashed = done.returncode < 0
        return {name: done.stdout[-1500:] for name in names
                if crashed or name.split("::")[1] in broken}

    def _pytest(self, file, names, stop_early):
        command = [ROOT / ".venv/bin/python", "-m", "pytest", "-c", self.copy.root / "tests/pytest.ini",
                   "-p", "no:cacheprovider", "-q", "-rf", "--tb=short", "-o", "timeout=120",
                   *(["-x"] if stop_early else []),
                   *(f"{self.copy.root}/tests/{name}" for name in names)]
        env = {**os.environ, "PYTHONPATH": str(self.copy.root / "tests"), "PYTHONDONTWRITEBYTECODE": "1",
               "INBOXD_BINARY": str(self.copy.build / "src/inboxd"), "INBOXD_BUILD": str(self.copy.build)}
        if file.startswith("sql/"):
            env.update(self.server.environment())
        else:
            self.runs += 1
            env["INBOXD_TEST_KAFKA"] = f"{self.kafka.port} r{self.runs}"
        done = subprocess.run(command, cwd=self.copy.root, env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace")
        if done.returncode == 0:
            return {}
        failed = set(re.findall(r"^(?:FAILED|ERROR) \S*?((?:sql|system|faults|model)/\S+)", done.stdout, re.M))
        found = {name: done.stdout[-1500:] for name in names
                 if any(one == name or one.startswith(name + "[") for one in failed)}
        return found or {names[0]: done.stdout[-1500:]}


def try_mutant(copy, tests, one):
    """("killed" | "SURVIVED" | "BROKEN", words)"""
    changed = one.changed()
    copy.write(changed)
    try:
        words = copy.compile(one.tests)
        if words is not None:
            return "BROKEN", f"does not compile:\n{words}"
        failed = tests.failures(one.tests, stop_early=True)
        return ("killed", f"by {next(iter(failed))}") if failed else ("SURVIVED", one.takes_out)
    finally:
        copy.write({path: sources()[path] for path in changed})


def check_unchanged(copy, tests, chosen):
    """Returns how many of the named tests fail without a mutant, and prints each of them."""
    named = sorted({name for one in chosen for name in one.tests})
    words = copy.compile(named)
    if words is not None:
        print(f"BROKEN    the sources do not compile:\n{words}")
        return 1
    print(f"unchanged: {len(named)} tests", flush=True)
    failed = tests.failures(named)
    for name, last in failed.items():
        print(f"BROKEN    {name} fails without a mutant:\n{last}", flush=True)
    return len(failed)


def run(chosen, skip_unchanged):
    counts = {"killed": 0, "SURVIVED": 0, "BROKEN": 0}
    directory = tempfile.mkdtemp(prefix="inboxd-mutants-")
    server, kafka = Postgres().start(), Kafka().start()
    try:
        copy = Copy(directory)
        tests = Tests(copy, server, kafka)
        if not skip_unchanged:
            counts["BROKEN"] = check_unchanged(copy, tests, chosen)
        for one in chosen if not counts["BROKEN"] else ():
            began = time.monotonic()
            misfit = one.misfit()
            outcome, words = ("BROKEN", misfit) if misfit else try_mutant(copy, tests, one)
            counts[outcome] += 1
            print(f"{outcome:<9} {one.name} ({time.monotonic() - began:.0f} s) {words}", flush=True)
    finally:
        kafka.stop()
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"mutants: {counts['killed']} killed, {counts['SURVIVED']} survived, {counts['BROKEN']} broken")
    return 0 if counts["killed"] == len(chosen) else 1


def is_meant(one, word):
    if "/" in word:
        return not one.misfit() and any(word in place for place in one.places())
    return word == one.rule or word in one.name and not re.fullmatch(r"[IRO]\d+", word)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants with this in their name, or in the path of a file that they change")
    parser.add_argument("--list", action="store_true", help="list the mutants with the lines that they change, or why they do not fit")
    parser.add_argument("--skip-unchanged", action="store_true", help="do not first run the tests unchanged")
    options = parser.parse_args()
    chosen = [one for one in ALL if not options.words or any(is_meant(one, word) for word in options.words)]
    if options.list:
        for one in chosen:
            print(f"{one.name}: {one.misfit() or ', '.join([*one.places(), *one.tests])}")
        return 0
    return run(chosen, options.skip_unchanged)


if __name__ == "__main__":
    sys.exit(main())
