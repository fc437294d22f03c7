"""The consumer `mail`: a mail for each order, with the Python library.    mail.py REFUSED

REFUSED takes the place of a mail server that refuses some mails: a file with the ids of these events.
"""
import pathlib
import sys

import inboxd

refused = pathlib.Path(sys.argv[1])
handler = inboxd.Handler("mail")  # the consumer with this name


@handler.on("orders")
def send(delivery):
    event = delivery.event
    if event.id in refused.read_text().split():
        raise inboxd.Retry("the mail server refuses the address", delay=300, code="REFUSED")
    print(f"mail to {event.data['customer']}: {event.id}", flush=True)


handler.run()
