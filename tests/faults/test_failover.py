"""PostgreSQL fails over, turns read-only, fills up or hides behind a pooler: nothing is lost, no attempt is
spent, work resumes by itself.
"""

import contextlib
import socket

import pytest

from support.inbox import Inbox
from support.proxy import Proxy
from support.scripts import always, DONE
from support.wait import eventually
from whole import assert_processed, assert_whole, log_events, produce_all


# --- Standbys -----------------------------------------------------------------------------------------


def test_a_silent_host_does_not_hide_the_one_behind_it(start_inboxd, handler, postgres, streams, topic,
                                                       inbox):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sidecar = start_inboxd(postgres={
            "host": "127.0.0.1,127.0.0.1", "connect_timeout": 1,
            "port": f"{silent.getsockname()[1]},{postgres.port}"})
        client = handler(sidecar, always(DONE))
        produce_all(streams, topic, 100)
        assert_whole(inbox, 100, client)


def test_a_standby_in_the_list_is_passed_over(start_inboxd, handler, make_server, make_standby, streams,
                                              topic):
    primary = make_server()
    standby = make_standby(primary)
    sidecar = start_inboxd(postgres={"host": "127.0.0.1,127.0.0.1", "dbname": "postgres",
                                     "port": f"{standby.port},{primary.port}"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 100)
    with contextlib.closing(Inbox(primary.conninfo())) as inbox:
        assert_whole(inbox, 100, client)


def test_failover_to_a_standby_that_has_everything(start_inboxd, handler, make_server, make_standby,
                                                   streams, topic):
    primary = make_server(synchronous_standby_names="*")
    standby = make_standby(primary)
    sidecar = start_inboxd(postgres={"host": "127.0.0.1,127.0.0.1", "dbname": "postgres",
                                     "port": f"{primary.port},{standby.port}"})
    client = handler(sidecar, always(DONE))
    produce_all(streams, topic, 1000)
    client.wait_count(300)
    primary.crash()
    standby.promote()
    with contextlib.closing(Inbox(standby.conninfo())) as inbox:
        assert_whole(inbox, 1000, client)


@pytest.mark.parametrize("seen", ["by name", "behind a proxy"])
def test_failover_to_a_copy_that_lost_the_last_commits(start_inboxd, handler, make_server, make_standby,
                                                       streams, topic, seen):
    """What the copy never heard of is read from Kafka again: known to the handler, but not lost."""
    primary = make_server()
    standby = make_standby(primary)
    with Proxy(primary.port) as proxy:
        hosts = ({"host": "127.0.0.1,127.0.0.1", "port": f"{primary.port},{standby.port}"}
                 if seen == "by name" else {"port": proxy.port})
        sidecar = start_inboxd(postgres={"dbname": "postgres", **hosts})
        client = handler(sidecar, always(DONE))
        produce_all(streams, topic, 200)
        with contextlib.closing(Inbox(primary.conninfo())) as inbox:
            inbox.wait_processed(200)
        standby.stop_following()
        produce_all(streams, topic, 200, first=200)
        with contextlib.closing(Inbox(primary.conninfo())) as inbox:
            inbox.wait_processed(400)
        primary.crash()
        standby.promote()
        proxy.lead_to(standby.port)
        with contextlib.closing(Inbox(standby.conninfo())) as inbox:
            assert inbox.count() < 400, "the copy lost nothing: this proves nothing"
            produce_all(streams, topic, 100, first=400)
            assert_processed(inbox, 500)
        repeated = [delivery.event_id for delivery in client.deliveries]
        assert len(set(repeated)) == 500
