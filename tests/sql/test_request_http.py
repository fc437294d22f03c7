"""Idempotency keys as a middleware of HTTP uses them: what http_request_begin() reads and answers, and what http_request_complete()
stores."""

import collections
import datetime
import email.utils
import hashlib
import json

import psycopg
import pytest

from test_operators import value
from test_requests import raised, set_back

Begun = collections.namedtuple("Begun", "verdict token status headers body")
PROBLEM = "application/problem+json"


def begin(connection, header="k", method="POST", target="/orders?a=b", content=b"17", **named):
    names = ", ".join(["%s", "%s", "%s", "%s::bytea", *(f"{name} => %s" for name in named)])
    return Begun(*connection.execute(f"SELECT verdict, token, status, headers, body FROM inbox.http_request_begin({names})",
                                     [header, method, target, content, *named.values()]).fetchone())


def complete(connection, token, status=201, headers=None, body=b"done"):
    """(commits, expires)"""
    return connection.execute("SELECT commits, expires FROM inbox.http_request_complete(%s, %s, %s::jsonb, %s)",
                              [token, status, json.dumps(headers or {}), body]).fetchone()


def serve(connection, status=201, headers=None, body=b"done", **named):
    """As a middleware does: (what began, (commits, expires) or None)."""
    with connection.transaction() as transaction:
        begun = begin(connection, **named)
        ended = complete(connection, begun.token, status, headers, body) if begun.verdict == "started" else None
        if ended and not ended[0]:
            raise psycopg.Rollback(transaction)
    return begun, ended


def problem(begun):
    found = json.loads(begun.body)
    assert (begun.headers["content-type"], found["status"], bool(found["title"] and found["detail"])) == (PROBLEM, begun.status, True)
    return begun.verdict, begun.status, found["type"]


def test_the_first_copy_runs_and_the_next_ones_get_its_answer(db):
    first, (commits, expires) = serve(db, headers={"content-type": "text/html", "location": "/orders/17"}, body=b"\0\xff")
    assert (first[2:], commits) == ((None, None, None), True)
    again, _ = serve(db)
    assert (again.verdict, again.token, again.status, again.body) == ("replay", None, 201, b"\0\xff")
    assert again.headers == {"content-type": "text/html", "location": "/orders/17", "idempotency-expires": expires,
                             "idempotent-replayed": "true"}


def test_the_time_of_expiry_is_a_date_of_http(db):
    db.execute("SET timezone = 'Asia/Tokyo'")
    _, (_, expires) = serve(db, keep=datetime.timedelta(hours=1))
    stored = value(db, "SELECT expires_at FROM inbox.requests")
    assert expires == email.utils.format_datetime(stored.astimezone(datetime.timezone.utc), usegmt=True)


def test_fingerprint_and_operation_are_those_of_the_request(db):
    serve(db, header="k", target="/orders?a=b", content=b"17", scope="t")
    assert db.execute("SELECT scope, key, operation, fingerprint FROM inbox.requests").fetchall() == [
        ("t", "k", "POST /orders", hashlib.sha256(b"POST /orders?a=b\n17").digest())]
    assert value(db, "SELECT fingerprint = inbox.request_digest('POST', '/orders?a=b', '17') FROM inbox.requests")


def test_another_request_with_the_key_is_a_mismatch(db):
    serve(db)
    for other in ({"method": "PATCH"}, {"target": "/orders?a=c"}, {"content": b"18"}, {"content": None}):
        refused = serve(db, **other)[0]
        assert problem(refused) == ("mismatch", 422, "key-reused")
        assert "retry-after" not in refused.headers


def test_a_copy_beside_the_first_one_is_told_to_come_back(db, connect):
    with connect().transaction() as _, db.transaction():
        assert begin(db).verdict == "started"
        busy = begin(connect())
    assert problem(busy) == ("busy", 409, "request-outstanding")
    assert busy.headers["retry-after"] == "1"


def test_beside_a_lease_the_answer_says_when_it_ends(db):
    fingerprint = hashlib.sha256(b"POST /orders?a=b\n17").digest()
    db.execute("SELECT inbox.request_begin('k', %s, operation => 'POST /orders', lease => '1 hour')", [fingerprint])
    assert 3500 < int(begin(db).headers["retry-after"]) <= 3600


def test_a_lease_that_ended_without_a_result_is_lost_until_an_operator_decides(db):
    arguments = [hashlib.sha256(b"POST /orders?a=b\n17").digest(), "POST /orders"]
    db.execute("SELECT inbox.request_begin('k', %s, operation => %s, lease => '1 hour')", arguments)
    set_back(db, "locked_until", by="2 hours")
    for _ in range(2):
        lost = serve(db)[0]
        assert (lost.token, *problem(lost)) == (None, "lost", 409, "outcome-unknown")
        assert "retry-after" not in lost.headers
    assert problem(serve(db, content=b"18")[0]) == ("mismatch", 422, "key-reused")
    db.execute("SELECT inbox.request_forget('', 'k', 'looked it up')")
    assert serve(db)[0].verdict == "started"


def test_a_lease_that_failed_after_a_point_is_lost(db):
    """The middleware would run the steps before the point again."""
    token = value(db, "SELECT token FROM inbox.request_begin('k', %s, operation => 'POST /orders', lease => '1 hour')",
                  hashlib.sha256(b"POST /orders?a=b\n17").digest())
    db.execute("SELECT inbox.request_extend(%s, point => 'charged'), inbox.request_fail(%s)", [token, token])
    lost = serve(db)[0]
    assert (lost.token, *problem(lost)) == (None, "lost", 409, "outcome-unknown")


def test_a_lease_that_failed_runs_again(db):
    token = value(db, "SELECT token FROM inbox.request_begin('k', %s, operation => 'POST /orders', lease => '1 hour')",
                  hashlib.sha256(b"POST /orders?a=b\n17").digest())
    db.execute("SELECT inbox.request_fail(%s)", [token])
    assert serve(db)[0].verdict == "started"


def test_a_key_is_a_quoted_string_or_a_bare_value(db):
    for header, key in {
            "k": "k", " l\t": "l", '"m"': "m", r'"a \"b\" \\"': 'a "b" \\', "a-b_c:d/e~": "a-b_c:d/e~", '" "': " ", "'": "'",
            "a" * 255: "a" * 255, '"' + r'\"' * 255 + '"': '"' * 255, r"a\b": r"a\b", "[]{}": "[]{}", '"[]"': "[]"}.items():
        serve(db, header=header)
        assert value(db, "DELETE FROM inbox.requests RETURNING key") == key


def test_another_header_is_refused(db):
    for header in [
            None, "", " ", "a" * 256, '"' + "a" * 256 + '"', '"open', 'open"', '"a" "b"', "a, b", "a b", "ü", '"ü"', '""', r'"\a"', '"\\"',
            "a\nb", '"a\tb"', "\x7f", '"a";b=1']:
        assert problem(begin(db, header=header)) == ("invalid", 400, "key-missing" if header is None else "key-invalid"), header


def test_without_a_key_a_request_may_run(db):
    begun = begin(db, header=None, required=False)
    assert begun == ("started", None, None, None, None)
    assert complete(db, None, 201) == complete(db, None, 409) == (True, None)
    assert complete(db, None, 500) == (False, None)
    assert problem(begin(db, header="", required=False)) == ("invalid", 400, "key-invalid")
    assert value(db, "SELECT count(*) FROM inbox.requests") == 0


def test_these_statuses_are_not_stored(db):
    for status in (401, 403, 408, 409, 425, 429, 500, 503, 599):
        assert serve(db, status)[1] == (False, None)
    assert serve(db)[0].verdict == "started"


def test_other_statuses_are_stored(db):
    for status in (200, 204, 302, 400, 404, 410, 422, 499):
        assert serve(db, status, header=f"k{status}")[1][0]
        assert serve(db, header=f"k{status}")[0].status == status


def test_an_empty_response_is_replayed(db):
    serve(db, 204, None, None)
    again, _ = serve(db)
    assert (again.status, again.body, set(again.headers)) == (204, b"", {"idempotency-expires", "idempotent-replayed"})


def test_headers_have_one_name_and_one_value(db):
    serve(db, headers={"Vary": ["a", "b"], "vary": "c", "X-Count": 5, "x-none": None, "x-empty": [], "Content-Type": ["text/html"]})
    assert value(db, "SELECT headers FROM inbox.requests") in [
        {"vary": vary, "x-count": "5", "content-type": "text/html"} for vary in ("a, b, c", "c, a, b")]


def test_headers_of_one_connection_or_client_are_not_stored(db):
    serve(db, headers={name: "v" for name in ("Connection", "Content-Length", "Date", "keep-alive", "Proxy-Authenticate",
                                              "proxy-authorization", "proxy-connection", "Set-Cookie", "set-cookie2", "TE", "trailer",
                                              "transfer-encoding", "upgrade", "X-Own")})
    assert value(db, "SELECT headers FROM inbox.requests") == {"x-own": "v"}


def test_all_that_cannot_be_stored_is_dropped(db):
    """request_complete() refuses nothing that http_request_complete() keeps."""
    names = value(db, "SELECT inbox.unstored_headers()")
    for name in names:
        assert "belongs to one connection" in value(db, "SELECT inbox.response_headers_fault(%s::jsonb)", json.dumps({name: "v"}))
    serve(db, headers={**dict.fromkeys(names, "v"), "x-own": "v"})
    assert value(db, "SELECT headers FROM inbox.requests") == {"x-own": "v"}


def test_a_long_target_has_a_short_operation(db):
    for number, target in enumerate(["/" + "a" * 200, "/" + "é" * 100, "/" + "😀" * 100]):
        serve(db, header=f"k{number}", target=target)
        assert serve(db, header=f"k{number}", target=target)[0].verdict == "replay"
        assert problem(serve(db, header=f"k{number}", target=target + "b")[0])[1] == 422
    assert value(db, "SELECT max(octet_length(operation)) FROM inbox.requests") == 128


def test_a_wrong_argument_of_begin_is_named(db):
    for wrong, words in (({"scope": None}, "scope is NULL"), ({"method": None}, "operation is NULL"), ({"target": None}, "operation is NULL"),
                         ({"keep": datetime.timedelta(days=91)}, "keep is")):
        assert words in raised("IB010", begin, db, **wrong).message_primary


def test_a_response_that_cannot_be_stored_is_an_error(db):
    for wrong, words in (({"status": None}, "status is NULL"), ({"body": bytes((1 << 20) + 1)}, "body has"),
                         ({"headers": {"a": "b\r\nc: d"}}, "control character"), ({"headers": {"a b": "c"}}, "no name of a header"),
                         ({"headers": {"a": "b" * 17_000}}, "headers has")):
        with db.transaction(force_rollback=True):
            assert words in raised("IB010", complete, db, begin(db).token, **wrong).message_primary


def test_a_token_of_another_transaction_completes_nothing(db):
    raised("IB011", complete, db, begin(db).token)


def test_the_statement_that_failed_before_is_no_response(db):
    for header in ("k", None):
        with pytest.raises(psycopg.errors.InFailedSqlTransaction), db.transaction():
            token = begin(db, header=header, required=False).token
            with pytest.raises(psycopg.errors.DivisionByZero):
                db.execute("SELECT 1 / 0")
            complete(db, token)
