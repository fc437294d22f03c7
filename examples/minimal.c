#include <inboxd/handler.h>
#include <stdio.h>

static void print(struct inbox_delivery *delivery, void *out)
{
	const struct inbox_bytes data = inbox_delivery_data(delivery);

	fprintf(out, "%s %.*s\n", inbox_delivery_type(delivery), (int)data.length, data.data);
	inbox_delivery_done(delivery);
}

int main(void)
{
	return inbox_handler_serve(
		&(struct inbox_handler_options){ .name = "demo" }, print, stdout);
}
