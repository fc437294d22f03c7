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

import endtoend
import floor
import report
from servers import POSTGRES, Servers

MESSAGES = 300_000
SMOKE = 20_000
# Name, ordering, batch of the handler, share of the messages. One message of a partition at a time is
# bound by round trips, not by throughput.
SCENARIOS = [("key", "key", 1, 1), ("key, batch 100", "key", 100, 1),
             ("none", "none", 1, 1), ("none, batch 100", "none", 100, 1),
             ("partition", "partition", 1, 0.1)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES,
                        help=f"records preloaded in Kafka, and rows of the floor ({MESSAGES})")
    parser.add_argument("--smoke", action="store_true", help=f"--messages {SMOKE}, for CI")
    parser.add_argument("--repeat", type=int, default=1, metavar="ROUNDS",
                        help="measure everything so often; the table shows min / median / max")
    parser.add_argument("--only", action="append", choices=[name for name, *_ in SCENARIOS],
                        help="only these and the floor; may be given several times")
    parser.add_argument("--json", metavar="FILE", help="write every result of every round there")
    options = parser.parse_args()
    if options.smoke:
        options.messages = SMOKE
    if options.messages < 100 or options.repeat < 1:
        parser.error("at least 100 messages and one round")
    return options


def measure_round(servers, options):
    results = {"floor": floor.measure(servers, options.messages)}
    say("floor", results["floor"])
    for name, ordering, batch, share in SCENARIOS:
        if options.only and name not in options.only:
            continue
        results[name] = endtoend.measure(servers, {"ordering": ordering, "batch": batch,
                                                   "messages": int(options.messages * share)})
        say(name, results[name])
    return results


def say(name, result):
    print(f"{name}: {result['rows_per_second']:,.0f} rows/s in {result['seconds']:.2f} s",
          file=sys.stderr, flush=True)


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
          f" Kafka {facts['kafka']}\n\n{report.markdown(rounds)}")


if __name__ == "__main__":
    main()
