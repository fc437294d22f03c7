import asyncio
import os

import asyncpg
import inboxd

handler = inboxd.Handler("invoices", max_in_flight=20)


async def main():
    settings = {"application_name": os.environ.get("PGAPPNAME", "invoices")}
    async with asyncpg.create_pool(min_size=0, max_size=10, timeout=5, server_settings=settings) as pool:

        @handler.on("orders")
        async def make_invoice(delivery):
            order = delivery.event.data
            async with pool.acquire() as connection, connection.transaction():
                invoice = await connection.fetchval(
                    "INSERT INTO invoices (order_id, cents) VALUES ($1, $2) RETURNING id",
                    order["order"],
                    order["cents"],
                )
                await delivery.complete(connection, {"invoice": invoice})

        await handler.serve_until_signal()


asyncio.run(main())
