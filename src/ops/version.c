/*
 * `inboxd version`: what an operator compares with an advisory. The libraries are those that read bytes of others. A shared
 * one has the version that is loaded, not that of the build.
 */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/text/digest.h"
#include "bridge/forward/forward.h"
#include "config/sources/yaml_file.h"
#include "http/http.h"
#include "ingest/ingest.h"
#include "ops/commands.h"
#include "store/pg/connect/connect.h"

static const struct {
	const char *name;
	void (*add_version)(struct buf *out);
} libraries[] = {
	{ "libpq", connect_add_library_version },
	{ "OpenSSL", digest_add_library_version },
	{ "libcurl", forward_add_library_version },
	{ "libevent", http_add_library_version },
	{ "libyaml", yaml_file_add_library_version },
};

static void add_kafka(struct buf *out, bool json)
{
	CLEANUP(buf_fini) struct buf version = BUF_INIT;
	CLEANUP(buf_fini) struct buf features = BUF_INIT;
	const char *origin = ingest_describe_library(&version, &features);

	buf_addf(out,
		json ? "\"librdkafka\":{\"version\":\"%s\",\"origin\":\"%s\",\"features\":\"%s\"}"
		     : "librdkafka %s (%s: %s)\n",
		buf_str(&version), origin, buf_str(&features));
}

/* Versions are digits and points, and features letters and commas: no JSON string needs an escape. */
int command_version(const struct cli *cli, struct err *err)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;

	buf_addf(&out, cli->json ? "{\"version\":\"%s\",\"libraries\":{" : "inboxd %s\n",
		INBOXD_VERSION);
	add_kafka(&out, cli->json);
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		CLEANUP(buf_fini) struct buf version = BUF_INIT;

		libraries[i].add_version(&version);
		if (version.length > 0)
			buf_addf(&out, cli->json ? ",\"%s\":{\"version\":\"%s\"}" : "%s %s\n",
				libraries[i].name, buf_str(&version));
	}
	buf_add_str(&out, cli->json ? "}}\n" : "");
	if (!buf_ok(&out))
		return err_memory(err);
	(void)fputs(buf_str(&out), stdout);
	return 0;
}
