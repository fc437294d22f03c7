"""The final check of each test of database faults, and its helpers."""

KEYS = 7


def produce_all(streams, topic, count, first=0):
    """Ids e0, e1 …; the number modulo KEYS is the key, so each key's numbers rise."""
    streams.events(topic, [f"e{number}" for number in range(first, first + count)],
                   key=lambda event_id: str(int(event_id[1:]) % KEYS))


def by_time(clients):
    return sorted((delivery for client in clients for delivery in client.deliveries),
                  key=lambda delivery: delivery.received_at)


def assert_processed(inbox, count, timeout=30):
    """Every message once in the table, processed, and no attempt spent."""
    inbox.wait_processed(count, timeout=timeout)
    rows = inbox.messages()
    assert {row["event_id"] for row in rows} == {f"e{number}" for number in range(count)}
    assert {row["retry_count"] for row in rows} == {0}


def assert_whole(inbox, count, *clients, timeout=30):
    """Like assert_processed, and deliveries are in the order of their key: no message is delivered for the first time
    after a younger one, and repeated deliveries come before younger ones."""
    assert_processed(inbox, count, timeout)
    deliveries = by_time(clients)
    assert {delivery.event_id for delivery in deliveries} == {f"e{n}" for n in range(count)}
    assert {delivery.attempt for delivery in deliveries} == {1}
    last = {}
    for delivery in deliveries:
        number = int(delivery.event_id[1:])
        assert number >= last.get(delivery.key, 0), f"{delivery} came after e{last[delivery.key]}"
        last[delivery.key] = number


def log_events(sidecar, event):
    return [line for line in sidecar.stderr.splitlines() if f"event={event} " in line]
