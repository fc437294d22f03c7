import inboxd

handler = inboxd.Handler("shipping")


@handler.on("orders", ["order.paid"])
def ship(delivery):
    order = delivery.event.data["order"]
    return inboxd.Done(emit=[inboxd.Emit("shipment.created", topic="shipments", key=str(order), data={"order": order})])


handler.run()
