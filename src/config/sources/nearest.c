/*
 * Levenshtein's distance, computed with one row. A name is near enough when at most a third of the letters
 * of the wanted name differ, but two may always differ.
 */
#include "config/sources/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };

/* The number of letters to insert, remove or replace. Case is ignored, so that
 * "Schema" finds "schema". A name longer than all known ones is near to none. */
static size_t distance(const char *a, const char *b)
{
	size_t row[LONGEST + 1];
	size_t width = strlen(b);

	if (width > LONGEST || strlen(a) > LONGEST)
		return LONGEST;
	for (size_t j = 0; j <= width; j++)
		row[j] = j;
	for (size_t i = 0; a[i] != '\0'; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < width; j++) {
			int same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
			size_t best = diagonal + (same ? 0 : 1);

			diagonal = row[j + 1];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j + 1] + 1 < best)
				best = row[j + 1] + 1;
			row[j + 1] = best;
		}
	}
	return row[width];
}

static size_t word_length(const char *word)
{
	return strcspn(word, "._-");
}

static const char *next_word(const char *word)
{
	word += word_length(word);
	return *word == '\0' ? word : word + 1;
}

static bool has_word(const char *name, const char *word)
{
	for (; *name != '\0'; name = next_word(name)) {
		if (word_length(name) == word_length(word) &&
			strncasecmp(name, word, word_length(word)) == 0)
			return true;
	}
	return false;
}

/* "max_backoff" and "backoff_max", "bootstrap_servers" and "bootstrap.servers". */
static bool has_same_words(const char *a, const char *b)
{
	bool same = strlen(a) == strlen(b);

	for (const char *word = a; *word != '\0' && same; word = next_word(word))
		same = has_word(b, word);
	return same;
}

void nearest_start(struct nearest *nearest, const char *wanted)
{
	size_t third = strlen(wanted) / 3;

	*nearest = (struct nearest){ wanted, NULL, (third < 2 ? 2 : third) + 1 };
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	size_t away = has_same_words(nearest->wanted, name) ? 0 : distance(nearest->wanted, name);

	/* A name that shares no letter does not help, however short it is. */
	if (away >= nearest->distance || away >= strlen(name))
		return;
	nearest->best = name;
	nearest->distance = away;
}

void nearest_prefer(struct nearest *nearest, const char *name)
{
	nearest->best = name;
	nearest->distance = 0;
}

void nearest_hint(const struct nearest *nearest, char out[NEAREST_HINT_BYTES])
{
	out[0] = '\0';
	if (nearest->best != NULL)
		(void)snprintf(out, NEAREST_HINT_BYTES, "; did you mean \"%s\"?", nearest->best);
}
