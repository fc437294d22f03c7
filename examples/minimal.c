#include <inboxd/handler.h>
#include <stdio.h>

static void print(struct inbox_delivery *delivery, void *out)
{
	fprintf(out, "%s\n", inbox_delivery_event(delivery).data);
	inbox_delivery_done(delivery);
}

int main(void)
{
	struct inbox_handler_options options = { .name = "demo" };
	setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines at once, also into a pipe */
	return inbox_handler_serve(&options, print, stdout);
}
