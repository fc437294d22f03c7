"""What operators do with the rows of several consumers: each has a row of its own for a message."""

import psycopg
import pytest

from statements import functions
from test_operators import audit, dead, processed, reject, value, waiting


def states(db):
    return db.execute("SELECT event_id, consumer, status FROM inbox.messages ORDER BY event_id, consumer").fetchall()


@pytest.fixture
def twice(db):
    """Events a and b, dead for billing and processed for search."""
    for event_id in ("a", "b"):
        dead(db, event_id, consumer="billing")
        processed(db, event_id, consumer="search")
    return db


def test_a_message_is_replayed_for_all_its_consumers(twice):
    assert value(twice, "SELECT inbox.replay('s', 'a', 'why')") is True
    assert states(twice) == [("a", "billing", "waiting"), ("a", "search", "waiting"),
                             ("b", "billing", "dead"), ("b", "search", "processed")]
    assert [(entry["filter"], entry["affected"]) for entry in audit(twice)] == [({"source": "s", "event_id": "a"}, 2)]


def test_a_message_is_replayed_for_one_consumer(twice):
    assert value(twice, "SELECT inbox.replay('s', 'a', consumer => 'search')") is True
    assert value(twice, "SELECT inbox.replay('s', 'a', consumer => '')") is False
    assert states(twice)[:2] == [("a", "billing", "dead"), ("a", "search", "waiting")]
    assert [entry["filter"].get("consumer") for entry in audit(twice)] == ["search", ""]


def test_a_replay_leaves_the_rows_of_consumers_that_are_not_done(db):
    dead(db, "a", consumer="billing")
    waiting(db, "a", consumer="search", retry_count=2)
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert states(db) == [("a", "billing", "waiting"), ("a", "search", "retrying")]


def test_a_replay_leaves_out_the_rows_whose_payload_was_dropped(db):
    dead(db, "a", consumer="billing")
    processed(db, "a", consumer="search", payload=None)
    notices = []
    db.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    db.execute("SET client_min_messages = notice")
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert notices == ["event 'a' of source 's': 1 left out, because retention has dropped their payload"]
    assert states(db) == [("a", "billing", "waiting"), ("a", "search", "processed")]
    assert audit(db)[0]["affected"] == 1
    for call in ("inbox.replay('s', 'a')", "inbox.replay('s', 'a', consumer => 'search')"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="payload of event 'a'"):
            db.execute(f"SELECT {call}")


def test_a_message_is_discarded_for_one_consumer_or_for_all(db):
    for event_id in ("a", "b"):
        for consumer in ("", "billing", "search"):
            waiting(db, event_id, consumer=consumer)
    assert value(db, "SELECT inbox.discard('s', 'a', 'why', 'billing')") is True
    assert value(db, "SELECT inbox.discard('s', 'b', 'why')") is True
    assert [status for (_, _, status) in states(db)] == ["waiting", "dead", "waiting"] + ["dead"] * 3


@pytest.mark.parametrize("call, make, changed", [("replay_where", dead, "waiting"), ("discard_where", waiting, "dead")])
@pytest.mark.parametrize("consumer, expected", [("billing", ["billing"]), ("", [""]), (None, ["", "billing"]), ("none", [])])
def test_filters_select_a_consumer(db, call, make, changed, consumer, expected):
    for name in ("", "billing"):
        make(db, "a", consumer=name)
    assert value(db, f"SELECT inbox.{call}(consumer => %s, dry_run => true)", consumer) == len(expected)
    assert value(db, f"SELECT inbox.{call}(consumer => %s)", consumer) == len(expected)
    assert [name for (_, name, status) in states(db) if status == changed] == expected
    assert audit(db)[0]["filter"].get("consumer") == consumer


def test_groups_of_dead_messages_belong_to_a_consumer(twice):
    dead(twice, "c", consumer="search")
    assert twice.execute("SELECT consumer, messages FROM inbox.dead_groups ORDER BY 1").fetchall() == \
        [("billing", 2), ("search", 1)]


def test_a_function_with_more_parameters_replaces_the_earlier_one(db):
    """A call without them could mean both. The earlier one came with defaults, and has grants that the new one keeps."""
    db.execute("DROP ROLE IF EXISTS earlier_caller; CREATE ROLE earlier_caller")
    db.execute("DROP FUNCTION inbox.replay(text, text, text, text, jsonb)")
    db.execute("CREATE FUNCTION inbox.replay(source text, event_id text, reason text DEFAULT NULL) RETURNS boolean"
               " LANGUAGE sql AS 'SELECT false'")
    db.execute("GRANT EXECUTE ON FUNCTION inbox.replay(text, text, text) TO earlier_caller")
    with db.transaction():
        db.execute(functions())
    dead(db, "a")
    assert value(db, "SELECT inbox.replay('s', 'a')") is True
    assert db.execute("SELECT pronargs, has_function_privilege('earlier_caller', oid, 'EXECUTE') FROM pg_proc"
                      " WHERE proname = 'replay' AND pronamespace = 'inbox'::regnamespace").fetchall() == [(5, True)]
    db.execute("DROP OWNED BY earlier_caller; DROP ROLE earlier_caller")


# --- known consumers ------------------------------------------------------------------------------------


def know(db, name, **columns):
    row = {"name": name, "ordering": "key", "memory": "10 min", **columns}
    db.execute(f"INSERT INTO inbox.inbox_consumers ({', '.join(row)}) VALUES ({', '.join('%s' for _ in row)})", list(row.values()))


WANTS = {
    "everything": (None, None, [("orders", "x"), ("orders", None)], []),
    "topics": ('["orders", "^re.*s$"]', None, [("orders", "x"), ("returns", "x")], [("returned", "x"), ("xreturns", "x"), ("order", "x")]),
    "types": (None, '["order.*", "payment"]', [("a", "order.created"), ("a", "order."), ("a", "payment")],
              [("a", "order"), ("a", "payments"), ("a", None)]),
    "any type": (None, '["*"]', [("a", "x"), ("a", None)], []),
    "no topic": ("[]", None, [], [("a", "x")]),
}


@pytest.mark.parametrize("topics, types, wanted, unwanted", WANTS.values(), ids=WANTS)
def test_a_consumer_wants_its_topics_and_types(db, topics, types, wanted, unwanted):
    know(db, "c", topics=topics, types=types)
    for given in wanted:
        assert value(db, "SELECT inbox.consumers_of(%s, %s)", *given) == "c", given
    for given in unwanted:
        assert db.execute("SELECT inbox.consumers_of(%s, %s)", given).fetchall() == [], given


def test_only_known_consumers_want_a_message(db):
    def names():
        return [row[0] for row in db.execute("SELECT inbox.consumers_of('t', 'x') ORDER BY 1")]

    assert names() == [""], "no sidecar has registered yet"
    know(db, "old", listed_at="2020-01-01")
    assert names() == []
    know(db, "new")
    assert names() == ["new"]


def test_the_view_says_what_waits_for_each_consumer(db):
    know(db, "listed")
    know(db, "unlisted", listed_at=value(db, "SELECT now() - interval '5 min'"))
    know(db, "lapsed", listed_at=value(db, "SELECT now() - interval '1 h'"))
    for number, (consumer, partition) in enumerate([("listed", 0), ("lapsed", 1), ("lapsed", 2), ("lapsed", 2), ("forgotten", 3)]):
        waiting(db, f"e{number}", consumer=consumer, kafka_partition=partition)
    waiting(db, "parked", consumer="lapsed", available_at="infinity")
    dead(db, "dead", consumer="listed")
    assert db.execute("SELECT name, status, waiting FROM inbox.consumers ORDER BY name").fetchall() == \
        [("forgotten", "lapsed", 1), ("lapsed", "lapsed", 4), ("listed", "listed", 1), ("unlisted", "unlisted", 0)]


def test_status_has_consumers_as_soon_as_there_is_more_than_the_unnamed_one(db):
    def consumers():
        return {c["name"]: (c["status"], c["waiting"]) for c in value(db, "SELECT inbox.status()")["consumers"]}

    assert consumers() == {}
    know(db, "")
    waiting(db, "a")
    assert consumers() == {}
    know(db, "billing")
    assert consumers() == {"": ("listed", 1), "billing": ("listed", 0)}
    db.execute("UPDATE inbox.inbox_consumers SET listed_at = '2020-01-01' WHERE name = ''")
    assert consumers() == {"": ("unlisted", 1), "billing": ("listed", 0)}, "it goes on until it is renamed or forgotten"
    assert db.execute("SELECT name, attention FROM inbox.consumers ORDER BY 1").fetchall() == [
        ("", "No running sidecar lists it, and messages are stored for it: `inboxd consumers rename '' NAME` gives it a name that "
             "they list. Messages wait, and no handler of it is connected."), ("billing", None)]
    value(db, "SELECT inbox.forget_consumer('')")
    assert consumers() == {"": ("lapsed", 1), "billing": ("listed", 0)}
    db.execute("DELETE FROM inbox.inbox_messages")
    assert consumers() == {"billing": ("listed", 0)}, "nothing waits for the one that lapsed"


def test_a_consumer_is_forgotten_and_its_rows_stay(db):
    know(db, "")
    know(db, "billing")
    waiting(db, "a", consumer="billing")
    assert value(db, "SELECT inbox.forget_consumer('billing', 'gone')") is True
    assert value(db, "SELECT inbox.forget_consumer('billing')") is False
    assert value(db, "SELECT inbox.forget_consumer('')") is True
    assert db.execute("SELECT name, status, waiting FROM inbox.consumers").fetchall() == [("billing", "lapsed", 1)]
    assert [(entry["action"], entry["filter"], entry["reason"]) for entry in audit(db)] == \
        [("forget_consumer", {"consumer": "billing"}, "gone"), ("forget_consumer", {"consumer": ""}, None)]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="name must be given"):
        db.execute("SELECT inbox.forget_consumer(NULL)")


def test_a_handler_is_forgotten_for_one_consumer_or_for_all(db):
    for consumer in ("", "billing", "search"):
        db.execute("INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)"
                   " VALUES ('h', %s, '[]', '1 h', now(), now(), now())", [consumer])
    assert value(db, "SELECT inbox.forget_handler('h', consumer => 'search')") is True
    assert value(db, "SELECT array_agg(consumer ORDER BY 1) FROM inbox.handlers") == ["", "billing"]
    assert value(db, "SELECT inbox.forget_handler('h')") is True
    assert value(db, "SELECT count(*) FROM inbox.handlers") == 0


# --- rejects, verify ------------------------------------------------------------------------------------


def test_a_replayed_reject_is_stored_for_each_consumer_that_wants_it(db):
    know(db, "billing")
    know(db, "search", topics='["orders"]')
    know(db, "other", types='["payment"]')
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 'order')", reject(db)) == "stored"
    assert states(db) == [("r1", "billing", "waiting"), ("r1", "search", "waiting")]
    db.execute("DELETE FROM inbox.inbox_messages WHERE consumer = 'search'")
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 'order')", reject(db, b"[]")) == "conflict"
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 'order')", reject(db, offset=8)) == "stored"
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 'order')", reject(db, offset=9)) == "duplicate"


def test_a_reject_that_no_consumer_wants_stays(db):
    know(db, "other", types='["payment"]')
    assert value(db, "SELECT inbox.replay_reject(%s, 's', 'r1', 'order')", reject(db)) == "unwanted"
    assert (value(db, "SELECT count(*) FROM inbox.inbox_rejects"), states(db), audit(db)) == (1, [], [])


def test_verify_accepts_the_row_of_any_consumer_and_what_none_wants(db, statements):
    know(db, "billing", types='["order"]')
    processed(db, "a", consumer="search", kafka_offset=1)
    found = statements.run("op_verify", "orders", 0, [1, 2, 3, 4], ["s"] * 3 + [None], ["a", "b", "c", None], [b"d"] * 4,
                           ["order", "order", "payment", None], [None] * 4)
    assert [row[0] for row in found] == ["stored", None, "unwanted", None]


# --- rename ---------------------------------------------------------------------------------------------


def rename(db, name, new_name, page=2):
    """All of it, with small pages. How many messages were not done, and how many were."""
    begun = value(db, "SELECT inbox.rename_consumer(%s, %s, 'why')", name, new_name)
    done = 0
    while True:
        affected, more = db.execute("SELECT * FROM inbox.rename_page(%s, %s)", [name, page]).fetchone()
        done += affected
        if not more:
            return begun, done


def test_a_rename_takes_all_messages_with_their_states(db):
    know(db, "")
    waiting(db, "w", consumer="")
    waiting(db, "p", consumer="", available_at="infinity")
    dead(db, "d", consumer="")
    for number in range(5):
        processed(db, f"e{number}", consumer="")
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, delivery_count = 1 WHERE event_id = 'p'")
    processed(db, "other", consumer="search")
    before = states(db)
    epochs = value(db, "SELECT sum(epoch) FROM inbox.inbox_offsets")
    assert rename(db, "", "billing") == (2, 6)
    assert states(db) == [(event, consumer or "billing", status) for event, consumer, status in before]
    assert value(db, "SELECT claimed_by FROM inbox.inbox_messages WHERE event_id = 'p'") == 1, "its handler can still complete it"
    assert value(db, "SELECT sum(epoch) FROM inbox.inbox_offsets") == epochs + 4, "no batch that knows only the earlier name is stored"
    assert [(entry["filter"], entry["affected"]) for entry in audit(db)] == [({"consumer": "", "new_name": "billing"}, 2 + 6)]
    assert db.execute("SELECT name, status, earlier_names, moving FROM inbox.consumers").fetchall() == [("billing", "unlisted", [""], False)]
    assert value(db, "SELECT inbox.rename_consumer('', 'billing')") is None, "it has begun already, and is over"


def test_an_event_is_a_repeat_while_its_row_has_the_earlier_name(db, statements):
    know(db, "")
    processed(db, "a", consumer="")
    value(db, "SELECT inbox.rename_consumer('', 'billing')")

    def insert(event_id, moving):
        return [row[1] for row in statements.run(
            "insert_messages", 1, ["s"], [event_id], [None], ["orders"], [0], [7], [None], [b"k"], ["[]"], [b"{}"], [b"d"], [1], [0],
            ["billing"], False, moving)]

    assert insert("a", True) == [] and insert("b", True) == ["b"]
    assert statements.run("find_conflicts", ["a"], ["s"], ["billing"], [b"another"], [0]) == [(0, False)]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match='"" is being renamed to "billing"'):
        db.execute("SELECT inbox.backfill('billing')")
    assert db.execute("SELECT * FROM inbox.rename_page('', 100)").fetchone() == (1, False)
    assert insert("a", False) == []
    assert states(db) == [("a", "billing", "processed"), ("b", "billing", "waiting")]


def test_an_event_that_both_names_have_keeps_one_row(db):
    """A service listed `billing` before it renamed the consumer without a name, whose handler went on meanwhile."""
    know(db, "")
    know(db, "billing")
    for event_id, make in {"a": processed, "b": dead, "c": waiting}.items():
        make(db, event_id, consumer="")
        waiting(db, event_id, consumer="billing")
    waiting(db, "d", consumer="")
    processed(db, "d", consumer="billing")
    waiting(db, "e", consumer="billing")
    assert value(db, "SELECT inbox.rename_consumer('', 'billing')") == 3
    assert states(db) == [("a", "billing", "processed"), ("b", "billing", "dead"), ("c", "billing", "waiting"),
                          ("d", "billing", "processed"), ("e", "billing", "waiting")], "at once: none of them is delivered again"


def test_a_rename_waits_for_no_handler_that_does_not_commit(db, connect):
    know(db, "")
    waiting(db, "a", consumer="")
    processed(db, "b", consumer="")
    db.execute("UPDATE inbox.inbox_messages SET available_at = NULL, claimed_by = 1, delivery_count = 1 WHERE event_id = 'a'")
    other = connect()
    with other.transaction():
        other.execute("SELECT FROM inbox.inbox_messages WHERE event_id = 'b' FOR UPDATE")
        assert value(db, "SELECT inbox.rename_consumer('', 'billing')") == 1
        assert db.execute("SELECT * FROM inbox.rename_page('', 100)").fetchone() == (0, True), "it is left for another walk"
        assert db.execute("SELECT * FROM inbox.rename_page('', 100)").fetchone() == (0, True)
    assert db.execute("SELECT * FROM inbox.rename_page('', 100)").fetchone() == (1, False)


def test_a_rename_waits_for_new_partitions_that_are_not_committed(db, connect):
    """Their epochs could not be raised, so batches with the earlier name would be stored behind the rename."""
    know(db, "")
    other = connect()
    with other.transaction():
        other.execute("INSERT INTO inbox.inbox_offsets (topic, kafka_partition, ordering) VALUES ('new', 0, 'key')")
        with pytest.raises(psycopg.errors.QueryCanceled), db.transaction():
            db.execute("SET LOCAL statement_timeout = '300ms'")
            db.execute("SELECT inbox.rename_consumer('', 'billing')")
    before = value(db, "SELECT epoch FROM inbox.inbox_offsets WHERE topic = 'new'")
    assert value(db, "SELECT inbox.rename_consumer('', 'billing')") == 0
    assert value(db, "SELECT epoch FROM inbox.inbox_offsets WHERE topic = 'new'") == before + 1


@pytest.mark.parametrize("listed_at, status", [("2020-01-01", "unlisted"), ("now", "listed")])
def test_a_rename_to_a_name_that_was_listed_before_ends_nothing(db, listed_at, status):
    """Somebody rolled a configuration with `billing` out and back again."""
    know(db, "orders", topics='["orders"]', listed_at=value(db, "SELECT now() - interval '2 min'"))
    know(db, "billing", topics='["payments"]', listed_at=listed_at)
    value(db, "SELECT inbox.rename_consumer('orders', 'billing')")
    wanted = ["orders"] if status == "unlisted" else ["payments"]
    assert db.execute("SELECT name, status, topics FROM inbox.consumers").fetchall() == [("billing", status, wanted)]


def test_a_rename_takes_handlers_and_pauses_and_can_be_taken_back(db):
    know(db, "")
    db.execute("INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('h', '', '[]', '1 h', now(), now(), now())")
    value(db, "SELECT inbox.pause('consumer', '', 'why')")
    processed(db, "a", consumer="")
    rename(db, "", "billing")
    assert (value(db, "SELECT consumer FROM inbox.inbox_handlers"), value(db, "SELECT name FROM inbox.inbox_pauses")) == ("billing", "billing")
    assert value(db, "SELECT inbox.resume('consumer', '', 'why')") is True, "the earlier name means it"
    assert value(db, "SELECT inbox.pause('consumer', '', 'why')") is True
    assert value(db, "SELECT array_agg(name) FROM inbox.inbox_pauses") == ["billing"], "a pause of the earlier name would stop nothing"
    rename(db, "billing", "invoices")
    assert db.execute("SELECT old_name, new_name FROM inbox.inbox_renames ORDER BY 1").fetchall() == [("", "invoices"), ("billing", "invoices")]
    assert value(db, "SELECT (inbox.result('s', 'a')).status") == "processed", "the earlier names still mean it"
    rename(db, "invoices", "")
    assert db.execute("SELECT old_name, new_name FROM inbox.inbox_renames ORDER BY 1").fetchall() == [("billing", ""), ("invoices", "")]
    assert states(db) == [("a", "", "processed")]
    assert value(db, "SELECT inbox.forget_consumer('billing')") is True, "an earlier name can be used again"


@pytest.mark.parametrize("name, new_name, words", [
    ("", "", "has this name already"), ("", "Big", "is no name of a consumer"), ("gone", "x", 'no consumer "gone"; there are: "", "other"'),
    ("", "other", "handler of its own, \"h\".*inboxd handlers forget 'h' --consumer 'other'.*Under another name, both"), (None, "x", "must be given"), ("", "was", 'earlier name of consumer "other"'),
    ("was", "x", 'was renamed to "other"')])
def test_a_rename_that_could_mix_messages_is_refused(db, name, new_name, words):
    know(db, "")
    know(db, "was")
    rename(db, "was", "other")
    db.execute("INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('h', 'other', '[]', '1 h', now(), now(), now())")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
        db.execute("SELECT inbox.rename_consumer(%s, %s)", [name, new_name])


def test_the_consumer_without_a_name_goes_on_until_it_is_forgotten(db, statements):
    know(db, "", listed_at="2020-01-01")
    know(db, "search", listed_at="2020-01-01")
    assert [row[0] for row in statements.run("known_consumers")] == [""]
    assert db.execute("SELECT inbox.consumers_of('t', 'x')").fetchall() == [("",)]
    assert db.execute("SELECT name, status, known_until IS NULL FROM inbox.consumers ORDER BY 1").fetchall() == \
        [("", "unlisted", True), ("search", "lapsed", False)]
    value(db, "SELECT inbox.forget_consumer('')")
    assert statements.run("known_consumers") == []


def test_a_lapsed_consumer_with_a_connected_handler_is_in_the_status(db):
    db.execute("INSERT INTO inbox.inbox_handlers (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)"
               " VALUES ('h', 'search', '[]', '1 h', now(), now(), now())")
    db.execute("""UPDATE inbox.inbox_instances SET handlers = '[{"name": "h", "consumer": "search"}]'""")
    assert [(c["name"], c["status"], c["handlers"]) for c in value(db, "SELECT inbox.status()")["consumers"]] == \
        [("search", "lapsed", ["h"])]
