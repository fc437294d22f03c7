/*
 * Holds and ends the flow of all partitions; see state.h.
 */
#include "ingest/state.h"

static void pause_all(struct ingest *ingest)
{
	size_t count = 0;
	const struct partition_offset *flowing =
		partitions_select(&ingest->partitions, partition_is_flowing, &count);

	consumer_pause(ingest->consumer, flowing, count);
	for (size_t i = 0; i < ingest->partitions.count; i++) {
		struct partition *partition = ingest->partitions.items[i];

		/* a paused partition is not fetched, so no failed fetch would reveal that its topic
		 * was recreated */
		if (partition->flowing)
			partition_verify_last(partition);
		partition->flowing = false;
	}
}

void ingest_hold(struct ingest *ingest, enum hold reason)
{
	ingest->holds |= (unsigned)reason;
	pause_all(ingest);
}

void ingest_unhold(struct ingest *ingest, enum hold reason)
{
	ingest->holds &= ~(unsigned)reason;
}

void ingest_fenced(struct ingest *ingest)
{
	if ((ingest->holds & HOLD_HALTED) == 0)
		supervision_report_fenced(ingest->options.supervision);
	ingest_hold(ingest, HOLD_HALTED);
}

void ingest_fault(struct ingest *ingest, const struct err *err)
{
	supervision_report_fault(ingest->options.supervision, err);
	ingest_hold(ingest, HOLD_HALTED);
}
