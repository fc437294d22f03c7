/*
 * Parses the Accept header and looks for two media types only. An unreadable part is ignored; the
 * scraper then gets the Prometheus text, which every scraper understands.
 */
#include "http/accept.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"

static const char blanks[] = " \t";

/* Returns the text up to `separator` without surrounding blanks, and moves `rest` behind it. */
static struct bytes next_part(const char **rest, const char *end, char separator)
{
	const char *first = *rest;
	const char *stop = memchr(first, separator, (size_t)(end - first));
	const char *last = stop == NULL ? end : stop;

	*rest = stop == NULL ? end : stop + 1;
	while (first < last && strchr(blanks, *first) != NULL)
		first++;
	while (last > first && strchr(blanks, last[-1]) != NULL)
		last--;
	return (struct bytes){ first, (size_t)(last - first) };
}

static bool is_word(struct bytes part, const char *word)
{
	return part.length == strlen(word) && strncasecmp(part.data, word, part.length) == 0;
}

static bool begins(struct bytes part, const char *word)
{
	return part.length >= strlen(word) && strncasecmp(part.data, word, strlen(word)) == 0;
}

static double quality_of(struct bytes part)
{
	char text[8] = "";
	size_t length = part.length - 2;

	/* at most three digits follow the point (RFC 9110 section 12.4.2) */
	memcpy(text, (const char *)part.data + 2, length < 6 ? length : 6);
	return strtod(text, NULL);
}

/* The weight of one list element if it is `type`, otherwise -1. Another version of OpenMetrics
 * counts as another type. */
static double weight(struct bytes element, const char *type)
{
	const char *rest = element.data;
	const char *end = rest + element.length;
	double quality = 1;

	if (!is_word(next_part(&rest, end, ';'), type))
		return -1;
	while (rest < end) {
		struct bytes part = next_part(&rest, end, ';');

		if (begins(part, "q="))
			quality = quality_of(part);
		else if (begins(part, "version=1.") || !begins(part, "version="))
			continue;
		else if (strcmp(type, "text/plain") != 0)
			return -1;
	}
	return quality;
}

bool http_accepts_openmetrics(const char *accept)
{
	const char *end;
	double open = 0;
	double plain = 0;

	if (accept == NULL)
		return false;
	end = accept + strlen(accept);
	while (accept < end) {
		struct bytes element = next_part(&accept, end, ',');
		double as_open = weight(element, "application/openmetrics-text");
		double as_plain = weight(element, "text/plain");

		open = as_open > open ? as_open : open;
		plain = as_plain > plain ? as_plain : plain;
	}
	return open > 0 && open >= plain;
}
