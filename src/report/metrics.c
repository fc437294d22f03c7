/*
 * Stores the series and writes their text form. A family has an array of series, sorted by label values: lookups are
 * rare (once for a topic, handler or partition), and each scrape has the same order. One mutex protects the arrays.
 * The numbers are atomic.
 *
 * Sums of histograms are doubles and not integers of nanoseconds: an hour of messages that are a week old would
 * overflow 64 bits.
 */
#include "report/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct metric {
	const struct metric_family *family;
	const char *values
		[METRIC_LABELS]; /* in this block, behind the buckets; "" where there is none */
	bool shown;              /* guarded by the lock of struct metrics */
	_Atomic int64_t count;   /* counters */
	_Atomic double number; /* gauges: the value; histograms: the sum; counters: what was set */
	size_t bound_count;
	_Atomic int64_t buckets[]; /* histograms: one a bound and one for all above */
};

struct family {
	const struct metric_family *info;
	struct metric **series; /* sorted */
	size_t count;
	size_t capacity;
	struct metric *nowhere; /* returned when there is no room: can be written, is never shown */
};

struct metrics {
	pthread_mutex_t lock;
	struct family *families;
	size_t count;
};

DEFINE_CLEANUP(struct metrics *, metrics_free);

/* --- Series ------------------------------------------------------------------------------------ */

static size_t count_bounds(const struct metric_family *info)
{
	size_t count = 0;

	if (info->kind != METRIC_HISTOGRAM || info->bounds == NULL)
		return 0;
	while (info->bounds[count] > 0)
		count++;
	return count;
}

/* One block of memory for the series, its buckets and its label values. The labels are copied, because they are names of
 * topics or handlers, whose owners go away. */
static struct metric *metric_new(const struct metric_family *info, const char *const *values)
{
	size_t bounds = count_bounds(info);
	size_t head = sizeof(struct metric) + (bounds + 1) * sizeof(int64_t);
	size_t lengths[METRIC_LABELS];
	size_t text = 0;
	struct metric *metric;
	char *tail;

	for (int i = 0; i < METRIC_LABELS; i++) {
		lengths[i] = strlen(values[i]) + 1;
		text += lengths[i];
	}
	metric = calloc(1, head + text);
	if (metric == NULL)
		return NULL;
	tail = (char *)metric + head;
	for (int i = 0; i < METRIC_LABELS; i++) {
		memcpy(tail, values[i], lengths[i]);
		metric->values[i] = tail;
		tail += lengths[i];
	}
	metric->family = info;
	metric->bound_count = bounds;
	return metric;
}

static int compare(const char *const *a, const char *const *b)
{
	int order = 0;

	for (int i = 0; order == 0 && i < METRIC_LABELS; i++)
		order = strcmp(a[i], b[i]);
	return order;
}

/* The index of the series, or the index at which it must be inserted. */
static size_t position(const struct family *family, const char *const *values, bool *found)
{
	size_t low = 0;
	size_t high = family->count;

	*found = true;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare(family->series[middle]->values, values);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = false;
	return low;
}

/* False without memory, or when the family is full: a client that invents names must not fill the memory. */
static bool grow(struct family *family)
{
	size_t capacity = family->capacity == 0 ? 4 : family->capacity * 2;
	struct metric **series;

	if (family->count < family->capacity)
		return true;
	if (family->count >= METRICS_MAX_SERIES)
		return false;
	if (capacity > METRICS_MAX_SERIES)
		capacity = METRICS_MAX_SERIES;
	series = realloc(family->series, capacity * sizeof(struct metric *));
	if (series == NULL)
		return false;
	family->series = series;
	family->capacity = capacity;
	return true;
}

static struct metric *insert(struct family *family, size_t at, const char *const *values)
{
	struct metric *metric;

	if (!grow(family))
		return NULL;
	metric = metric_new(family->info, values);
	if (metric == NULL)
		return NULL;
	memmove(family->series + at + 1, family->series + at,
		(family->count - at) * sizeof(struct metric *));
	family->series[at] = metric;
	family->count++;
	return metric;
}

static int family_init(struct family *family, const struct metric_family *info, struct err *err)
{
	static const char *const no_values[METRIC_LABELS] = { "", "", "" };

	family->info = info;
	family->nowhere = metric_new(info, no_values);
	if (family->nowhere == NULL)
		return err_memory(err);
	if (info->labels[0] != NULL)
		return 0;
	if (insert(family, 0, no_values) == NULL)
		return err_memory(err);
	family->series[0]->shown = true;
	return 0;
}

int metrics_new(
	struct metrics **out, const struct metric_family *families, size_t count, struct err *err)
{
	CLEANUP(metrics_freep) struct metrics *metrics = calloc(1, sizeof(*metrics));
	int r;

	if (metrics == NULL)
		return err_memory(err);
	(void)pthread_mutex_init(&metrics->lock, NULL);
	metrics->families = calloc(count, sizeof(*metrics->families));
	if (metrics->families == NULL)
		return err_memory(err);
	metrics->count = count;
	for (size_t i = 0; i < count; i++) {
		r = family_init(&metrics->families[i], &families[i], err);
		if (r < 0)
			return r;
	}
	*out = metrics;
	metrics = NULL;
	return 0;
}

void metrics_free(struct metrics *metrics)
{
	if (metrics == NULL)
		return;
	for (size_t i = 0; i < metrics->count; i++) {
		struct family *family = &metrics->families[i];

		for (size_t k = 0; k < family->count; k++)
			free(family->series[k]);
		free(family->series);
		free(family->nowhere);
	}
	free(metrics->families);
	(void)pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}

/* What `asked` has for the labels of the family, "" for the others. */
static void label_values(const struct family *family, const char *const *asked, const char **values)
{
	for (int i = 0; i < METRIC_LABELS; i++)
		values[i] = family->info->labels[i] == NULL || asked[i] == NULL ? "" : asked[i];
}

struct metric *metrics_series(
	struct metrics *metrics, size_t family, const char *const asked[METRIC_LABELS])
{
	struct family *home = &metrics->families[family];
	const char *values[METRIC_LABELS];
	struct metric *metric;
	bool found;
	size_t at;

	label_values(home, asked, values);
	(void)pthread_mutex_lock(&metrics->lock);
	at = position(home, values, &found);
	metric = found ? home->series[at] : insert(home, at, values);
	if (metric != NULL)
		metric->shown = true;
	(void)pthread_mutex_unlock(&metrics->lock);
	return metric != NULL ? metric : home->nowhere;
}

struct metric *metrics_get(
	struct metrics *metrics, size_t family, const char *value1, const char *value2)
{
	const char *const asked[METRIC_LABELS] = { value1, value2, NULL };

	return metrics_series(metrics, family, asked);
}

void metrics_drop(struct metrics *metrics, size_t family, const char *value1, const char *value2)
{
	struct family *home = &metrics->families[family];
	const char *const asked[METRIC_LABELS] = { value1, value2, NULL };
	const char *values[METRIC_LABELS];
	bool found;
	size_t at;

	label_values(home, asked, values);
	(void)pthread_mutex_lock(&metrics->lock);
	at = position(home, values, &found);
	if (found)
		home->series[at]->shown = false;
	(void)pthread_mutex_unlock(&metrics->lock);
}

void metrics_remove(struct metrics *metrics, size_t family, const char *const asked[METRIC_LABELS])
{
	struct family *home = &metrics->families[family];
	const char *values[METRIC_LABELS];
	bool found;
	size_t at;

	label_values(home, asked, values);
	(void)pthread_mutex_lock(&metrics->lock);
	at = position(home, values, &found);
	if (found) {
		free(home->series[at]);
		home->count--;
		memmove(home->series + at, home->series + at + 1,
			(home->count - at) * sizeof(struct metric *));
	}
	(void)pthread_mutex_unlock(&metrics->lock);
}

void metrics_keep(struct metrics *metrics, size_t family,
	bool (*keep)(const char *const values[METRIC_LABELS], const void *arg), const void *arg)
{
	struct family *home = &metrics->families[family];

	(void)pthread_mutex_lock(&metrics->lock);
	for (size_t i = 0; i < home->count; i++)
		home->series[i]->shown =
			home->series[i]->shown && keep(home->series[i]->values, arg);
	(void)pthread_mutex_unlock(&metrics->lock);
}

/* --- Values ------------------------------------------------------------------------------------ */

/* Relaxed order everywhere: a scrape may see one number before another one, but each number as a whole.
 * C11 has no atomic addition of doubles. */
static void add_double(_Atomic double *to, double value)
{
	double old = atomic_load_explicit(to, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(
		to, &old, old + value, memory_order_relaxed, memory_order_relaxed))
		continue;
}

void metric_add(struct metric *metric, int64_t n)
{
	if (metric->family->kind == METRIC_GAUGE)
		add_double(&metric->number, (double)n);
	else if (n > 0)
		(void)atomic_fetch_add_explicit(&metric->count, n, memory_order_relaxed);
}

void metric_set(struct metric *metric, double value)
{
	atomic_store_explicit(&metric->number, value, memory_order_relaxed);
}

void metric_observe(struct metric *metric, double seconds)
{
	size_t at = 0;

	/* This form is also true for a NaN. */
	if (!(seconds > 0))
		seconds = 0;
	while (at < metric->bound_count && seconds > metric->family->bounds[at])
		at++;
	(void)atomic_fetch_add_explicit(&metric->buckets[at], 1, memory_order_relaxed);
	add_double(&metric->number, seconds);
}

static int64_t bucket(const struct metric *metric, size_t at)
{
	return atomic_load_explicit(&metric->buckets[at], memory_order_relaxed);
}

double metric_value(const struct metric *metric)
{
	int64_t observations = 0;

	if (metric->family->kind == METRIC_GAUGE)
		return atomic_load_explicit(&metric->number, memory_order_relaxed);
	if (metric->family->kind == METRIC_COUNTER)
		return (double)atomic_load_explicit(&metric->count, memory_order_relaxed) +
		       atomic_load_explicit(&metric->number, memory_order_relaxed);
	for (size_t i = 0; i <= metric->bound_count; i++)
		observations += bucket(metric, i);
	return (double)observations;
}

double metrics_sum(struct metrics *metrics, size_t family)
{
	const struct family *home = &metrics->families[family];
	double sum = 0;

	(void)pthread_mutex_lock(&metrics->lock);
	for (size_t i = 0; i < home->count; i++) {
		if (home->series[i]->shown)
			sum += metric_value(home->series[i]);
	}
	(void)pthread_mutex_unlock(&metrics->lock);
	return sum;
}

/* --- Text -------------------------------------------------------------------------------------- */

static void add_escaped(struct buf *out, const char *text, bool quotes)
{
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '\n')
			buf_add_str(out, "\\n");
		else if (*c == '\\' || (*c == '"' && quotes))
			buf_addf(out, "\\%c", *c);
		else
			buf_add_char(out, *c);
	}
}

static void add_number(struct buf *out, double value)
{
	if (isnan(value))
		buf_add_str(out, "NaN");
	else if (isinf(value))
		buf_add_str(out, value > 0 ? "+Inf" : "-Inf");
	else if (fabs(value) < 1e15 && value == floor(value))
		buf_addf(out, "%.0f", value);
	else
		buf_addf(out, "%.15g", value);
}

/* OpenMetrics requires `le` in the form of a float, "1.0" (section "Considerations: canonical numbers"). Prometheus
 * text has "1". */
static void add_bound(struct buf *out, double bound, bool openmetrics)
{
	add_number(out, bound);
	if (openmetrics && bound == floor(bound))
		buf_add_str(out, ".0");
}

static void begin_sample(struct buf *out, const struct metric *metric, const char *suffix)
{
	const char *const *labels = metric->family->labels;

	buf_addf(out, "%s%s{", metric->family->name, suffix);
	for (int i = 0; i < METRIC_LABELS && labels[i] != NULL; i++) {
		if (*metric->values[i] == '\0')
			continue;
		buf_addf(out, "%s=\"", labels[i]);
		add_escaped(out, metric->values[i], true);
		buf_add_str(out, "\",");
	}
}

/* Closes the braces. Removes the comma behind the last label, or the opening brace if there is no label. */
static void end_labels(struct buf *out)
{
	if (!buf_ok(out) || out->length == 0)
		return;
	if (out->data[out->length - 1] == '{') {
		out->length--;
		buf_add_char(out, ' ');
		return;
	}
	if (out->data[out->length - 1] == ',')
		out->length--;
	buf_add_str(out, "} ");
}

static void render_plain(struct buf *out, const struct metric *metric)
{
	begin_sample(out, metric, "");
	end_labels(out);
	if (metric->family->kind == METRIC_COUNTER &&
		atomic_load_explicit(&metric->number, memory_order_relaxed) == 0)
		buf_addf(out, "%lld",
			(long long)atomic_load_explicit(&metric->count, memory_order_relaxed));
	else
		add_number(out, metric_value(metric));
	buf_add_char(out, '\n');
}

/* The count is that of the last bucket and not a separate number. Otherwise a scrape during an observation could see
 * different values. */
static void render_histogram(struct buf *out, const struct metric *metric, bool openmetrics)
{
	int64_t below = 0;

	for (size_t i = 0; i <= metric->bound_count; i++) {
		begin_sample(out, metric, "_bucket");
		buf_add_str(out, "le=\"");
		if (i < metric->bound_count)
			add_bound(out, metric->family->bounds[i], openmetrics);
		else
			buf_add_str(out, "+Inf");
		below += bucket(metric, i);
		buf_addf(out, "\"} %lld\n", (long long)below);
	}
	begin_sample(out, metric, "_sum");
	end_labels(out);
	add_number(out, atomic_load_explicit(&metric->number, memory_order_relaxed));
	buf_add_char(out, '\n');
	begin_sample(out, metric, "_count");
	end_labels(out);
	buf_addf(out, "%lld\n", (long long)below);
}

static void render_head(struct buf *out, const struct metric_family *info, bool openmetrics)
{
	static const char *const kinds[] = {
		[METRIC_COUNTER] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
	};
	static const char suffix[] = "_total";
	int length = (int)strlen(info->name);
	int extra = (int)sizeof(suffix) - 1;

	/* In OpenMetrics the family of a counter has no "_total", but its samples have it. */
	if (openmetrics && info->kind == METRIC_COUNTER && length > extra &&
		strcmp(info->name + length - extra, suffix) == 0)
		length -= extra;
	buf_addf(out, "# HELP %.*s ", length, info->name);
	add_escaped(out, info->help, openmetrics);
	buf_addf(out, "\n# TYPE %.*s %s\n", length, info->name, kinds[info->kind]);
}

static void render_family(struct buf *out, const struct family *family, bool openmetrics)
{
	render_head(out, family->info, openmetrics);
	for (size_t i = 0; i < family->count; i++) {
		if (!family->series[i]->shown)
			continue;
		if (family->info->kind == METRIC_HISTOGRAM)
			render_histogram(out, family->series[i], openmetrics);
		else
			render_plain(out, family->series[i]);
	}
}

void metrics_render(struct metrics *metrics, bool openmetrics, struct buf *out)
{
	(void)pthread_mutex_lock(&metrics->lock);
	for (size_t i = 0; i < metrics->count; i++)
		render_family(out, &metrics->families[i], openmetrics);
	(void)pthread_mutex_unlock(&metrics->lock);
	if (openmetrics)
		buf_add_str(out, "# EOF\n");
}
