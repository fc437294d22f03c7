/*
 * Implements outage_log.h.
 */
#include "base/outage_log.h"

static void count(struct outage_log *log, int64_t now_ms)
{
	if (log->failures++ == 0) {
		log->since_ms = now_ms;
		if (log->told == 0 || now_ms - log->failed_ms >= OUTAGE_BEAT_MS) {
			log->told = 0;
			log->line_ms = now_ms;
		}
	}
	log->failed_ms = now_ms;
}

static bool note_line(struct outage_log *log, unsigned kind, int64_t now_ms)
{
	log->kinds |= UINT32_C(1) << kind;
	log->line_ms = now_ms;
	return true;
}

bool outage_log_failed(struct outage_log *log, unsigned kind, int64_t now_ms)
{
	count(log, now_ms);
	if (((log->kinds | log->told) >> kind & 1) != 0 && now_ms - log->line_ms < OUTAGE_LINE_MS)
		return false;
	return note_line(log, kind, now_ms);
}

bool outage_log_failed_quietly(struct outage_log *log, unsigned kind, int64_t now_ms)
{
	count(log, now_ms);
	if (now_ms - log->line_ms < OUTAGE_LINE_MS)
		return false;
	return note_line(log, kind, now_ms);
}

bool outage_log_ended(struct outage_log *log, struct outage_log *ended)
{
	*ended = *log;
	*log = (struct outage_log){
		.line_ms = ended->line_ms,
		.failed_ms = ended->failed_ms,
		.told = ended->kinds | ended->told,
	};
	return ended->kinds != 0;
}
