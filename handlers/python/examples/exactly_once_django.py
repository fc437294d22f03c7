import os

import django
import inboxd
from django.conf import settings
from django.db import models

# A command of a Django project (manage.py) has this already.
database = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ.get("PGDATABASE", "inbox")}
settings.configure(DATABASES={"default": {**database, "CONN_MAX_AGE": None, "OPTIONS": {"connect_timeout": 5}}})
django.setup()

from inboxd.django import atomic  # noqa: E402


class Invoice(models.Model):
    id = models.BigAutoField(primary_key=True)
    order_id = models.BigIntegerField()
    cents = models.BigIntegerField()

    class Meta:
        app_label = "invoices"
        db_table = "invoices"


handler = inboxd.Handler("invoices", workers=4)


@handler.on("orders")
def make_invoice(delivery):
    order = delivery.event.data
    with atomic(delivery) as connection:  # commits at its end, or rolls back
        invoice = Invoice.objects.create(order_id=order["order"], cents=order["cents"])
        delivery.complete(connection, {"invoice": invoice.id})


handler.run()
