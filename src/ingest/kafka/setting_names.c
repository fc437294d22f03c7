/*
 * The names of librdkafka's settings and the values that it accepts, as it prints them.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ingest/ingest.h"

static bool is_known(char *const *names, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (strncmp(names[i], name, length) == 0 && names[i][length] == '\0')
			return true;
	}
	return false;
}

static int add_name(char ***names, size_t *count, const char *name, size_t length)
{
	char **wider;

	if (is_known(*names, *count, name, length))
		return 0;
	wider = realloc(*names, (*count + 2) * sizeof(*wider));
	if (wider == NULL)
		return FAULT_MEMORY;
	*names = wider;
	wider[*count] = strndup(name, length);
	if (wider[*count] == NULL)
		return FAULT_MEMORY;
	(*count)++;
	wider[*count] = NULL;
	return 0;
}

/* librdkafka prints its settings as a table: "name | C/P | range | default | …". rd_kafka_conf_dump() would leave out
 * aliases and settings without a default, 68 of 164 names in version 2.0.2 (ADR 26). */
static int parse_names(const char *table, char ***names)
{
	static const char of_names[] = "abcdefghijklmnopqrstuvwxyz0123456789._";
	size_t count = 0;

	while (*table != '\0') {
		size_t length = strcspn(table, "\n");

		if (table[0] >= 'a' && table[0] <= 'z' && memchr(table, '|', length) != NULL &&
			add_name(names, &count, table, strspn(table, of_names)) < 0)
			return FAULT_MEMORY;
		table += length + (table[length] == '\n' ? 1 : 0);
	}
	return 0;
}

static char *print_settings(void)
{
	char *table = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&table, &size);

	if (file == NULL)
		return NULL;
	rd_kafka_conf_properties_show(file);
	if (fclose(file) == 0)
		return table;
	free(table);
	return NULL;
}

int ingest_option_names(char ***out, struct err *err)
{
	CLEANUP(freep) char *table = print_settings();
	char **names = calloc(1, sizeof(*names));

	if (table == NULL || names == NULL || parse_names(table, &names) < 0) {
		ingest_names_free(names);
		return err_memory(err);
	}
	*out = names;
	return 0;
}

char *ingest_option_range(const char *name)
{
	CLEANUP(freep) char *table = print_settings();
	size_t length = strlen(name);
	const char *line = table;

	while (line != NULL && (strncmp(line, name, length) != 0 || line[length] != ' ')) {
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	for (int bars = 0; line != NULL && bars < 2; bars++) {
		line = strchr(line, '|');
		line = line == NULL ? NULL : line + 1;
	}
	if (line == NULL)
		return NULL;
	line += strspn(line, " ");
	length = strcspn(line, "|\n");
	while (length > 0 && line[length - 1] == ' ')
		length--;
	return length == 0 ? NULL : strndup(line, length);
}

void ingest_names_free(char **names)
{
	for (size_t i = 0; names != NULL && names[i] != NULL; i++)
		free(names[i]);
	free(names);
}
