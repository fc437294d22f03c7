import asyncio
import os

import inboxd
from inboxd.sqlalchemy import transaction
from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "invoices"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    order_id: Mapped[int] = mapped_column(BigInteger)
    cents: Mapped[int] = mapped_column(BigInteger)


settings = {"application_name": os.environ.get("PGAPPNAME", "invoices")}
engine = create_async_engine("postgresql+asyncpg://", connect_args={"timeout": 5, "server_settings": settings})
Session = async_sessionmaker(engine)
handler = inboxd.Handler("invoices", max_in_flight=10)


@handler.on("orders")
async def make_invoice(delivery):
    order = delivery.event.data
    async with transaction(Session, delivery) as session:
        invoice = Invoice(order_id=order["order"], cents=order["cents"])
        session.add(invoice)
        await session.flush()
        await delivery.complete(session, {"invoice": invoice.id})


async def main():
    await handler.serve_until_signal()
    await engine.dispose()


asyncio.run(main())
