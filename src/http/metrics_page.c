/*
 * The answer of /metrics. See metrics_page.h.
 *
 * The Accept header is searched for two media types only. An unreadable part of it is ignored; the
 * scraper then gets the Prometheus text, which every scraper understands.
 */
#include "http/metrics_page.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/log_output.h"
#include "base/process.h"
#include "base/time/clock.h"
#include "report/meters.h"

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* --- The format -------------------------------------------------------------------------------- */

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

static bool begins(struct bytes part, const char *word)
{
	return part.length >= strlen(word) && strncasecmp(part.data, word, strlen(word)) == 0;
}

/* The weight of one list element if it is `type`, otherwise -1. Another version of OpenMetrics
 * counts as another type. */
static double weight(struct bytes element, const char *type)
{
	const char *rest = element.data;
	const char *end = rest + element.length;
	struct bytes name = next_part(&rest, end, ';');
	double quality = 1;

	if (name.length != strlen(type) || strncasecmp(name.data, type, name.length) != 0)
		return -1;
	while (rest < end) {
		struct bytes part = next_part(&rest, end, ';');

		if (begins(part, "q=")) {
			/* at most three digits follow the point (RFC 9110 section 12.4.2) */
			char text[8] = "";
			size_t length = part.length - 2;

			memcpy(text, (const char *)part.data + 2, length < 6 ? length : 6);
			quality = strtod(text, NULL);
		} else if (begins(part, "version=1.") || !begins(part, "version=")) {
			continue;
		} else if (strcmp(type, "text/plain") != 0) {
			return -1;
		}
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

/* --- The content ------------------------------------------------------------------------------- */

/* A value that the kernel did not report (it is negative) stays unchanged. */
static void set(struct metrics *metrics, enum meter meter, double value)
{
	if (value >= 0)
		metric_set(metrics_get(metrics, meter, NULL, NULL), value);
}

void metrics_page_begin(struct metrics *metrics)
{
	set(metrics, METER_PROCESS_START, (double)clock_wall_ms() / 1000.0);
}

const char *metrics_page_add(struct buf *body, const char *accept, struct metrics *metrics,
	const struct health_view *view)
{
	bool openmetrics = http_accepts_openmetrics(accept);
	struct process_usage usage;

	process_usage(&usage);
	set(metrics, METER_PROCESS_CPU, usage.cpu_s);
	set(metrics, METER_PROCESS_RESIDENT, usage.resident_bytes);
	set(metrics, METER_PROCESS_VIRTUAL, usage.virtual_bytes);
	set(metrics, METER_PROCESS_FDS, usage.open_fds);
	set(metrics, METER_PROCESS_MAX_FDS, usage.max_fds);
	set(metrics, METER_LOG_DROPPED, (double)log_output_dropped());
	health_show(view, metrics);
	metrics_render(metrics, openmetrics, body);
	return openmetrics ? TYPE_OPEN : TYPE_TEXT;
}
