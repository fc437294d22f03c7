"""A handler of tests/languages/test_requests_end_to_end.py: its effect is a row of the table shipments, which commits with the message."""

import random
import time

import inboxd
import psycopg_pool

pool = psycopg_pool.ConnectionPool(kwargs={"connect_timeout": 5}, max_size=4, timeout=10, reconnect_timeout=5, open=True)
handler = inboxd.Handler("shipments", workers=4)


@handler.on("orders")
def ship(delivery):
    order = delivery.event.data
    with pool.connection() as connection:
        connection.execute("INSERT INTO shipments (order_id, item, event_id) VALUES (%s, %s, %s)",
                           [order["id"], order["item"], delivery.event.id])
        time.sleep(random.uniform(0, 0.05))  # so that kills find it in its transaction
        delivery.complete(connection, {"shipped": True})


handler.run()
