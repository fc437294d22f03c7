/* Which librdkafka this program uses, for `inboxd version`. */
#include <librdkafka/rdkafka.h>

#include "base/cleanup.h"
#include "ingest/ingest.h"

static void conf_fini(rd_kafka_conf_t **conf)
{
	rd_kafka_conf_destroy(*conf);
}

const char *ingest_describe_library(struct buf *version, struct buf *features)
{
	CLEANUP(conf_fini) rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char text[1024];
	size_t size = sizeof(text);

	buf_add_str(version, rd_kafka_version_str());
	if (rd_kafka_conf_get(conf, "builtin.features", text, &size) == RD_KAFKA_CONF_OK)
		buf_add_str(features, text);
	return LIBRDKAFKA_ORIGIN;
}
