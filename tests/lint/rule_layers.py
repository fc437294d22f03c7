"""Includes point one way: main, ops, daemon, {ingest, dispatch, lease, http}, periodic, {store, trace},
{model, config, report}, json, base.

A folder is a layer. An arrow may skip layers and never points back; neighbouring layers do not include each other.
Each library belongs to one folder. The handler library is for other programs: of src/ it includes only base and json,
of which it contains the few sources that it needs.
"""

import re

LAYERS = {
    "base": {"base"},
    "json": {"base", "json"},
    "model": {"base", "json", "model"},
    "config": {"base", "config"},
    "report": {"base", "report"},
    "trace": {"base", "json", "model", "report", "trace"},
    "store": {"base", "json", "model", "config", "report", "store"},
    "periodic": {"base", "json", "model", "config", "report", "store", "periodic"},
    "ingest": {"base", "json", "model", "config", "report", "trace", "store", "periodic", "ingest"},
    "dispatch": {"base", "json", "model", "config", "report", "trace", "store", "dispatch"},
    "lease": {"base", "json", "model", "config", "report", "store", "periodic", "lease"},
    "http": {"base", "json", "model", "config", "report", "http"},
    "daemon": {"base", "json", "model", "config", "report", "trace", "store", "periodic", "ingest", "dispatch", "lease",
               "http", "daemon"},
    "ops": {"base", "json", "model", "config", "report", "store", "ingest", "dispatch", "http", "daemon", "bridge", "ops"},
    "bridge": {"base", "json", "bridge"},
    "client": {"base", "json", "client"},
}
# The rooms of dispatch, from the lowest to the highest. Each may include those before it.
DISPATCH = ("dispatch/dispatch.h", "dispatch/context.", "dispatch/protocol/", "dispatch/order/", "dispatch/table/",
            "dispatch/groups/", "dispatch/schedule/", "dispatch/sessions/")
# A room inside a layer: the headers of its own layer that it may include. Other rooms may include any.
ROOMS = {"src/" + room: DISPATCH[:at + 1] for at, room in enumerate(DISPATCH)}
ROOMS["src/dispatch/protocol/"] = ("dispatch/protocol/",)
ROOMS["src/ingest/kafka/"] = ("ingest/kafka/", "ingest/ingest.h")
ROOMS["src/ingest/partitions/"] = ("ingest/partitions/", "ingest/kafka/", "ingest/state.h", "ingest/handover_queue.h",
                                   "ingest/fault_log_limit.h")
ROOMS["src/ingest/batch/"] = ("ingest/batch/", "ingest/partitions/", "ingest/kafka/", "ingest/state.h",
                              "ingest/handover_queue.h")
# A plain enumeration that a configuration value needs.
EXCEPTIONS = {("config", "model/message/ordering.h")}
# Header, by pattern, and the only places that may include it.
OWNED = [
    (r"libpq-fe\.h$", ("src/store/pg/",)),
    (r"librdkafka/.*\.h$", ("src/ingest/kafka/", "tools/")),
    (r"sys/un\.h$", ("src/dispatch/", "src/client/", "src/config/", "src/bridge/forward/")),
    (r"event2/.*\.h$", ("src/dispatch/", "src/http/", "src/base/", "src/trace/")),
    (r"curl/.*\.h$", ("src/bridge/forward/",)),
    (r"yaml\.h$", ("src/config/",)),
    (r"yajl/.*\.h$", ("src/json/",)),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def problems(tree):
    inside = _headers_of_libraries(tree)
    for path in tree.paths("src/*.[ch]", "include/*.h", "tools/*.[ch]"):
        for number, line in tree.lines(path):
            match = INCLUDE.match(line)
            if match:
                yield from _check(path, number, match[2], own=match[1] == '"')
                for places in inside.get(match[2], ()):
                    if not path.startswith(places):
                        yield path, number, f"{match[2]} includes a library that belongs to {', '.join(places)}"


def _headers_of_libraries(tree):
    """{header of src/ that includes an owned library: [the places of the library]}: it stays inside these places."""
    found = {}
    for path in tree.paths("src/*.h"):
        for _, line in tree.lines(path):
            match = INCLUDE.match(line)
            for pattern, places in OWNED:
                if match and re.search(pattern, match[2]):
                    found.setdefault(path.removeprefix("src/"), []).append(places)
    return found


def _check(path, number, header, own):
    for pattern, places in OWNED:
        if re.search(pattern, header) and not path.startswith(places):
            yield path, number, f"{header} may only be included in {', '.join(places)}"
    if path.startswith("include/") and own and not header.startswith("inboxd/"):
        yield path, number, f"a public header must not include {header}"
    for room, allowed in ROOMS.items():
        if own and path.startswith(room) and _is_of_same_layer(path, header) and not header.startswith(allowed):
            yield path, number, f"{room} must not include {header}"
    layer = _layer_of(path)
    if layer and own and not _may_include(layer, header):
        yield path, number, f"{layer} must not include {header}"


def _layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def _is_of_same_layer(path, header):
    return header.partition("/")[0] == _layer_of(path)


def _may_include(layer, header):
    folder, slash, _ = header.partition("/")
    if not slash:
        return True
    if folder == "inboxd":
        return layer in ("client", "bridge")
    if folder in LAYERS:
        return folder in LAYERS.get(layer, set()) or (layer, header) in EXCEPTIONS
    return True
