/*
 * See tls_files.h. The contents are compared, not the times: agents write files again without a change, and a swap of a symbolic
 * link changes the times of none of them.
 *
 * Two files of a pair may be written one after the other. So a change counts only when two looks have found the same, and a
 * client can be made.
 */
#include "ingest/kafka/tls_files.h"

#include <librdkafka/rdkafka.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text/digest.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "config/secret.h"
#include "config/sources/strings.h"
#include "ingest/kafka/consumer_conf.h"

#define LOOK_MS 2000

DEFINE_CLEANUP(struct digester *, digester_free);

static bool is_tls(const struct config *config)
{
	const char *protocol = consumer_conf_value(config, "security.protocol", "");

	return strcasecmp(protocol, "ssl") == 0 || strcasecmp(protocol, "sasl_ssl") == 0;
}

static bool is_of_tls(const struct setting *setting)
{
	return strncmp(setting->name, "ssl.", strlen("ssl.")) == 0;
}

/* The file that the setting names, or that has its value. NULL: none. */
static const char *file_of(const struct setting *setting)
{
	const char *kind = strrchr(setting->name, '.');

	if (!is_of_tls(setting) || setting->file != NULL)
		return is_of_tls(setting) ? setting->file : NULL;
	return strcmp(kind, ".location") == 0 ? setting->value : NULL;
}

/* Of a directory, and of a file that is too large, the status will do. */
static void add_file(struct buf *out, const char *path)
{
	struct err err = ERR_INIT;
	struct stat found;
	size_t before = out->length;

	if (text_file_read_regular(path, out, &err) == 0) {
		buf_addf(out, ";");
		return;
	}
	out->length = before;
	if (stat(path, &found) != 0) {
		buf_addf(out, "none;");
		return;
	}
	buf_addf(out, "%lld.%lld.%lld.%ld;", (long long)found.st_ino, (long long)found.st_size,
		(long long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

/* False: without memory. */
static bool digest(const struct config *config, unsigned char out[32])
{
	CLEANUP(digester_freep) struct digester *digester = NULL;
	CLEANUP(buf_fini) struct buf all = BUF_INIT;
	struct err err = ERR_INIT;
	const char *path;

	for (size_t i = 0; is_tls(config) && i < config->kafka.count; i++) {
		path = file_of(&config->kafka.items[i]);
		if (path != NULL)
			add_file(&all, path);
	}
	return buf_ok(&all) && digester_new(&digester, &err) == 0 &&
	       digester_sha256(digester, (struct bytes){ all.data, all.length }, out) == 0;
}

static bool is_same(const unsigned char a[32], const unsigned char b[32])
{
	return memcmp(a, b, 32) == 0;
}

void tls_files_note(struct tls_files *files, const struct config *config)
{
	*files = (struct tls_files){ .look_ms = clock_now_ms() + LOOK_MS };
	(void)digest(config, files->used);
	memcpy(files->seen, files->used, sizeof(files->seen));
}

/* --- A client on trial ------------------------------------------------------------------------- */

static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	(void)kafka;
	(void)level;
	(void)facility;
	(void)text;
}

/* librdkafka has accepted each of the settings before. */
static int set_all(rd_kafka_conf_t *conf, const struct config *config, struct err *err)
{
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	const char *value;
	char words[512];

	rd_kafka_conf_set_log_cb(conf, on_log);
	(void)rd_kafka_conf_set(conf, "security.protocol", "ssl", words, sizeof(words));
	for (size_t i = 0; i < config->kafka.count; i++) {
		const struct setting *setting = &config->kafka.items[i];

		if (!is_of_tls(setting))
			continue;
		value = secret_now(setting, &scratch);
		if (value == NULL)
			return err_memory(err);
		if (rd_kafka_conf_set(conf, setting->name, value, words, sizeof(words)) !=
			RD_KAFKA_CONF_OK)
			return err_set(err, FAULT_CONFIG, "kafka.%s: %s", setting->name, words);
	}
	return 0;
}

/* Without brokers and a login, the client ends at once. */
int tls_files_try(const struct config *config, struct err *err)
{
	rd_kafka_conf_t *conf;
	rd_kafka_t *kafka = NULL;
	char words[512];
	int r;

	if (!is_tls(config))
		return 0;
	conf = rd_kafka_conf_new();
	r = set_all(conf, config, err);
	if (r == 0)
		kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, words, sizeof(words));
	if (kafka == NULL)
		rd_kafka_conf_destroy(conf);
	else
		rd_kafka_destroy(kafka);
	return r == 0 && kafka == NULL ? err_set(err, FAULT_CONFIG, "kafka: %s", words) : r;
}

/* --- The look ---------------------------------------------------------------------------------- */

/* Many sidecars get their certificates from one place, at about the same time. */
static void plan(struct tls_files *files, const struct config *config, bool at_once)
{
	struct err err = ERR_INIT;
	int64_t delay_ms = at_once ? 0
				   : (int64_t)(random_u64() %
					       (uint64_t)(config->kafka_certificate_spread + 1));

	if (tls_files_try(config, &err) < 0) {
		if (is_same(files->seen, files->refused))
			return;
		memcpy(files->refused, files->seen, sizeof(files->refused));
		log_warn("kafka_certificates_refused", LOG_STR("error", err.text),
			LOG_STR("next", "the running clients keep the earlier certificate; correct "
					"the files of kafka.ssl.*: inboxd tries them again"));
		return;
	}
	files->renew_ms = clock_now_ms() + delay_ms;
	log_info("kafka_certificates_changed", LOG_INT("renew_in_s", delay_ms / 1000),
		LOG_STR("next", "the instance ends in order, and begins again with new clients"));
}

bool tls_files_look(struct tls_files *files, const struct config *config, bool at_once)
{
	const int64_t now_ms = clock_now_ms();
	unsigned char found[32];

	if (now_ms < files->look_ms)
		return false;
	files->look_ms = now_ms + LOOK_MS;
	if (!digest(config, found))
		return false;
	if (is_same(found, files->used) || !is_same(found, files->seen))
		files->renew_ms = 0;
	else if (files->renew_ms == 0)
		plan(files, config, at_once);
	memcpy(files->seen, found, sizeof(files->seen));
	if (files->renew_ms != 0 && files->renew_ms < files->look_ms)
		files->look_ms = files->renew_ms;
	return files->renew_ms != 0 && (at_once || clock_now_ms() >= files->renew_ms);
}
