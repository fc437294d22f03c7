"""Speed, CPU and memory of the release build, beside a floor measured in the same run.

Fails when a message is missing, never because something is slow. See README.md.
"""

import argparse
import json
import os
import platform
import sys

from support import kafka
from support.sidecar import binary

import autovacuum
import growth
import idle
import latency
import report
import shapes
import sidebyside
import slowpath
import throughput
from group import add_ratios
from servers import POSTGRES, Servers

MESSAGES = 300_000
SMOKE = 20_000
GROUPS = [throughput.GROUP, shapes.GROUP, latency.GROUP, idle.GROUP, slowpath.GROUP,
          growth.GROUP, growth.SNAPSHOT, autovacuum.GROUP, sidebyside.GROUP]


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
    parser.add_argument("--only", action="append", choices=names, metavar="NAME",
                        help="only this group or measurement and what it is compared with; may be"
                             f" given several times: {', '.join(names).replace('%', '%%')}")
    parser.add_argument("--json", metavar="FILE", help="write every result of every round there")
    options = parser.parse_args()
    if options.smoke:
        options.messages = SMOKE
    if options.messages < 100 or options.repeat < 1:
        parser.error("at least 100 messages and one round")
    return options


def measure_round(servers, options):
    """{group: {measurement: result}}"""
    found = {}
    for group in GROUPS:
        results = {}
        for name, run in group.chosen(options.only):
            result = run(servers, options)
            if result is not None:
                results[name] = result
                say(group.name, name, result)
        add_ratios(results, group.base)
        if results:
            found[group.name] = results
    return found


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


def write_json(path, facts, rounds):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"environment": facts, "rounds": rounds}, file, indent=1)
        file.write("\n")


def tables(rounds):
    return "\n\n".join(report.markdown(group, [results[group.name] for results in rounds])
                       for group in GROUPS if group.name in rounds[0])


def main():
    options = arguments()
    if not os.access(binary(), os.X_OK):
        sys.exit(f"bench: {binary()} is missing; tests/run.sh bench builds it")
    servers = Servers()
    try:
        facts = environment(servers, options)
        rounds = [measure_round(servers, options) for _ in range(options.repeat)]
    finally:
        servers.close()
    if options.json:
        write_json(options.json, facts, rounds)
    print(f"\n{options.messages:,} records, {facts['cpus']} CPUs, PostgreSQL {facts['postgres']},"
          f" Kafka {facts['kafka']}\n\n{tables(rounds)}")


if __name__ == "__main__":
    main()
