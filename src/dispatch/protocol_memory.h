/*
 * The memory of one protocol line: everything that reading it needs, yajl's own buffers included,
 * given back at once before the next line. One thread.
 *
 * Allocation never returns NULL: when there is no memory it leaves by longjmp to `exhausted`, which
 * the reader has set. yajl 2.1 asks for it, as it writes through what its allocator gave without
 * looking; and the callbacks between become free of a check on every line.
 */
#ifndef DISPATCH_PROTOCOL_MEMORY_H
#define DISPATCH_PROTOCOL_MEMORY_H

#include <setjmp.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

struct line_block;

struct line_memory {
	struct line_block *blocks; /* newest first */
	struct line_block *chunk;  /* the one that small pieces are cut from */
	size_t used;               /* of the chunk */
	struct line_block *first;  /* the chunk kept from line to line */
	jmp_buf exhausted;
};

int line_memory_init(struct line_memory *memory, struct err *err);
void line_memory_fini(struct line_memory *memory);
/* Takes back all that was allocated since the last reset. */
void line_memory_reset(struct line_memory *memory);

/* Both only between setjmp(memory->exhausted) and the return of the function that called it. */
void *line_alloc(struct line_memory *memory, size_t size);
void *line_realloc(struct line_memory *memory, void *old, size_t size);
/* A copy with a NUL behind it, which the length does not count. */
const char *line_copy(struct line_memory *memory, struct bytes bytes);

#endif
