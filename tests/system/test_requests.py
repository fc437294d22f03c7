"""Requests with an idempotency key, from outside: `inboxd requests`, retention and metrics of a running sidecar."""

import pytest

from support.wait import eventually
from test_commands import objects, run


@pytest.fixture
def sidecar(make_inboxd):
    """A sidecar with a schema; it does not run."""
    sidecar = make_inboxd()
    run(sidecar, "migrate")
    return sidecar


def begin(inbox, key, **named):
    arguments = ", ".join(["%s", "'f'", *(f"{name} => %s" for name in named)])
    return inbox.value(f"SELECT token FROM inbox.request_begin({arguments})", [key, *named.values()])


def store(inbox, key, body=b"{}", **named):
    """A completed request."""
    token = begin(inbox, key, lease="1 minute", **named)
    inbox.execute("SELECT inbox.request_complete(%s, 201, %s, '{\"location\": \"/orders/17\"}')", [token, body])


@pytest.fixture
def requests(inbox, sidecar):
    """Four requests: completed, lost, failed, and pending in another scope."""
    assert sidecar
    store(inbox, "done", operation="POST /orders")
    inbox.execute("SELECT inbox.request_extend(%s, point => 'charged')", [begin(inbox, "lost", lease="1 minute")])
    inbox.execute("UPDATE inbox.requests SET locked_until = now() - interval '1 minute' WHERE key = 'lost'")
    inbox.execute("SELECT inbox.request_fail(%s, 'upstream 503')", [begin(inbox, "failed", lease="1 minute")])
    begin(inbox, "running", scope="tenant-a", lease="1 hour", keep="2 days")


def refused(sidecar, *arguments, code, words):
    """The command ends with this exit code, and its error has these words."""
    assert words in run(sidecar, "requests", *arguments, code=code)


def keys(sidecar, *options):
    return [row["key"] for row in objects(run(sidecar, "requests", "list", "--json", *options))]


def test_list_is_a_table_of_the_requests_that_expire_last(sidecar, requests):
    lines = run(sidecar, "requests", "list").splitlines()
    assert lines[0].split() == ["SCOPE", "KEY", "OPERATION", "STATE", "ATTEMPT", "STATUS", "BEGUN", "EXPIRES", "ERROR"]
    for line, part in zip(lines[1:], ["tenant-a  running", "FAILED", "PENDING, lost", "POST /orders"]):
        assert part in line
    assert "upstream 503" in lines[2]
    (row,) = objects(run(sidecar, "requests", "list", "--status", "completed", "--json"))
    assert (row["key"], row["status"], row["body_bytes"], "body" in row) == ("done", 201, 2, False)


def test_list_has_filters(sidecar, requests):
    for options, found in [
            (["--status", "lost"], ["lost"]), (["--status", "pending"], ["running", "lost"]), (["--status", "failed"], ["failed"]),
            (["--scope", "tenant-a"], ["running"]), (["--scope", ""], ["failed", "lost", "done"]), (["--limit", "1"], ["running"]),
            (["--scope", "tenant-a", "--status", "completed"], [])]:
        assert keys(sidecar, *options) == found, options


def test_show_prints_a_request_and_its_response_only_with_body(sidecar, requests):
    text = run(sidecar, "requests", "show", "done")
    for part in ("key: done", "operation: POST /orders", "state: COMPLETED", "status: 201", "body: 2 bytes"):
        assert part in text
    assert "location" not in text
    text = run(sidecar, "requests", "show", "done", "--body")
    assert text.endswith("\nheaders\n  location: /orders/17\n\nbody\n{}\n")
    (row,) = objects(run(sidecar, "requests", "show", "done", "--body", "--json"))
    assert (row["headers"], row["body"], row["state"]) == ({"location": "/orders/17"}, "e30=", "COMPLETED")
    text = run(sidecar, "requests", "show", "lost")
    assert "lost: yes" in text and "recovery point: charged" in text


def test_show_prints_bytes_that_are_no_text_as_hexadecimal(sidecar, inbox):
    store(inbox, "bytes", b"\x00\xff")
    assert "00 ff" in run(sidecar, "requests", "show", "bytes", "--body")


def test_forget_asks_and_is_audited(sidecar, requests, inbox):
    refused(sidecar, "forget", "running", code=1, words="is PENDING and still has its lease; its next copy runs again? stdin is not")
    run(sidecar, "requests", "forget", "lost", "--dry-run")
    assert "lost" in keys(sidecar)
    (done,) = objects(run(sidecar, "requests", "forget", "lost", "--reason", "ticket", "--yes", "--json"))
    assert done == {"action": "forget", "count": 1, "dry_run": False}
    assert run(sidecar, "requests", "forget", "running", "--scope", "tenant-a", "--yes").startswith("forgotten")
    assert keys(sidecar) == ["failed", "done"]
    assert inbox.query("SELECT action, reason FROM inbox.inbox_audit ORDER BY seq")[0] == {"action": "request_forget", "reason": "ticket"}


@pytest.mark.parametrize(("arguments", "code", "words"), [
    ([], 1, "give one of list, show, forget"), (["lst"], 1, "give one of list, show, forget"), (["show"], 1, "give a key"),
    (["list", "done"], 1, 'does not take the argument "done"'), (["list", "--body"], 1, "does not take --body"),
    (["show", "done", "--status", "lost"], 1, "does not take --status"), (["show", "done", "--reason", "r"], 1, "does not take --reason"),
    (["show", "nothing"], 6, 'no request with the key "nothing"'), (["forget", "done", "--scope", "x", "--yes"], 6, 'in the scope "x"')])
def test_a_wrong_command_line_is_explained(sidecar, requests, arguments, code, words):
    refused(sidecar, *arguments, code=code, words=words)


def test_control_characters_of_a_request_do_not_reach_the_terminal(sidecar, inbox):
    store(inbox, "k", operation="\x1b[2J")
    for command in (["list"], ["show", "k"], ["forget", "k", "--dry-run"]):
        printed = run(sidecar, "requests", *command)
        assert "?[2J" in printed and "\x1b" not in printed


def test_a_key_of_several_scopes_needs_the_scope(sidecar, requests, inbox):
    store(inbox, "done", scope="tenant-a")
    refused(sidecar, "show", "done", code=1, words="select one with --scope")
    assert "scope: tenant-a" in run(sidecar, "requests", "show", "done", "--scope", "tenant-a")
    assert "scope" not in run(sidecar, "requests", "show", "done", "--scope", "")


def test_an_operator_may_forget_but_not_read_a_response(sidecar, requests, inbox, name):
    run(sidecar, "migrate", "--roles=inboxd")
    operator, reader = f"op_{name}"[:60], f"rd_{name}"[:60]
    for user, role in ((operator, "inboxd_operator"), (reader, "inboxd_reader")):
        inbox.execute(f'CREATE ROLE "{user}" LOGIN IN ROLE {role}')
    try:
        as_operator, as_reader = ["--set", f"postgres.user={operator}"], ["--set", f"postgres.user={reader}"]
        assert "state: COMPLETED" in run(sidecar, "requests", "show", "done", *as_reader)
        refused(sidecar, "show", "done", "--body", *as_operator, code=3, words="only the owner of the schema may read")
        refused(sidecar, "forget", "done", "--yes", *as_reader, code=3, words="GRANT inboxd_operator")
        run(sidecar, "requests", "forget", "done", "--yes", *as_operator)
    finally:
        for user in (operator, reader):
            inbox.execute(f'DROP ROLE "{user}"')


def test_a_running_sidecar_deletes_expired_requests_and_counts_the_others(inboxd, inbox):
    for key in ("done", "old"):
        store(inbox, key, b"a secret body", keep="1 minute")
    begin(inbox, "lost", lease="1 minute")
    inbox.execute("SELECT inbox.request_fail(%s, 'upstream 503')", [begin(inbox, "failed", lease="1 minute")])
    inbox.execute("UPDATE inbox.requests SET locked_until = now() WHERE key = 'lost'")
    inbox.execute("UPDATE inbox.requests SET expires_at = now() WHERE key = 'old'")

    def counted():
        metrics = inboxd.metrics()
        return [metrics.value("inboxd_requests", state=state) for state in ("COMPLETED", "PENDING", "FAILED")] + [
            metrics.value("inboxd_requests_lost"), metrics.value("inboxd_requests_expired_total")]

    eventually(lambda: counted() == [1, 1, 1, 1, 1], timeout=60)
    assert inbox.value("SELECT array_agg(key ORDER BY key) FROM inbox.requests") == ["done", "failed", "lost"]
    assert inbox.value("SELECT array_agg(key ORDER BY key) FROM inbox.requests WHERE holder <> 0") == ["failed", "lost"]
    assert "secret" not in inboxd.stderr
