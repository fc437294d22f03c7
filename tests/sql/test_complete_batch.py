"""inbox.complete with several claims: all or none of them, in one call."""

import threading

import psycopg
import pytest

from support.wait import eventually
from test_functions import insert, row_of


def complete(connection, claims, results=None):
    connection.execute("SELECT inbox.complete(%s::text[], %s::jsonb[])", [claims, results])


def run(db, count):
    """A run of one key that is claimed; returns its seqs and claims."""
    seqs = [insert(db, f"e{offset}", kafka_offset=offset) for offset in range(count)]
    return seqs, [f"{seq}.1.1" for seq in seqs]


def completed(db):
    return [row[0] for row in db.execute("SELECT seq FROM inbox.inbox_messages WHERE processed_at IS NOT NULL ORDER BY 1")]


def refused(connection, claims, results=None):
    """The error of a call."""
    with pytest.raises(psycopg.Error) as raised:
        complete(connection, claims, results)
    return raised.value.sqlstate, raised.value.diag.message_primary


def test_a_run_is_completed_in_one_call(db):
    seqs, claims = run(db, 3)
    complete(db, claims)
    assert completed(db) == seqs
    assert [row_of(db, seq)["result"] for seq in seqs] == [None] * 3


def test_each_message_gets_its_own_result(db):
    seqs, claims = run(db, 3)
    complete(db, claims[::-1], ['{"n": 2}', "null", "[0]"])
    assert [row_of(db, seq)["result"] for seq in seqs] == [[0], None, {"n": 2}]
    assert db.execute("SELECT count(*) FROM inbox.inbox_messages WHERE result IS NULL").fetchone() == (1,)


def test_a_run_clears_crash_counts_and_suspect_flags(db):
    seqs = [insert(db, "a", suspect=True, crash_count=2), insert(db, "b", kafka_offset=2, crash_count=1)]
    complete(db, [f"{seq}.1.1" for seq in seqs])
    assert [(row_of(db, seq)["crash_count"], row_of(db, seq)["suspect"]) for seq in seqs] == [(1, False), (1, False)]


@pytest.mark.parametrize("change", ["claimed_by = 2", "delivery_count = 2", "processed_at = now()",
                                    "dead_at = now()", "available_at = now(), claimed_by = NULL"])
def test_one_lost_claim_completes_none(db, change):
    seqs, claims = run(db, 3)
    db.execute(f"UPDATE inbox.inbox_messages SET {change} WHERE seq = %s", [seqs[1]])
    before = completed(db)
    assert refused(db, claims) == ("IB001", f"inbox.complete: claim {claims[1]} is lost")
    assert completed(db) == before


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_the_first_lost_claim_of_the_array_is_named(db, order):
    seqs, claims = run(db, 4)
    db.execute("UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = ANY (%s)", [seqs[1:3]])
    given = [claims[at] for at in order]
    first = next(claim for claim in given if claim in claims[1:3])
    assert refused(db, given) == ("IB001", f"inbox.complete: claim {first} is lost")


def test_a_claim_that_is_given_twice_is_lost(db):
    seqs, claims = run(db, 2)
    assert refused(db, [*claims, f"0{claims[0]}"]) == ("IB001", f"inbox.complete: claim 0{claims[0]} is lost")
    assert refused(db, [claims[1], *claims]) == ("IB001", f"inbox.complete: claim {claims[1]} is lost")
    assert completed(db) == []
    complete(db, claims)
    assert completed(db) == seqs


@pytest.mark.parametrize("wrong, named", [(None, "NULL"), ("", "''"), ("1.1", "'1.1'"), ("1.1.2147483648", "'1.1.2147483648'")])
def test_the_first_text_that_is_not_a_claim_is_named(db, wrong, named):
    seqs, claims = run(db, 2)
    db.execute("UPDATE inbox.inbox_messages SET delivery_count = 2 WHERE seq = %s", [seqs[0]])
    assert refused(db, [*claims, wrong, "x"]) == ("IB002", f"inbox.complete: {named} is not a claim")
    assert completed(db) == []


def test_no_claims_do_nothing_but_null_is_not_a_claim(db):
    run(db, 1)
    complete(db, [])
    complete(db, [], [])
    assert refused(db, None) == ("IB002", "inbox.complete: NULL is not a claim")
    assert completed(db) == []


@pytest.mark.parametrize("results, why", [
    (["1"], "there are 2 claims but 1 results"), (["1", "2", "3"], "there are 2 claims but 3 results"),
    ([], "there are 2 claims but 0 results")])
def test_results_must_match_the_claims(db, results, why):
    _, claims = run(db, 2)
    assert refused(db, claims, results) == ("22023", f"inbox.complete: {why}")
    assert completed(db) == []


def test_results_without_claims_are_refused(db):
    assert refused(db, [], ["1"]) == ("22023", "inbox.complete: there are 0 claims but 1 results")


@pytest.mark.parametrize("call", ["'{}'", "'{}', NULL", "'{}', '{{\"ok\": true}}'", "'{}'::varchar"])
def test_a_single_claim_without_a_type_is_a_text(db, call):
    """The documented call of the function for one message stays unambiguous, with untyped arguments too."""
    seqs, claims = run(db, 1)
    db.execute(f"SELECT inbox.complete({call.format(*claims)})")
    assert completed(db) == seqs
    db.execute("PREPARE untyped AS SELECT inbox.complete($1, $2)")
    assert db.execute("SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped'").fetchone() == \
        (["text", "text"],)
    db.execute("DEALLOCATE untyped")


def test_an_array_without_a_type_gets_a_hint(db):
    _, claims = run(db, 2)
    with pytest.raises(psycopg.Error) as raised:
        db.execute("SELECT inbox.complete(%s)", [claims])
    assert raised.value.sqlstate == "IB002"
    assert "$1::text[]" in raised.value.diag.message_hint


@pytest.mark.parametrize("function", ["complete(%s::text[])", "complete((%s::text[])[2])"])
def test_a_row_that_a_trigger_of_the_user_leaves_out_is_not_completed(db, function):
    """A BEFORE trigger that returns NULL skips the row. Without an error, the handler would commit an effect for a message that comes
    again."""
    seqs, claims = run(db, 3)
    db.execute("CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    db.execute("CREATE TRIGGER leave_out BEFORE UPDATE ON inbox.inbox_messages FOR EACH ROW WHEN (NEW.event_id = 'e1')"
               " EXECUTE FUNCTION leave_out()")
    try:
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT inbox.{function}", [claims])
        assert (raised.value.sqlstate, raised.value.diag.message_primary) == ("IB001", f"inbox.complete: claim {claims[1]} is lost")
        assert completed(db) == []
    finally:
        db.execute("DROP FUNCTION leave_out CASCADE")
    complete(db, claims)
    assert completed(db) == seqs


def test_a_rollback_gives_all_claims_back(db):
    seqs, claims = run(db, 3)
    db.execute("CREATE TABLE inbox.effects (seq bigint)")
    with db.transaction(force_rollback=True):
        db.execute("INSERT INTO inbox.effects SELECT unnest(%s::bigint[])", [seqs])
        complete(db, claims)
    assert completed(db) == []
    assert {row_of(db, seq)["status"] for seq in seqs} == {"claimed"}
    complete(db, claims)
    assert completed(db) == seqs


def test_effects_of_a_run_and_its_completion_are_one_transaction(db, connect):
    """Two handlers have a message in common: only the effects of one of them survive."""
    seqs, claims = run(db, 3)
    db.execute("CREATE TABLE inbox.effects (who text)")
    other = connect()
    with pytest.raises(psycopg.Error) as raised, other.transaction():
        other.execute("INSERT INTO inbox.effects VALUES ('late')")
        with db.transaction():
            db.execute("INSERT INTO inbox.effects VALUES ('first')")
            complete(db, claims[:2])
        complete(other, claims[1:])
    assert raised.value.sqlstate == "IB001"
    assert claims[1] in raised.value.diag.message_primary
    assert db.execute("SELECT who FROM inbox.effects").fetchall() == [("first",)]
    assert completed(db) == seqs[:2]


class Waiting:
    """A connection that completes these claims in a transaction, in a thread."""

    def __init__(self, connection, claims):
        self.connection, self.claims, self.sqlstate = connection, claims, None
        self.thread = threading.Thread(target=self._complete)

    def _complete(self):
        try:
            complete(self.connection, self.claims)
        except psycopg.Error as error:
            self.sqlstate = error.sqlstate

    def start(self, db):
        self.thread.start()
        eventually(lambda: db.execute("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s",
                                      [self.connection.info.backend_pid]).fetchone()[0],
                   what="the completion waits for a row lock")
        return self

    def result(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.sqlstate


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_rows_are_locked_in_the_order_of_seq(db, connect, order):
    """So two transactions with the same rows do not wait for each other."""
    seqs, claims = run(db, 3)
    with db.transaction():
        db.execute("SELECT FROM inbox.inbox_messages WHERE seq = %s FOR UPDATE", [seqs[1]])
        waiting = Waiting(connect(), claims[order]).start(db)
        free = db.execute("SELECT seq FROM inbox.inbox_messages ORDER BY seq FOR UPDATE SKIP LOCKED").fetchall()
        assert free == [(seqs[1],), (seqs[2],)]
    assert waiting.result() is None
    assert completed(db) == seqs


@pytest.mark.parametrize("outcome, sqlstate", [("COMMIT", "IB001"), ("ROLLBACK", None)])
def test_a_run_waits_for_the_settle_of_one_of_its_rows(db, connect, outcome, sqlstate):
    seqs, claims = run(db, 3)
    db.execute("BEGIN")
    db.execute("UPDATE inbox.inbox_messages SET available_at = now(), claimed_by = NULL WHERE seq = %s", [seqs[2]])
    waiting = Waiting(connect(), claims).start(db)
    db.execute(outcome)
    assert waiting.result() == sqlstate
    assert completed(db) == ([] if sqlstate else seqs)


def test_many_messages_are_completed_in_one_call(db):
    db.execute("""
        INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, claimed_by, delivery_count)
        SELECT 's', 'e' || i, 'orders', 0, i, 1, 1 FROM generate_series(1, 10000) i""")
    db.execute("SELECT inbox.complete(array_agg(seq || '.1.1'), array_agg(to_jsonb(kafka_offset))) FROM inbox.inbox_messages")
    assert db.execute("SELECT count(*) FROM inbox.inbox_messages WHERE processed_at IS NOT NULL"
                      " AND result = to_jsonb(kafka_offset)").fetchone() == (10000,)
