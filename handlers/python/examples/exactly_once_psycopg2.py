import inboxd
import psycopg2.pool

pool = psycopg2.pool.ThreadedConnectionPool(0, 4, "", connect_timeout=5)
handler = inboxd.Handler("invoices", workers=4)


@handler.on("orders")
def make_invoice(delivery):
    order = delivery.event.data
    connection = pool.getconn()
    try:
        with connection, connection.cursor() as cursor:  # commits at its end, or rolls back
            cursor.execute(
                "INSERT INTO invoices (order_id, cents) VALUES (%s, %s) RETURNING id", (order["order"], order["cents"])
            )
            delivery.complete(connection, {"invoice": cursor.fetchone()[0]})
    finally:
        pool.putconn(connection)


handler.run()
