/*
 * A configuration file, and behind a line "===" what variables ("$INBOXD_…=") and --set say. It loads
 * and can be shown, or is refused with words that begin with a place; loading it again changes
 * nothing. Values that name files are left out: the target reads none but its own.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "config/load.h"
#include "config/show.h"
#include "config/sources/strings.h"
#include "demand.h"

#define MAX_TEXTS 16

/* What stands behind the file. */
struct texts {
	const char *set[MAX_TEXTS];
	size_t set_count;
	char *environment[MAX_TEXTS + 1];
	size_t environment_count;
	char *copy;
};

static const char *write_file(const uint8_t *text, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("inboxd.yaml", MFD_CLOEXEC);
		demand(fd >= 0);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	demand(ftruncate(fd, 0) == 0);
	demand(pwrite(fd, text, size, 0) == (ssize_t)size);
	return path;
}

static void texts_init(struct texts *texts, const uint8_t *data, size_t size)
{
	char *save = NULL;

	*texts = (struct texts){ .copy = strndup((const char *)data, size) };
	demand(texts->copy != NULL);
	for (char *line = strtok_r(texts->copy, "\n", &save); line != NULL;
		line = strtok_r(NULL, "\n", &save)) {
		if (*line == '$' && texts->environment_count < MAX_TEXTS)
			texts->environment[texts->environment_count++] = line + 1;
		else if (*line != '$' && texts->set_count < MAX_TEXTS)
			texts->set[texts->set_count++] = line;
	}
}

static void check_rules(const struct config *config)
{
	demand(config->inbox.max_claimed >= config->inbox.max_in_flight);
	demand(config->inbox.max_claimed >= config->worker.claim_batch);
	demand(config->retry.backoff <= config->retry.backoff_max);
	demand(config->topic_count > 0);
	demand(same_text(config->topics[config->topic_count - 1].topic, "*"));
	for (size_t i = 0; i < config->warnings.count; i++)
		demand(utf8_is_valid(bytes_of(config->warnings.items[i])));
}

/* One line a key, whatever the values hold. */
static void visit(const struct config_line *line, void *arg)
{
	size_t *count = arg;

	demand(is_plain_text(line->key) && is_plain_text(line->origin));
	demand(is_plain_text(line->text));
	(*count)++;
}

static void check_shown(const struct config *config)
{
	size_t count = 0;
	size_t lines = 0;
	struct buf out = BUF_INIT;

	demand(config_each(config, visit, &count, NULL) == 0);
	demand(config_dump(config, true, &out, NULL) == 0);
	for (size_t i = 0; i < out.length; i++)
		lines += out.data[i] == '\n';
	demand(count > 0 && lines == count);
	buf_fini(&out);
}

static void check_reload(const struct config *config, const struct config_sources *sources)
{
	struct config *again = NULL;
	struct strings restart = { NULL, 0 };

	demand(config_reload(&again, config, sources, &restart, NULL) == 0);
	demand(restart.count == 0);
	strings_fini(&restart);
	config_free(again);
}

static void check_load(const struct config_sources *sources)
{
	struct config *config = NULL;
	struct err err = ERR_INIT;
	int r = config_load(&config, sources, &err);

	if (r == 0) {
		check_rules(config);
		check_shown(config);
		check_reload(config, sources);
		config_free(config);
		return;
	}
	demand(r == FAULT_CONFIG || r == FAULT_USAGE);
	demand(config == NULL && err.text[0] != '\0' && strpbrk(err.text, "\n\r") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char separator[] = "\n===\n";
	const uint8_t *end = size == 0 ? NULL : memmem(data, size, separator, 5);
	size_t length = end == NULL ? size : (size_t)(end - data);
	struct config_sources sources;
	struct texts texts;

	if (size > 0 && memmem(data, size, "file:", 5) != NULL)
		return 0;
	texts_init(
		&texts, end == NULL ? data + size : end + 5, end == NULL ? 0 : size - length - 5);
	sources = (struct config_sources){
		.file = write_file(data, length),
		.environment = texts.environment,
		.set = texts.set,
		.set_count = texts.set_count,
	};
	check_load(&sources);
	sources.without_kafka = true;
	check_load(&sources);
	free(texts.copy);
	return 0;
}
