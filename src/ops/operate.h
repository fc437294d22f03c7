/*
 * The operator commands: status, list, show, replay, discard, purge, adopt. They use only
 * PostgreSQL, through the functions of the schema, as the configured user. Main thread; they block.
 */
#ifndef OPS_OPERATE_H
#define OPS_OPERATE_H

#include "config/config.h"
#include "ops/cli.h"

/* 0; FAULT_USAGE for arguments that the schema rejects; FAULT_CHECK when nothing matched. */
int operate(const struct cli *cli, const struct config *config, struct err *err);
/* Binds the schema to this cluster and group. */
int operate_adopt(const struct cli *cli, const struct config *config, const char *cluster_id,
	const char *group_id, struct err *err);

#endif
