"""Locks that enforce rules: a claim locks its own instance's row and the partition until it commits."""

import pytest

from statements import ALL, Statements

HASH = b"\0" * 8
CLAIMS = {
    "claim_due": (1, ["orders"], [0], [""], 10, 1000, *ALL, [True], 1, [None], []),
    "claim_lanes": (1, ["orders"], [0], [""], [HASH], 10, 1000, *ALL, 1, []),
    "claim_partitions": (1, ["orders"], [0], [""], [None], 10, 1000, *ALL, 1, []),
}


def lockable(connection, table):
    """The number of rows that could be locked FOR UPDATE now."""
    return len(connection.execute(f"SELECT FROM inbox.{table} FOR UPDATE SKIP LOCKED").fetchall())


@pytest.mark.parametrize("name", ["hold_lease", *CLAIMS])
def test_a_claiming_transaction_locks_its_instance_row(db, connect, name):
    """Rule R4: fencing waits for the transaction to end."""
    other = connect()
    with db.transaction():
        Statements(db).run(name, *CLAIMS.get(name, (1,)))
        assert lockable(other, "inbox_instances") == 0
    assert lockable(other, "inbox_instances") == 1


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claiming_transaction_locks_the_partition_row(db, connect, name):
    """Rule R12: acquiring skips the partition until the claim has ended and is visible."""
    other = connect()
    with db.transaction():
        Statements(db).run(name, *CLAIMS[name])
        assert lockable(other, "inbox_offsets") == 3
    assert lockable(other, "inbox_offsets") == 4
