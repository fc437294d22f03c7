/*
 * The metrics of the program: one enumerator for each family, and one row in meters.c with name, kind, help text,
 * labels and buckets. metrics_get(metrics, METER_X, …) finds a series. Read-only; any thread.
 */
#ifndef REPORT_METERS_H
#define REPORT_METERS_H

#include "report/metrics.h"

enum meter {
	METER_MESSAGES_RECEIVED,  /* {topic} */
	METER_DUPLICATES,         /* {topic} */
	METER_CONFLICTS,          /* {topic} */
	METER_REJECTS,            /* {topic,reason} */
	METER_SKIPPED,            /* {topic} */
	METER_UNWANTED,           /* {topic} */
	METER_TOPIC_RECREATED,    /* {topic} */
	METER_OFFSET_GAPS,        /* {topic} */
	METER_DELIVERIES,         /* {handler,outcome,consumer} */
	METER_IN_FLIGHT,          /* {handler,consumer} */
	METER_HANDLERS_CONNECTED, /* {handler,consumer} */
	METER_HANDLERS_LAPSED,    /* {handler,consumer} */
	METER_UNKNOWN_ANSWERS,    /* answers, extends for deliveries that are not open */
	METER_PROTOCOL_ERRORS,    /* invalid lines */
	METER_ORDER_VIOLATIONS,   /* messages that ordered batches finished out of order */
	METER_WAITING,            /* {consumer} */
	METER_WAITING_FOR_NOBODY, /* {consumer} */
	METER_PAUSED,             /* {kind,target}: 1 */
	METER_DEAD,
	METER_UNROUTED,       /* {consumer} */
	METER_OLDEST_WAITING, /* {consumer}, seconds */
	METER_CLAIMED,        /* messages in memory */
	METER_CLAIMED_BYTES,
	METER_KAFKA_LAG, /* {topic,partition} */
	METER_PARTITIONS_PAUSED,
	METER_PARTITIONS_STALLED,
	METER_OPEN_TRANSACTION, /* seconds */
	METER_KAFKA_THROTTLE,   /* {client}: a histogram, seconds */
	METER_RESCUED,
	METER_CLAIM_LOST,
	METER_PG_ERRORS, /* {class}: the kind of class, see store/pg/pg_error_class.h */
	METER_PG_RECONNECTS,
	METER_SET_ASIDE, /* {operation} */
	METER_PURGED,
	METER_RETENTION_REFUSED,
	METER_PAYLOADS_DROPPED,
	METER_DEAD_TOPIC_WAITING,
	METER_DEAD_TOPIC_PRODUCED,
	METER_DEAD_TOPIC_FAILURES,
	METER_EVENTS_DROPPED,
	METER_OUTBOX_UNATTENDED,
	METER_OUTBOX_LEADER,
	METER_OUTBOX_WAITING,
	METER_OUTBOX_OLDEST,
	METER_OUTBOX_HOLES,
	METER_OUTBOX_HELD_KEYS,
	METER_OUTBOX_HELD_TOPICS,
	METER_OUTBOX_DEAD,
	METER_OUTBOX_PUBLISHED,
	METER_OUTBOX_REFUSED,
	METER_OUTBOX_FAILURES,
	METER_OUTBOX_PUBLISH_SECONDS,
	METER_REQUESTS,
	METER_REQUESTS_LOST,
	METER_REQUESTS_EXPIRED,
	METER_OTLP_EXPORTED,
	METER_OTLP_DROPPED,
	METER_OTLP_FAILURES,
	METER_LOG_DROPPED,
	METER_OLDEST_XMIN,    /* seconds */
	METER_PG_CONNECTIONS, /* {state}: see store/pg/db.c */
	METER_READY,          /* {check}: see http/health.h */
	METER_BUILD_INFO,     /* {version} */
	METER_INGEST_BATCH,   /* histograms, seconds */
	METER_CLAIM,
	METER_SETTLE,
	METER_HANDLER,     /* {handler,consumer} */
	METER_END_TO_END,  /* {consumer} */
	METER_PROCESS_CPU, /* seconds; this and what follows: the process as the kernel sees it */
	METER_PROCESS_RESIDENT,
	METER_PROCESS_VIRTUAL,
	METER_PROCESS_FDS,
	METER_PROCESS_MAX_FDS,
	METER_PROCESS_START, /* seconds since 1970 */
	METER_COUNT
};

extern const struct metric_family meters[METER_COUNT];

#endif
