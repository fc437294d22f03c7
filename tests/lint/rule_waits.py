"""A call of librdkafka that can wait is announced by progress_note() in the same function.

A thread that is silent for a lease longer than it has announced is taken for one that hangs, and its instance gives the lease up.
The commands have no such threads.
"""

import re

from rule_functions import _functions

_WAIT = re.compile(r"\brd_kafka_(?:queue_poll|consumer_poll|poll|metadata|committed|offsets_for_times|seek_partitions|clusterid"
                   r"|query_watermark_offsets|init_transactions|commit_transaction|abort_transaction|flush)\(([^;]*?)\)[;)\s]", re.S)


def problems(tree):
    for path in tree.paths("src/ingest/kafka/*.c"):
        if "/commands/" in path:
            continue
        lines = tree.text(path).splitlines()
        for _, body, end in _functions(lines):
            text = "\n".join(lines[body:end])
            for call in _WAIT.finditer(text):
                if not re.search(r",\s*0$", call[1]) and "progress_note(" not in text[:call.start()]:
                    yield path, body + 1 + text.count("\n", 0, call.start()), f"{call[0].split('(')[0]}() waits without progress_note()"
