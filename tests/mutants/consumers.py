"""R27: consumers."""

from mutants.mutant import edit, mutant

SYSTEM = "system/test_consumers.py::"
KNOWN = "sql/test_consumers_known.py::"

MUTANTS = [
    mutant("R27", "a repeat for one consumer is one for all",
           edit("src/store/batches/dedup_cache.c", "uint64_t seed = *consumer == '\\0'", "uint64_t seed = consumer != NULL"),
           tests=["unit/test_dedup_cache.c::an_event_of_another_consumer_is_not_found"]),
    mutant("R27", "a new row is taken for that of another consumer",
           edit("src/store/batches/batch_writer.c", " &&\n\t       strcmp(message->consumer, rows_text(rows, row, 4)) == 0;", ";"),
           tests=["sql/test_store_inbox.c::rows_of_one_record_are_told_apart_by_their_consumer"]),
    mutant("R27", "streams of a partition share their state",
           edit("src/model/admission/admission.c", "find_or_add(admission, &admission->consumers[consumer], topic, partition)",
                "find_or_add(admission, &admission->consumers[0 * consumer], topic, partition)"),
           tests=["unit/test_admission.c::streams_of_a_partition_are_placed_apart"]),
    mutant("R27", "handlers of all consumers compete",
           edit("src/model/routing/routes.c", "strcmp(route->consumer, probe->consumer) == 0", "route->consumer != NULL"),
           edit("src/model/routing/routes.c", "hash_bytes(seed, consumer, strlen(consumer))", "hash_bytes(seed, consumer, 0)"),
           tests=["unit/test_routing.c::consumers_do_not_compete_for_messages"]),
    mutant("R27", "a batch is cut inside a record",
           edit("src/model/message/batch.c", "while (rows < batch->row_count && batch->rows[rows].again)", "while (!batch)"),
           tests=["unit/test_batch.c::the_rows_of_a_record_stay_together"]),
    mutant("R27", "an instance stores for its own consumers only",
           edit("src/ingest/partitions/audience.c", "\tint r = known_consumers_read(ingest->db, &known, err);\n", "\tint r = 0;\n"),
           tests=[SYSTEM + "test_a_consumer_added_in_a_rolling_update_misses_nothing_from_its_start_on"]),
    mutant("R27", "a consumer is known forever",
           edit("sql/queries/partitions/known_consumers.sql", "WHERE c.listed_at > clock_timestamp() - c.memory", "WHERE true"),
           tests=[KNOWN + "test_a_consumer_is_known_until_its_memory_has_passed"]),
    mutant("R27", "a heartbeat defines a consumer",
           edit("sql/queries/partitions/keep_consumers.sql", "$6::boolean AND (b.topics", "$6::boolean IS NOT NULL AND (b.topics"),
           tests=[KNOWN + "test_a_registration_replaces_the_definition_and_a_heartbeat_does_not"]),
    mutant("R27", "handlers of the same name share their series",
           edit("src/dispatch/groups/handler_groups.c", "\tconst char *consumer = group->consumer;", "\tconst char *consumer = \"\";"),
           tests=[SYSTEM + "test_the_metrics_tell_consumers_apart"]),
    mutant("R27", "rows of an unknown consumer are not counted",
           edit("sql/queries/dispatch/count_for_nobody.sql", "r.consumer >= g.low AND", "r.consumer >= g.high AND"),
           tests=["sql/test_store_claims.c::gauges_count_each_consumer_and_the_rows_of_unknown_ones"]),
    mutant("R27", "the counts of many consumers do not fit into a pipeline",
           edit("src/store/claims/waiting_rows.c", "(i + 1) % BACKLOGS_AT_ONCE == 0", "i + 1 == 0"),
           tests=["sql/test_store_claims.c::gauges_count_the_rows_of_many_consumers"]),
    mutant("R27", "a hello for an unknown consumer is accepted",
           edit("src/model/admission/admission.c", "if (admission->consumers[i].known &&\n", "if (admission->consumers != NULL &&\n"),
           tests=["unit/test_admission.c::a_consumer_is_known_until_others_are"]),
]
