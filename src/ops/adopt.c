/*
 * `inboxd adopt`: binds the schema to the configured Kafka cluster and group. The binding keeps an
 * inboxd with another cluster or group.id away from the watermarks, because they are offsets of
 * this cluster and mean nothing in another one.
 */
#include <string.h>

#include "base/cleanup.h"
#include "ingest/ingest.h"
#include "ops/commands.h"
#include "ops/op.h"

static void print_result(
	const struct op *op, int64_t changed, const char *cluster_id, const char *group_id)
{
	if (!op->cli->json)
		(void)printf("schema \"%s\" belongs to cluster \"%s\" and group.id \"%s\" %s\n",
			op->config->inbox.schema, cluster_id, group_id,
			changed == 0 ? "already" : "now");
	op_print_change(op, "adopt", changed);
}

static int adopt(const struct op *op, const char *cluster_id, const char *group_id, struct err *err)
{
	CLEANUP(buf_fini) struct buf question = BUF_INIT;
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	CLEANUP(rows_freep) struct rows *binding = NULL;
	int r = db_run(op->db, QUERY_OP_BINDING, NULL, &binding, err);

	if (r == 0 && rows_count(binding) > 0 &&
		strcmp(rows_text(binding, 0, 0), cluster_id) == 0 &&
		strcmp(rows_text(binding, 0, 1), group_id) == 0) {
		print_result(op, 0, cluster_id, group_id);
		return 0;
	}
	if (r != 0)
		return r;
	if (rows_count(binding) > 0)
		buf_addf(&question, "schema \"%s\" belongs to cluster \"%s\" and group.id \"%s\"; ",
			op->config->inbox.schema, rows_text(binding, 0, 0),
			rows_text(binding, 0, 1));
	buf_addf(&question, "give it to cluster \"%s\" and group.id \"%s\"", cluster_id, group_id);
	r = op_confirm(op, "adopt", 1, buf_str(&question), err);
	if (r != 0)
		return r == OP_NO ? 0 : r;
	params_text(&params, cluster_id);
	params_text(&params, group_id);
	params_text(&params, op->cli->reason);
	r = db_run(op->db, QUERY_OP_ADOPT, &params, NULL, err);
	if (r == 0)
		print_result(op, 1, cluster_id, group_id);
	return r;
}

int command_adopt(const struct cli *cli, const struct config *config, struct err *err)
{
	CLEANUP(freep) char *cluster_id = NULL;
	const char *group_id = NULL;
	struct op op = { .cli = cli, .config = config };
	int r = op_check_words(cli, err);

	if (r == 0)
		r = ingest_identify(config, &cluster_id, &group_id, err);
	if (r == 0)
		r = op_open(&op, err);
	if (r == 0)
		r = adopt(&op, cluster_id, group_id, err);
	db_free(op.db);
	return op_explain(r, cli->command, config, err);
}
