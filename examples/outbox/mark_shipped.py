"""The order service's other half: notes which orders were shipped.    mark_shipped.py"""
import inboxd
import psycopg

handler = inboxd.Handler("orders")


@handler.on("shipping.shipments", "order.shipped")
def mark(delivery):
    with psycopg.connect() as connection:
        connection.execute("UPDATE orders SET shipments = shipments + 1 WHERE id = %s", [delivery.event.data["order"]])
        delivery.complete(connection)


handler.run()
