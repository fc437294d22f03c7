/*
 * The memory of one protocol line: everything that is allocated while it is read, including the buffers of yajl. All
 * of it is freed before the next line. One thread.
 *
 * Allocation never returns NULL. Without memory it leaves by longjmp to `exhausted`, which the reader has set. yajl 2.1
 * requires that, because it uses the result of its allocator without a check.
 */
#ifndef DISPATCH_PROTOCOL_PROTOCOL_MEMORY_H
#define DISPATCH_PROTOCOL_PROTOCOL_MEMORY_H

#include <setjmp.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

struct line_block;

struct line_memory {
	struct line_block *blocks; /* newest first */
	struct line_block *chunk;  /* the one that small pieces are cut from */
	size_t used;               /* bytes used of the chunk */
	struct line_block *first;  /* the chunk that is kept for the next line */
	jmp_buf exhausted;
};

int line_memory_init(struct line_memory *memory, struct err *err);
void line_memory_fini(struct line_memory *memory);
/* Frees everything that was allocated since the last reset. */
void line_memory_reset(struct line_memory *memory);

/* These may only be called between setjmp(memory->exhausted) and the return of the function that called setjmp. */
void *line_alloc(struct line_memory *memory, size_t size);
void *line_realloc(struct line_memory *memory, void *old, size_t size);
/* A copy with a NUL appended, which the length does not count. */
const char *line_copy(struct line_memory *memory, struct bytes bytes);

#endif
