/*
 * Finds the schema of a message that was written with a schema registry. Debian has no client for a registry in C: request the schema
 * with GET /schemas/ids/ID, for example with libcurl, keep it, and decode with the library of the format, for example libavro.
 */
#include <inboxd/handler.h>
#include <inttypes.h>
#include <stdio.h>

/* The id of the schema, or -1 if the data is not in the format of a schema registry: a zero byte, the id in four bytes with the highest
 * one first, and then the encoded data. */
static int64_t schema_id(struct inbox_bytes data)
{
	const unsigned char *bytes = (const unsigned char *)data.data;

	if (data.length < 5 || bytes[0] != 0)
		return -1;
	return (int64_t)bytes[1] << 24 | bytes[2] << 16 | bytes[3] << 8 | bytes[4];
}

static void show(struct inbox_delivery *delivery, void *out)
{
	const struct inbox_bytes data = inbox_delivery_data(delivery);
	const int64_t id = schema_id(data);

	if (data.data != NULL && id < 0) {
		inbox_delivery_dead(delivery, "not in the format of a schema registry", "DATA");
		return;
	}
	if (data.data != NULL)
		fprintf(out, "schema %" PRId64 ", %zu bytes of data\n", id, data.length - 5);
	inbox_delivery_done(delivery);
}

int main(void)
{
	struct inbox_handler_options options = { .name = "orders" };
	setvbuf(stdout, NULL, _IOLBF, 0);
	return inbox_handler_serve(&options, show, stdout);
}
