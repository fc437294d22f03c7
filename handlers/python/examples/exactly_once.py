import inboxd
import psycopg_pool

pool = psycopg_pool.ConnectionPool(kwargs={"connect_timeout": 5}, max_size=4, timeout=10, reconnect_timeout=5, open=True)
handler = inboxd.Handler("invoices", workers=4)


@handler.on("orders")
def make_invoice(delivery):
    order = delivery.event.data
    with pool.connection() as connection:  # commits at its end, or rolls back
        row = connection.execute(
            "INSERT INTO invoices (order_id, cents) VALUES (%s, %s) RETURNING id",
            (order["order"], order["cents"]),
        ).fetchone()
        delivery.complete(connection, {"invoice": row[0]})


handler.run()
pool.close()
