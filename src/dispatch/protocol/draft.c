/*
 * See draft.h. The memory of a line is a list of chunks, from which pieces are cut. A large piece gets a chunk of its
 * own behind the current one, so that the rest of the current one stays in use.
 */
#include "dispatch/protocol/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#define CHUNK 16384
#define LARGE 2048 /* bytes; pieces above it get their own chunk */
#define ALIGN ((size_t)16)

struct line_chunk {
	struct line_chunk *next;
	size_t used;
	_Alignas(16) char data[];
};

int line_memory_init(struct line_memory *memory, struct err *err)
{
	*memory = (struct line_memory){ .first = malloc(sizeof(struct line_chunk) + CHUNK) };
	if (memory->first == NULL)
		return err_memory(err);
	memory->first->next = NULL;
	line_memory_reset(memory);
	return 0;
}

void line_memory_reset(struct line_memory *memory)
{
	while (memory->first->next != NULL) {
		struct line_chunk *next = memory->first->next;

		memory->first->next = next->next;
		free(next);
	}
	memory->first->used = 0;
	memory->current = memory->first;
	memory->exhausted = false;
}

void line_memory_fini(struct line_memory *memory)
{
	if (memory->first == NULL)
		return;
	line_memory_reset(memory);
	free(memory->first);
	memory->first = NULL;
}

void *line_alloc(struct line_memory *memory, size_t size)
{
	struct line_chunk *chunk = memory->current;
	const bool large = size > LARGE;
	const size_t room = large ? size : CHUNK;

	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	if (large || size > CHUNK - chunk->used) {
		chunk = room > SIZE_MAX - sizeof(*chunk) ? NULL : malloc(sizeof(*chunk) + room);
		if (chunk == NULL) {
			memory->exhausted = true;
			return NULL;
		}
		chunk->used = 0;
		chunk->next = memory->current->next;
		memory->current->next = chunk;
		if (!large)
			memory->current = chunk;
	}
	chunk->used += size;
	return chunk->data + chunk->used - size;
}

const char *line_copy(struct line_memory *memory, struct bytes bytes)
{
	char *copy = line_alloc(memory, bytes.length + 1);

	if (copy == NULL)
		return NULL;
	if (bytes.length > 0)
		memcpy(copy, bytes.data, bytes.length);
	copy[bytes.length] = '\0';
	return copy;
}

void protocol_vwords(char *text, const char *format, va_list args)
{
	char whole[2 * PROTOCOL_WORDS];
	size_t fits;

	(void)vsnprintf(whole, sizeof(whole), format, args);
	/* The buffer is larger than the text, so that the cut is made here, at a character. */
	fits = utf8_fit(whole, strlen(whole), PROTOCOL_WORDS - 1);
	memcpy(text, whole, fits);
	text[fits] = '\0';
}

void protocol_words(char *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	protocol_vwords(text, format, args);
	va_end(args);
}

const char *protocol_quote(struct line_memory *memory, const char *text)
{
	struct bytes start = { text, utf8_fit(text, strlen(text), 48) };
	const char *copy = utf8_is_valid(start) ? line_copy(memory, start) : NULL;

	return copy == NULL ? "?" : copy;
}
