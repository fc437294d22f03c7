/* See status_table.h. */
#include "bridge/forward/status_table.h"

#include <string.h>

enum { FIRST = 100, CLASS = 100 };

static void set(struct status_table *table, int from, int count, enum bridge_status verdict)
{
	for (int i = from; i < from + count; i++)
		table->verdicts[i] = (unsigned char)verdict;
}

void status_table_init(struct status_table *table)
{
	/* Too early or too many requests, a conflict with another one: the same message can succeed later. */
	static const int later[] = { 408, 409, 425, 429 };

	memset(table->changed, 0, sizeof(table->changed));
	set(table, 0, STATUS_TABLE_END, BRIDGE_RETRY);
	set(table, 200, CLASS, BRIDGE_DONE);
	set(table, 400, CLASS, BRIDGE_DEAD);
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		set(table, later[i], 1, BRIDGE_RETRY);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads "404" or "4xx". False: it is neither, or outside of the table. */
static bool parse_statuses(const char *text, int *from, int *count)
{
	if (text[0] < '1' || text[0] > '5')
		return false;
	*from = (text[0] - '0') * CLASS;
	*count = CLASS;
	if (strncmp(text + 1, "xx", 2) == 0)
		return true;
	if (!is_digit(text[1]) || !is_digit(text[2]))
		return false;
	*from += (text[1] - '0') * 10 + (text[2] - '0');
	*count = 1;
	return *from >= FIRST;
}

int status_table_change(struct status_table *table, const char *rows, struct err *err)
{
	for (const char *at = rows; *at != '\0'; at += *at == ',') {
		const size_t length = strcspn(at, ",");
		enum bridge_status verdict = BRIDGE_RETRY;
		int from = 0;
		int count = 0;

		if (length < 5 || !parse_statuses(at, &from, &count) || at[3] != '=' ||
			!bridge_status_parse((struct bytes){ at + 4, length - 4 }, &verdict) ||
			verdict > BRIDGE_SNOOZE)
			return err_set(err, FAULT_USAGE,
				"--status: \"%.*s\" is not STATUS=VERDICT, such as 404=retry or "
				"5xx=dead; verdicts are "
				"done, retry, dead, snooze",
				(int)length, at);
		set(table, from, count, verdict);
		memset(&table->changed[from], true, (size_t)count);
		at += length;
	}
	return 0;
}

void status_table_renews_credentials(struct status_table *table)
{
	static const int refused[] = { 401, 403 };

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (!table->changed[refused[i]])
			set(table, refused[i], 1, BRIDGE_SNOOZE);
	}
}

enum bridge_status status_table_find(const struct status_table *table, long status)
{
	return status < FIRST || status >= STATUS_TABLE_END
		       ? BRIDGE_RETRY
		       : (enum bridge_status)table->verdicts[status];
}

bool status_table_is_busy(const struct status_table *table, long status, bool retry_after)
{
	return (status == 429 || (status == 503 && retry_after)) && !table->changed[status];
}
