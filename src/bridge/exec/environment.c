/* See environment.h. */
#include "bridge/exec/environment.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "CE_"

void environment_fini(struct environment *environment)
{
	free(environment->variables);
	buf_fini(&environment->texts);
	*environment = (struct environment){ .variables = NULL };
}

static size_t count_of(char *const *inherited)
{
	size_t count = 0;

	while (inherited[count] != NULL)
		count++;
	return count;
}

static bool fits(const struct buf *texts, const struct event_attribute *attribute)
{
	const size_t needed = sizeof(PREFIX) + attribute->name.length + 1 + attribute->text.length;

	return texts->length + needed <= ENVIRONMENT_BYTES_MAX &&
	       memchr(attribute->text.data, '\0', attribute->text.length) == NULL;
}

/* The added attributes come first: a producer must not be able to displace them. */
static const struct event_attribute *attribute_at(const struct event *event, size_t index)
{
	return &event->attributes[(event->own + index) % event->count];
}

static void add_variable(struct buf *texts, const struct event_attribute *attribute)
{
	const char *name = attribute->name.data;

	buf_add_str(texts, PREFIX);
	for (size_t i = 0; i < attribute->name.length; i++)
		buf_add_char(texts,
			name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i]);
	buf_add_char(texts, '=');
	buf_add(texts, attribute->text.data, attribute->text.length);
	buf_add_char(texts, '\0');
}

int environment_set(struct environment *environment, char **inherited, const struct event *event,
	struct err *err)
{
	const size_t attributes = event == NULL ? 0 : event->count;
	const size_t room = count_of(inherited) + attributes + 1;
	char **variables = realloc(environment->variables, room * sizeof(*variables));
	size_t count = 0;

	if (variables == NULL)
		return err_memory(err);
	environment->variables = variables;
	buf_reset(&environment->texts);
	/* Reserved in one piece, so that the texts never move. */
	if (buf_reserve(&environment->texts, ENVIRONMENT_BYTES_MAX) == NULL)
		return err_memory(err);
	for (size_t i = 0; inherited[i] != NULL; i++) {
		if (strncmp(inherited[i], PREFIX, sizeof(PREFIX) - 1) != 0)
			variables[count++] = inherited[i];
	}
	for (size_t i = 0; i < attributes; i++) {
		const struct event_attribute *attribute = attribute_at(event, i);

		if (!fits(&environment->texts, attribute))
			continue;
		variables[count++] = environment->texts.data + environment->texts.length;
		add_variable(&environment->texts, attribute);
	}
	variables[count] = NULL;
	return 0;
}
