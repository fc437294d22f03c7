"""The shipping service: ships each order, and says so.    ship.py

The shipment, the completion of the message and the next event are one transaction. The database is that of the shipping service; the
PG* variables of libpq select it.
"""
import inboxd
import psycopg

handler = inboxd.Handler("shipping")


@handler.on("shop.orders", "order.placed")
def ship(delivery):
    order = delivery.event.data
    with psycopg.connect() as connection:  # commits at its end, or rolls back; a larger service has a pool
        shipment, = connection.execute("INSERT INTO shipments (order_id, customer) VALUES (%s, %s) RETURNING id",
                                       [order["order"], order["customer"]]).fetchone()
        delivery.complete(connection, emit=[
            inboxd.Emit("order.shipped", topic="shipping.shipments", key=str(order["order"]),
                        data={"order": order["order"], "shipment": shipment})])
    print(f"shipment {shipment}: order {order['order']}", flush=True)


handler.run()
