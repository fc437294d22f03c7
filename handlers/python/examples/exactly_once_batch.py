import inboxd
import psycopg_pool

pool = psycopg_pool.ConnectionPool(
    kwargs={"connect_timeout": 5}, min_size=1, max_size=1, timeout=10, reconnect_timeout=5, open=True
)
handler = inboxd.Handler("invoices", batch=50, batch_wait=0.01, ordered=True)


@handler.on_batch("orders")
def make_invoices(batch):
    with pool.connection() as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO invoices (order_id, cents) VALUES (%s, %s)",
            [(delivery.event.data["order"], delivery.event.data["cents"]) for delivery in batch],
        )
        batch.complete(connection)


handler.run()
pool.close()
