import inboxd
from inboxd.sqlalchemy import transaction
from sqlalchemy import BigInteger, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "invoices"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    order_id: Mapped[int] = mapped_column(BigInteger)
    cents: Mapped[int] = mapped_column(BigInteger)


engine = create_engine("postgresql+psycopg://", pool_size=4, pool_timeout=10, connect_args={"connect_timeout": 5})
Session = sessionmaker(engine)
handler = inboxd.Handler("invoices", workers=4)


@handler.on("orders")
def make_invoice(delivery):
    order = delivery.event.data
    with transaction(Session, delivery) as session:  # completes the message at its end, and commits, or rolls back
        session.add(Invoice(order_id=order["order"], cents=order["cents"]))


handler.run()
