"""The order service: places orders until there are COUNT.    place_orders.py COUNT

Each order and its event are stored in one transaction: both or neither. The service knows no Kafka. The database is the shop's; the
PG* variables of libpq select it.
"""
import random
import sys
import time

import psycopg
from psycopg.types.json import Jsonb


class CardRefused(Exception):
    pass


def charge(customer, cents):
    if random.random() < 0.1:
        raise CardRefused(f"the card of {customer} does not have {cents} cents")


def place_order(connection, customer, cents):
    with connection.transaction():  # commits at its end, or rolls back
        order, = connection.execute("INSERT INTO orders (customer, cents) VALUES (%s, %s) RETURNING id",
                                    [customer, cents]).fetchone()
        connection.execute("SELECT inbox.emit('shop.orders', %s, 'order.placed', %s)",
                           [str(order), Jsonb({"order": order, "customer": customer, "cents": cents})])
        charge(customer, cents)
    print(f"order {order} of {customer}", flush=True)


wanted = int(sys.argv[1])
with psycopg.connect(autocommit=True) as shop:
    while shop.execute("SELECT count(*) FROM orders").fetchone()[0] < wanted:
        try:
            place_order(shop, f"c-{random.randrange(50)}", random.randrange(100, 10_000))
        except CardRefused as reason:
            print(reason, flush=True)
        time.sleep(0.01)
