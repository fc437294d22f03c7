/* See this_host.h. */
#include "http/this_host.h"

#include <string.h>

const char *const http_proxy_headers[] = { "Forwarded", "X-Forwarded-For", "X-Real-IP", "Via",
	NULL };

/* An IPv4 client of an IPv6 socket has such an address. */
static const char *without_prefix(const char *address)
{
	static const char mapped[] = "::ffff:";
	size_t length = sizeof(mapped) - 1;

	return strncmp(address, mapped, length) == 0 ? address + length : address;
}

bool http_is_this_host(const struct http_client *client)
{
	const char *peer = without_prefix(client->peer);

	if (client->forwarded || peer[0] == '\0')
		return false;
	return strcmp(peer, "::1") == 0 || strncmp(peer, "127.", 4) == 0 ||
	       strcmp(peer, without_prefix(client->own)) == 0;
}

void http_refuse_client(struct buf *json, const struct http_client *client, const char *text)
{
	buf_addf(json, "{\"error\":\"%s%s\"}\n",
		client->forwarded ? "a proxy has passed this request on; " : "", text);
}
