"""The fault points in the sources of the product, and the scenarios that reach them."""

import pathlib
import re

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
POINT = re.compile(r'FAULT_(POINT|ERROR)\("(\w+)"\)')


def in_sources(kind):
    """Names of all FAULT_POINTs ("POINT") or FAULT_ERRORs ("ERROR"), sorted."""
    found = {name for path in SOURCES.rglob("*.c") for what, name in POINT.findall(path.read_text())
             if what == kind}
    return sorted(found)


# {point: number of the hit}: reached while messages are processed. The first hits belong to the start.
UNDER_LOAD = {
    "after_poll": 20, "before_insert": 3, "after_insert_before_commit": 3,
    "after_commit_before_offset": 3, "before_queue": 3, "after_queue": 3, "before_offset_commit": 2,
    "after_offset_sent": 2, "after_offset_commit": 2, "before_admit": 3, "before_deliver": 30,
    "after_deliver_before_settle": 10, "after_answer": 30, "before_settle": 5, "after_settle": 5,
    "before_retry": 3, "after_retry": 3, "before_claim": 2, "after_claim": 2, "before_unpark": 1,
    "before_raise": 1, "after_raise": 1, "before_heartbeat": 1, "after_heartbeat": 1, "before_tick": 20,
}
# A long delay here blocks a transaction, a verdict, a claim, a heartbeat or a thread for longer than the lease. The
# other points of UNDER_LOAD have such a delay with --long only.
LONG_DELAYS = ["after_insert_before_commit", "before_settle", "after_claim", "after_answer",
               "before_heartbeat"]
# Reached while batches are sent behind the previous COMMIT: {point: number of the hit}.
FOLLOWING = {"behind_commit": 10, "before_insert": 30, "after_insert_before_commit": 30,
             "after_commit_before_offset": 30, "before_queue": 30}
# Reached when the answer to a COMMIT was lost: {point: the error before it}.
IN_DOUBT = {"before_resync": "error_after_store", "after_resync": "error_after_store",
            "before_rescue_of_own": "error_after_claim", "after_rescue_of_own": "error_after_claim"}
# Reached by the start after a kill with open messages.
AT_START = ["after_register", "before_fence", "after_terminate_before_fence", "after_fence",
            "before_rescue", "between_rescues", "after_rescue", "before_take", "after_take",
            "before_foreign"]
# Reached when messages of an unsubscribed topic wait.
AT_ADOPTION = ["before_adopt", "after_adopt"]
# Reached while events of the outbox are published; see test_outbox.py.
OUTBOX = ["outbox_read", "outbox_sent", "outbox_answered", "outbox_before_record", "outbox_recorded"]
# Reached while a SQL handler works; see test_sql_handlers.py.
SQL_HANDLERS = ["before_call", "after_call_before_commit", "after_call_commit"]
# Nothing is changed there; a separate test delays it.
LOOKS = ["after_look_at_held", "after_log_ends", "before_foreign_window"]
# Reached by a reload and by the start of a command; see test_stalls.py.
STALLS = ["before_exec", "before_reload"]
# Reached by a stop with open messages.
AT_STOP = ["stop_begun", "before_give_back", "before_last_offset_commit", "before_leave_group",
           "before_release", "after_release", "after_leave_group", "stop_ingest_done",
           "stop_dispatch_done", "before_deregister", "after_deregister"]
# The connection is lost, or the answer to a COMMIT: {error, with a thread where several reach it: numbers of the hits}.
ERRORS = {"ingest:error_before_commit": (1, 9), "ingest:error_after_commit": (1, 9),
          "worker:error_before_commit": (1, 4), "worker:error_after_commit": (1, 4), "error_after_store": (1, 2),
          "error_before_depart": (1, 4), "error_after_settle": (1, 2), "error_after_claim": (1, 2)}
# Of the relay; see test_kafka_cluster.py.
OUTBOX_ERRORS = ["error_no_broker_answers"]
# Each seek fails; see test_kafka_offsets.py.
SEEK_ERRORS = ["error_not_started"]
