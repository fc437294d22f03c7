/*
 * See protocol_memory.h. Small pieces are cut from chunks, one after the other. A large piece is a block of its own,
 * so that realloc(3) can move pages instead of bytes when it grows. The size of each piece is stored in front of it;
 * it also tells whether the piece is in a chunk or a block.
 */
#include "dispatch/protocol/protocol_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 16384
#define LARGE 2048 /* bytes; pieces above it get their own block */
#define ALIGN ((size_t)16)

struct line_block {
	struct line_block *next;
	struct line_block *previous;
	size_t room;
	size_t size; /* a large block: the size of its piece, which follows */
	char data[];
};

_Static_assert(sizeof(struct line_block) % ALIGN == 0, "pieces must be aligned");

static struct line_block *block_new(size_t room)
{
	struct line_block *block =
		room > SIZE_MAX - sizeof(*block) ? NULL : malloc(sizeof(*block) + room);

	if (block == NULL)
		return NULL;
	*block = (struct line_block){ .room = room, .size = room };
	return block;
}

int line_memory_init(struct line_memory *memory, struct err *err)
{
	*memory = (struct line_memory){ .first = block_new(CHUNK) };
	memory->chunk = memory->first;
	return memory->first == NULL ? err_memory(err) : 0;
}

void line_memory_reset(struct line_memory *memory)
{
	while (memory->blocks != NULL) {
		struct line_block *next = memory->blocks->next;

		free(memory->blocks);
		memory->blocks = next;
	}
	memory->chunk = memory->first;
	memory->used = 0;
}

void line_memory_fini(struct line_memory *memory)
{
	line_memory_reset(memory);
	free(memory->first);
	*memory = (struct line_memory){ 0 };
}

/* Inserts a block at the head of the list, or corrects its neighbours after realloc(3) has moved it. */
static void link_block(struct line_memory *memory, struct line_block *block)
{
	if (block->previous != NULL)
		block->previous->next = block;
	else
		memory->blocks = block;
	if (block->next != NULL)
		block->next->previous = block;
}

static struct line_block *add_block(struct line_memory *memory, size_t room)
{
	struct line_block *block = block_new(room);

	if (block == NULL)
		longjmp(memory->exhausted, 1);
	block->next = memory->blocks;
	link_block(memory, block);
	return block;
}

static void *cut(struct line_memory *memory, size_t size)
{
	size_t needed = (size + ALIGN - 1) / ALIGN * ALIGN + ALIGN; /* with room for the size */
	char *piece;

	if (memory->used + needed > memory->chunk->room) {
		memory->chunk = add_block(memory, CHUNK);
		memory->used = 0;
	}
	piece = memory->chunk->data + memory->used + ALIGN;
	memory->used += needed;
	((size_t *)(void *)piece)[-1] = size;
	return piece;
}

void *line_alloc(struct line_memory *memory, size_t size)
{
	if (size <= LARGE)
		return cut(memory, size);
	return add_block(memory, size)->data;
}

static void *grow_block(struct line_memory *memory, void *old, size_t size)
{
	struct line_block *block = (void *)((char *)old - offsetof(struct line_block, data));
	struct line_block *moved =
		size > SIZE_MAX - sizeof(*block) ? NULL : realloc(block, sizeof(*block) + size);

	if (moved == NULL)
		longjmp(memory->exhausted, 1);
	moved->room = size;
	moved->size = size;
	link_block(memory, moved);
	return moved->data;
}

void *line_realloc(struct line_memory *memory, void *old, size_t size)
{
	size_t had = old == NULL ? 0 : ((size_t *)old)[-1];
	void *piece;

	if (size <= had)
		return old;
	if (had > LARGE)
		return grow_block(memory, old, size);
	piece = line_alloc(memory, size);
	if (had > 0)
		memcpy(piece, old, had);
	return piece;
}

const char *line_copy(struct line_memory *memory, struct bytes bytes)
{
	char *copy = line_alloc(memory, bytes.length + 1);

	if (bytes.length > 0)
		memcpy(copy, bytes.data, bytes.length);
	copy[bytes.length] = '\0';
	return copy;
}
