/*
 * Implements binding.h.
 */
#include "store/schema/binding.h"

#include <string.h>

#include "queries.h"

static int check_binding(struct db *db, const struct rows *rows, const char *cluster_id,
	const char *group_id, struct err *err)
{
	const char *their_cluster = rows_text(rows, 0, 0);
	const char *their_group = rows_text(rows, 0, 1);

	if (strcmp(their_cluster, cluster_id) == 0 && strcmp(their_group, group_id) == 0)
		return 0;
	(void)err_set(err, FAULT_CONFIG,
		"schema \"%s\" belongs to Kafka cluster \"%s\" and group.id \"%s\", but this is "
		"cluster \"%s\" and group.id \"%s\"",
		db_schema(db), their_cluster, their_group, cluster_id, group_id);
	return err_advise(err,
		"set another schema in inbox.schema, or, if this is intended, run `inboxd adopt`");
}

int schema_bind(struct db *db, const char *cluster_id, const char *group_id, struct err *err)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = 0;

	params_text(&params, cluster_id);
	params_text(&params, group_id);
	/* no row means that another instance bound the schema while the statement was running; the
	 * next try sees that */
	for (int i = 0; r == 0 && rows_count(rows) == 0 && i < 3; i++)
		r = db_run(db, QUERY_BIND_SCHEMA, &params, &rows, err);
	if (r != 0)
		return r;
	if (rows_count(rows) == 0)
		return err_set(err, FAULT_DATABASE,
			"cannot read which cluster and group the schema \"%s\" belongs to",
			db_schema(db));
	return check_binding(db, rows, cluster_id, group_id, err);
}

int schema_check_binding(
	struct db *db, const char *cluster_id, const char *group_id, bool *bound, struct err *err)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	int r = db_run(db, QUERY_READ_BINDING, NULL, &rows, err);

	*bound = r == 0 && rows_count(rows) > 0;
	return *bound ? check_binding(db, rows, cluster_id, group_id, err) : r;
}
