"""The orders of a list: by seq, or dead messages by the time of death, each in both directions, page by page."""

import psycopg
import pytest

from test_operators import dead, value, waiting


@pytest.fixture
def graves(db):
    """(seq, hour of death): 60 messages that died in another order than they were stored, some at the same time."""
    rows = []
    for number in range(60):
        hour = number * 7 % 24
        rows.append((dead(db, f"e{number}", dead_at=f"2026-11-21 {hour:02}:00Z", kafka_offset=number), hour))
        waiting(db, f"w{number}", kafka_offset=100 + number)
    return rows


def page(db, order, after=0, most=7, status="dead", **given):
    return db.execute("SELECT * FROM inbox.look_page(jsonb_build_object('status', %s::text, 'order', %s::text) || %s::jsonb, %s, %s)",
                      [status, order, psycopg.types.json.Jsonb(given), after, most]).fetchone()


def walk(db, order, **given):
    """The seqs of all pages; each page begins after the last seq of the page before."""
    seqs, after = [], 0
    while after is not None:
        found, _, after = page(db, order, after, **given)
        seqs += found
        assert len(seqs) <= 200, "the pages begin again"
    return seqs


def test_pages_by_time_of_death_have_each_message_once(db, graves):
    by_death = [seq for seq, _ in sorted(graves, key=lambda row: (row[1], row[0]))]
    assert walk(db, "died") == by_death
    assert walk(db, "died DESC") == by_death[::-1]
    recent = [seq for seq, hour in sorted(graves, key=lambda row: (row[1], row[0])) if 6 <= hour < 20]
    times = {"died_from": "2026-11-21 06:00Z", "died_to": "2026-11-21 20:00Z"}
    assert walk(db, "died DESC", **times) == recent[::-1]
    assert sorted(walk(db, "seq", **times)) == sorted(recent)


def test_pages_by_time_of_death_do_not_depend_on_datestyle(db, graves):
    """IST is the zone of Israel unless timezone_abbreviations is India, and the abbreviation that Asia/Kolkata prints."""
    whole = walk(db, "died DESC")
    times = {"died_from": "2026-11-21T06:00:00Z", "died_to": "2026-11-21T20:00:00Z"}
    some = walk(db, "died", **times)
    db.execute("SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kolkata'")
    assert walk(db, "died DESC") == whole and walk(db, "died", **times) == some
    assert 0 < len(some) < len(whole)


@pytest.mark.parametrize("status", ["dead", "waiting", "any"])
def test_pages_backwards_by_seq_have_each_message_once(db, graves, status):
    forwards = walk(db, "seq", status=status)
    assert len(forwards) == {"any": 120}.get(status, 60) and forwards == sorted(forwards)
    assert walk(db, "seq DESC", status=status) == forwards[::-1]


def test_claimed_messages_are_listed_in_both_directions(db):
    db.execute("DELETE FROM inbox.inbox_instances")
    seqs = [db.execute("INSERT INTO inbox.inbox_messages (source, event_id, topic, kafka_partition, kafka_offset, claimed_by,"
                       " claim_number, delivery_count) VALUES ('s', %s, 'orders', 0, %s, 7, %s, %s) RETURNING seq",
                       [f"c{number}", number, number if number < 10 else None, 2 if number < 10 else 1]).fetchone()[0]
            for number in range(1, 20)]
    db.execute("INSERT INTO inbox.inbox_instances (id, name, low_seq, low_claim) VALUES (7, 'i', %s, 1)", [seqs[9]])
    assert walk(db, "seq", status="claimed") == seqs
    assert walk(db, "seq DESC", status="claimed") == seqs[::-1]


def test_a_page_continues_behind_a_message_that_was_replayed_or_called_done(db, graves):
    whole = walk(db, "died DESC")
    last = page(db, "died DESC")[0][-1]
    db.execute("SELECT inbox.replay(source, event_id) FROM inbox.inbox_messages WHERE seq = %s", [last])
    assert page(db, "died DESC", last)[0] == whole[7:14]
    db.execute("UPDATE inbox.inbox_messages SET processed_at = now(), dead_at = NULL WHERE seq = %s", [whole[13]])
    assert page(db, "died DESC", whole[13])[0] == whole[14:21]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="did not die, or was deleted"):
        page(db, "died DESC", value(db, "SELECT min(seq) FROM inbox.inbox_messages WHERE available_at IS NOT NULL"))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="did not die, or was deleted"):
        page(db, "died DESC", 10**9)


@pytest.mark.parametrize("given, words", [
    ({"status": "waiting", "died_from": "2026-11-21Z"}, "need the status dead"),
    ({"status": "dead", "died_from": "2026-11-22Z", "died_to": "2026-11-21Z"}, "died_from is later than died_to"),
])
def test_times_of_death_are_checked(db, given, words):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
        db.execute("SELECT inbox.check_filter('list', %s::jsonb, ARRAY['dead', 'waiting'])", [psycopg.types.json.Jsonb(given)])
