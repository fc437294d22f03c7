#!/usr/bin/env python3
"""Conformance of a handler with docs/handler-protocol.md: the kit plays inboxd and judges what the handler does.

    run.py [OPTIONS] -- COMMAND…

COMMAND starts the test handler that README.md describes. Each case starts it anew, with a socket of its own. The exit
code is 0 if every case passed, 1 if one failed, 2 if the kit was called wrongly. Only Python's standard library is needed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import sys
import time

from play import Play
from sidecar import Failure

HERE = pathlib.Path(__file__).resolve().parent
TRIES = 3  # of a case in which the handler was too slow for a time that the case names: the machine may have stalled
FEATURES = ("batch", "ordered", "window", "extend", "auto-extend", "cancel", "skipped", "consumer", "emit")


def read_cases(directory):
    """All cases, in the order of the files. A line with the member `case` begins one; the next ones are its steps."""
    cases = []
    for path in sorted(directory.glob("*.ndjson")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            record = json.loads(line)
            if "case" in record:
                cases.append({"file": path.stem, "needs": [], "options": {}, "steps": [], "line": number, **record})
            else:
                cases[-1]["steps"].append(record)
    return cases


def try_case(case, command, patience):
    """(seconds, None or the Failure) of one case. The failure has its dialogue and the output of the handler."""
    started = time.monotonic()
    play = Play(case, command, patience)
    failure = None
    try:
        play.run()
    except Failure as found:
        failure = found
        failure.dialogue = play.dialogue
        failure.output = play.output()
    finally:
        play.end()
    return time.monotonic() - started, failure


def try_in_time(case, command, patience):
    """As try_case. A handler that keeps no time limit fails each time."""
    for _ in range(TRIES):
        seconds, failure = try_case(case, command, patience)
        if failure is None or "within_ms" not in getattr(failure, "step", {}):
            break
    return seconds, failure


def report(case, seconds, failure):
    print(f"{'FAIL' if failure else 'ok  '}  {case['file']}: {case['case']} ({seconds:.2f} s)", flush=True)
    if not failure:
        return
    print(f"      the protocol says: {case['says']}")
    print(f"      at the step:       {json.dumps(failure.step, ensure_ascii=False)[:300]}"
          if hasattr(failure, "step") else "      at the end of the case")
    print(f"      expected:          {failure.expected}")
    print(f"      came:              {failure.came}")
    for line in failure.dialogue[-12:]:
        print(f"      | {line}")
    for line in failure.output.splitlines()[-8:]:
        print(f"      handler: {line}")


def parse_arguments():
    parser = argparse.ArgumentParser(usage="run.py [OPTIONS] -- COMMAND…", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="starts the test handler")
    parser.add_argument("--without", default="", metavar="FEATURES", help=f"features that it does not have: {','.join(FEATURES)}")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with this text in their name or file")
    parser.add_argument("--cases", type=pathlib.Path, default=HERE / "cases", metavar="DIRECTORY", help="other cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at a time (as many as CPUs)")
    parser.add_argument("--patience", type=float, default=1.0, metavar="FACTOR", help="longer waits, for a slow machine")
    parser.add_argument("--list", action="store_true", help="names the cases")
    arguments = parser.parse_args()
    arguments.without = set(filter(None, arguments.without.split(",")))
    if arguments.without - set(FEATURES):
        parser.error(f"no feature {', '.join(arguments.without - set(FEATURES))}; there are {', '.join(FEATURES)}")
    if not arguments.command and not arguments.list:
        parser.error("the command of the test handler is missing")
    return arguments


def main():
    arguments = parse_arguments()
    cases = [case for case in read_cases(arguments.cases) if arguments.case in f"{case['file']}: {case['case']}"]
    if arguments.list:
        for case in cases:
            print(f"{case['file']}: {case['case']}" + (f" [{' '.join(case['needs'])}]" if case["needs"] else ""))
        return 0
    if not cases:
        print(f"no case has {arguments.case!r} in its name", file=sys.stderr)
        return 2
    chosen = [case for case in cases if not arguments.without.intersection(case["needs"])]
    started = time.monotonic()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max(arguments.jobs, 1)) as pool:
        tried = pool.map(lambda case: try_in_time(case, arguments.command, arguments.patience), chosen)
        for case, (seconds, failure) in zip(chosen, tried):
            report(case, seconds, failure)
            failed += failure is not None
    print(f"conformance: {len(chosen) - failed} passed, {failed} failed, {len(cases) - len(chosen)} left out"
          f" ({', '.join(sorted(arguments.without)) or 'no feature is missing'}), {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    try:
        sys.exit(main())
    except FileNotFoundError as error:
        sys.exit(f"conformance: {error}")
