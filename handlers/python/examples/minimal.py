import inboxd

handler = inboxd.Handler("demo")


@handler.on()
def show(delivery):
    print(delivery.event.type, delivery.event.data, flush=True)


handler.run()
