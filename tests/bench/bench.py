"""Speed, CPU and memory of the release build, beside a floor measured in the same run.

Fails when a message is missing, never because something is slow. See README.md.
"""

import argparse
import fnmatch
import json
import os
import platform
import sys
from unittest import mock

from support import kafka
from support.sidecar import binary

import autovacuum
import backfill
import consumers
import emit
import everyday
import growth
import handlers
import idempotency
import idle
import keys
import latency
import relay
import relay_peers
import report
import shapes
import sidebyside
import slowpath
import throughput
from group import BEFORE, add_ratios
from servers import POSTGRES, Servers

MESSAGES = 300_000
SMOKE = 20_000
GROUPS = [everyday.GROUP, throughput.GROUP, shapes.GROUP, latency.GROUP, idle.GROUP, slowpath.GROUP,
          growth.GROUP, growth.SNAPSHOT, autovacuum.GROUP, sidebyside.GROUP, emit.GROUP, backfill.GROUP, consumers.GROUP,
          relay.DRAIN, relay.LATENCY, relay_peers.GROUP, handlers.GROUP, keys.GROUP, idempotency.GROUP]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES,
                        help=f"records preloaded in Kafka, and rows of the floor ({MESSAGES})")
    parser.add_argument("--smoke", action="store_true",
                        help=f"--messages {SMOKE}, and little of everything else, for CI")
    parser.add_argument("--long", action="store_true",
                        help="also what needs much time and 60 GB of disk")
    parser.add_argument("--repeat", type=int, default=1, metavar="ROUNDS",
                        help="measure everything so often; the table shows min / median / max")
    names = [name for group in GROUPS for name in group.names()]
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="only this group or measurement, or those that this shell pattern matches, and what they"
                             " are compared with; may be given several times:"
                             f" {'; '.join(names).replace('%', '%%')}")
    parser.add_argument("--runs", type=int, default=keys.ROUNDS, metavar="ROUNDS",
                        help=f"as --repeat, for the group keys ({keys.ROUNDS})")
    parser.add_argument("--seconds", type=float,
                        help=f"how long a measurement of the group keys takes at most ({keys.SECONDS}), and how long"
                             f" messages come in one of the group everyday ({everyday.SECONDS})")
    parser.add_argument("--before", type=os.path.abspath, metavar="BINARY",
                        help="another inboxd: each measurement in which inboxd takes part is made with it, too")
    parser.add_argument("--medians", action="store_true", help="with --repeat: the tables show only the median")
    parser.add_argument("--json", metavar="FILE", help="write every result of every round there")
    parser.add_argument("--append", action="store_true",
                        help="with --json: keep the rounds that FILE has, and show them as well")
    options = parser.parse_args()
    if options.smoke:
        options.messages = SMOKE
    if options.messages < 100 or options.repeat < 1 or options.runs < 1:
        parser.error("at least 100 messages and one round")
    for pattern in options.only or ():
        if not fnmatch.filter(names, pattern):
            parser.error(f"nothing has the name {pattern}; --help lists them")
    return options


def measure_rounds(servers, options):
    """[{group: {measurement: result}}], in which later rounds may lack a group."""
    counts = {group.name: options.runs if group.rounds else options.repeat for group in GROUPS}
    return [measure_round(servers, options, [group for group in GROUPS if number < counts[group.name]])
            for number in range(max(counts[group.name] for group in GROUPS if group.chosen(options.only)))]


def measure_round(servers, options, groups):
    """{group: {measurement: result}}"""
    found = {}
    for group in groups:
        results = {}
        for name, run in group.chosen(options.only):
            for name_of_build, result in measure_builds(servers, options, name, run):
                results[name_of_build] = result
                say(group.name, name_of_build, result)
        add_ratios(group, results)
        if results:
            found[group.name] = results
    return found


def measure_builds(servers, options, name, run):
    """The results (name, result) of a measurement: none if something is not installed, and a second one of the build before
    if there is one and inboxd takes part."""
    result = run(servers, options)
    if result is None:
        return
    yield name, result
    if options.before and any(key.startswith("inboxd_") for key in result):
        with mock.patch.dict(os.environ, INBOXD_BINARY=options.before):
            yield name + BEFORE, run(servers, options)


def say(group, name, result):
    numbers = ", ".join(f"{key} {value:,.3g}" if isinstance(value, float) else f"{key} {value:,}"
                        for key, value in list(result.items())[:4] if isinstance(value, (int, float)))
    print(f"{group}, {name}: {numbers}", file=sys.stderr, flush=True)


def environment(servers, options):
    with servers.postgres.connect() as connection:
        postgres = connection.execute("SHOW server_version").fetchone()[0]
    return {"messages": options.messages, "cpus": os.cpu_count(), "machine": platform.machine(),
            "kernel": platform.release(), "postgres": postgres, "postgres_settings": POSTGRES,
            "kafka": kafka.version()}


def by_group(rounds):
    """(group, its rounds) of those that were measured."""
    return [(group, [results[group.name] for results in rounds if group.name in results])
            for group in GROUPS if group.name in rounds[0]]


def earlier_rounds(options):
    if not options.append or not options.json or not os.path.exists(options.json):
        return []
    with open(options.json, encoding="utf-8") as file:
        return json.load(file)["rounds"]


def write_json(path, facts, rounds):
    summary = {group.name: report.summary(group, measured) for group, measured in by_group(rounds)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"environment": facts, "rounds": rounds, "summary": summary}, file, indent=1)
        file.write("\n")


def tables(rounds, medians):
    return "\n\n".join(report.markdown(group, measured, medians) for group, measured in by_group(rounds))


def main():
    options = arguments()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"bench: {binary()} is missing; tests/run.sh bench builds it")
    servers = Servers()
    try:
        facts = environment(servers, options)
        rounds = earlier_rounds(options) + measure_rounds(servers, options)
    finally:
        servers.close()
    if options.json:
        write_json(options.json, facts, rounds)
    print(f"\n{options.messages:,} records, {facts['cpus']} CPUs, PostgreSQL {facts['postgres']},"
          f" Kafka {facts['kafka']}\n\n{tables(rounds, options.medians)}")


if __name__ == "__main__":
    main()
