"""Each rule reports a violation, and nothing else."""

import os
import sys
import unittest

sys.path[:0] = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
sys.dont_write_bytecode = True

import rule_circles
import rule_examples
import rule_features
import rule_figures
import rule_functions
import rule_glossary
import rule_layers
import rule_links
import rule_names
import rule_rules
import rule_signals
import rule_sql
import rule_style
import rule_waits
from mutants import ALL
from mutants.mutant import ROOT, edit, pattern, squeeze
from tree import Tree

STORY = "/* What this is for. */\n"
QUERY_HEAD = "-- Does it.\n-- Caller: store/it.c. Index: inbox_messages_claim.\n"
MIGRATION = "-- The table.\nCREATE INDEX inbox_messages_claim ON inbox.inbox_messages (seq);\n"


def words(rule, files):
    """The problems that a rule reports for these files, {path: text}."""
    return [text for _, _, text in rule.problems(Tree(files))]


def function(lines, parameters="void"):
    return STORY + f"static void big({parameters})\n{{\n" + "\tx();\n" * (lines - 3) + "}\n"


class Names(unittest.TestCase):
    def check(self, comment):
        return words(rule_names, {"src/store/retain_batch.c": f"/*\n * Implements {comment}.\n */\n", "src/store/retain_batch.h": STORY,
                                  "sql/queries/retain.sql": "-- Retains.\n"})

    def test_a_comment_names_files_that_exist(self):
        self.assertEqual(self.check("retain_batch.h, which calls store/retain_batch.c and queries/retain.sql"), [])
        self.assertEqual(self.check("queries.h with job.count and a.c_str, as in <sys/un.h>"), [])
        self.assertEqual(self.check("retain.h"), ["a comment names retain.h, which does not exist"])
        self.assertEqual(len(self.check("model/retain_batch.h and retain.sql and batch.h")), 2)

    def test_code_is_no_comment(self):
        self.assertEqual(words(rule_names, {"src/a.c": STORY + '#include "gone.h"\nint x = a.h;\n'}), [])


class Layers(unittest.TestCase):
    def check(self, path, include):
        return words(rule_layers, files={path: f"#include {include}\n"})

    def test_a_pure_room_stays_pure(self):
        self.assertEqual(len(self.check("src/dispatch/protocol/protocol.c", '"dispatch/context.h"')), 1)
        self.assertEqual(self.check("src/dispatch/protocol/protocol.c", '"dispatch/protocol/protocol.h"'), [])
        self.assertEqual(self.check("src/dispatch/sessions/session.c", '"dispatch/schedule/schedule.h"'), [])

    def test_a_room_includes_no_room_above_it(self):
        self.assertEqual(len(self.check("src/dispatch/order/lanes.c", '"dispatch/table/table.h"')), 1)
        self.assertEqual(len(self.check("src/dispatch/context.c", '"dispatch/order/order.h"')), 1)

    def test_an_arrow_may_skip_layers(self):
        self.assertEqual(self.check("src/ingest/a.c", '"base/err.h"'), [])

    def test_an_arrow_never_points_back(self):
        self.assertTrue(self.check("src/base/a.c", '"model/message/message.h"'))
        self.assertTrue(self.check("src/store/a.c", '"dispatch/table/worker.h"'))

    def test_neighbours_do_not_see_each_other(self):
        self.assertTrue(self.check("src/ingest/a.c", '"dispatch/table/worker.h"'))
        self.assertTrue(self.check("src/model/a.c", '"config/config.h"'))

    def test_nobody_includes_the_assembly(self):
        self.assertTrue(self.check("src/store/a.c", '"daemon/daemon.h"'))
        self.assertTrue(self.check("src/ingest/a.c", '"ops/commands.h"'))
        self.assertTrue(self.check("src/daemon/a.c", '"ops/cli.h"'))

    def test_config_may_use_the_ordering_enum_only(self):
        self.assertEqual(self.check("src/config/a.h", '"model/message/ordering.h"'), [])
        self.assertTrue(self.check("src/config/a.h", '"model/message/message.h"'))

    def test_a_library_belongs_to_one_folder(self):
        self.assertEqual(self.check("src/store/pg/a.c", "<libpq-fe.h>"), [])
        self.assertTrue(self.check("src/ingest/a.c", "<libpq-fe.h>"))
        self.assertTrue(self.check("src/dispatch/a.c", "<librdkafka/rdkafka.h>"))
        self.assertEqual(self.check("tools/devbroker/a.c", "<librdkafka/rdkafka.h>"), [])

    def test_a_header_with_a_library_stays_in_the_room_of_the_library(self):
        header = {"src/ingest/kafka/convert.h": "#include <librdkafka/rdkafka.h>\n"}
        include = '#include "ingest/kafka/convert.h"\n'
        self.assertEqual(words(rule_layers, files={**header, "src/ingest/kafka/a.c": include}), [])
        self.assertEqual(len(words(rule_layers, files={**header, "src/ingest/partitions/a.c": include})), 1)

    def test_the_room_of_a_library_knows_no_caller(self):
        self.assertTrue(self.check("src/ingest/kafka/a.c", '"ingest/state.h"'))
        self.assertTrue(self.check("src/ingest/partitions/a.c", '"ingest/batch/store_batch.h"'))

    def test_the_handler_library_knows_nothing_of_the_daemon(self):
        self.assertEqual(self.check("src/client/a.c", '"client/wire.h"'), [])
        self.assertEqual(self.check("src/client/a.c", '"inboxd/handler.h"'), [])
        self.assertTrue(self.check("src/client/a.c", '"model/message/batch.h"'))

    def test_a_public_header_stands_alone(self):
        self.assertTrue(self.check("include/inboxd/handler.h", '"base/buf.h"'))


class Functions(unittest.TestCase):
    def test_sixty_lines_are_fine(self):
        self.assertEqual(words(rule_functions, files={"src/a.c": function(60)}), [])

    def test_sixty_one_lines_are_not(self):
        self.assertTrue(words(rule_functions, files={"src/a.c": function(61)}))

    def test_a_static_table_does_not_count(self):
        text = function(50).replace("{\n", "{\n\tstatic const int t[] = {\n" + "\t\t1,\n" * 40
                                    + "\t};\n", 1)
        self.assertEqual(words(rule_functions, files={"src/a.c": text}), [])

    def test_five_parameters_are_fine_and_six_are_not(self):
        five = "int a, int b, int (*c)(int, int), int d, int e"
        self.assertEqual(words(rule_functions, files={"src/a.c": function(9, five)}), [])
        self.assertTrue(words(rule_functions, files={"src/a.c": function(9, five + ", int f")}))

    def test_parameters_on_several_lines_count(self):
        six = "int a, int b, int c,\n\tint d, int e, int f"
        self.assertTrue(words(rule_functions, files={"src/a.c": function(9, six)}))

    def test_eight_hundred_lines_a_file_are_fine_and_one_more_is_not(self):
        self.assertEqual(words(rule_functions, files={"src/a.c": STORY + "int x;\n" * 799}), [])
        self.assertTrue(words(rule_functions, files={"src/a.c": STORY + "int x;\n" * 800}))


class Style(unittest.TestCase):
    def test_clean_code_is_quiet(self):
        self.assertEqual(words(rule_style, files={"src/a.c": STORY + "int x;\n"}), [])

    def test_each_unwanted_word_is_found(self):
        for line in ("\tgoto out;", "typedef struct a b;", "\tstrcpy(a, b);", "/* TO" "DO */",
                     'open("/wo' 'rk/x");', "int x; "):
            with self.subTest(line):
                self.assertTrue(words(rule_style, files={"src/a.c": STORY + line + "\n"}))

    def test_a_file_without_a_story_is_found(self):
        self.assertTrue(words(rule_style, files={"src/a.c": "int x;\n"}))

    def test_the_story_may_be_in_the_header(self):
        both = {"src/a.c": "int x;\n", "src/a.h": STORY}
        self.assertEqual(words(rule_style, files=both), [])


class Sql(unittest.TestCase):
    def check(self, query, **more):
        return words(rule_sql, files={"sql/migrations/0001_baseline.sql": MIGRATION,
                                      "src/store/it.c": STORY + "int x = QUERY_IT;\n", "sql/queries/it.sql": query, **more})

    def test_a_good_query_is_quiet(self):
        self.assertEqual(self.check(QUERY_HEAD + "SELECT 1\n"), [])

    def test_a_query_names_its_caller_and_index(self):
        self.assertEqual(len(self.check("-- Does it.\nSELECT 1\n")), 2)

    def test_a_query_has_a_head(self):
        self.assertTrue(self.check("SELECT 1\n"))

    def test_the_head_of_a_query_names_existing_callers_and_indexes(self):
        self.assertTrue(self.check(QUERY_HEAD.replace("it.c", "gone.c") + "SELECT 1\n"))
        self.assertTrue(self.check(QUERY_HEAD.replace("_claim", "_gone") + "SELECT 1\n"))

    def test_the_caller_runs_the_query(self):
        self.assertTrue(self.check(QUERY_HEAD + "SELECT 1\n", **{"src/store/it.c": STORY}))

    def test_a_file_is_one_statement(self):
        self.assertTrue(self.check(QUERY_HEAD + "SELECT 1; SELECT 2\n"))

    def test_a_named_query_lists_its_columns(self):
        named = QUERY_HEAD + "-- Named: yes.\n"
        self.assertEqual(self.check(named + "SELECT a.x, count(*) FROM (SELECT * FROM t) a\n"), [])
        for result in ("SELECT * FROM t", "SELECT a, t.* FROM t", "UPDATE t SET a = 1 RETURNING *"):
            self.assertTrue(self.check(named + result + "\n"))
            self.assertEqual(self.check(QUERY_HEAD + result + "\n"), [])

    def test_migrations_are_numbered_without_a_gap(self):
        third = {"sql/migrations/0003_more.sql": "-- More.\n"}
        self.assertTrue(self.check(QUERY_HEAD + "SELECT 1\n", **third))

    def test_the_build_lists_each_file(self):
        files = ["migrations/0001_baseline.sql", "queries/it.sql", "parts/end.sql"]
        for listed, problems in ((files, 0), (files[:2], 1)):
            build = "files(" + ", ".join(f"'{path}'" for path in listed) + ")\n"
            found = self.check(QUERY_HEAD + "SELECT 1\n", **{"sql/parts/end.sql": "-- The end.\n",
                                                              "sql/meson.build": build})
            self.assertEqual(len(found), problems)


class Rules(unittest.TestCase):
    ROW = "## R7 It holds\n| it holds | `sql/test_it.c::it_holds`, `system/test_it.py::test_it` |\n"
    TESTS = {"tests/sql/test_it.c": "static void it_holds(void **state)\n",
             "tests/system/test_it.py": "def test_it(inbox):\n"}

    def check(self, table, **more):
        return words(rule_rules, files={"docs/rules.md": table, **self.TESTS, **more})

    def test_a_rule_with_its_tests_is_quiet(self):
        self.assertEqual(self.check(self.ROW, **{"src/a.c": "/* rule R7 */\n"}), [])

    def test_a_missing_test_is_found(self):
        self.assertTrue(self.check(self.ROW.replace("it_holds`", "it_held`")))
        self.assertTrue(self.check(self.ROW.replace("test_it.py", "test_that.py")))

    def test_a_rule_without_a_test_is_found(self):
        self.assertTrue(self.check(self.ROW + "## R8 And this\n"))

    def test_a_number_that_two_rules_have_is_found(self):
        self.assertTrue(self.check(self.ROW + self.ROW))

    def test_a_row_that_is_there_twice_is_found(self):
        self.assertTrue(self.check(self.ROW + "| it holds | `sql/test_it.c::it_holds` |\n"))

    def test_a_rule_missing_in_the_document_is_found(self):
        self.assertTrue(self.check(self.ROW, **{"src/a.c": "/* rule R9 */\n"}))


class Links(unittest.TestCase):
    def check(self, link):
        return words(rule_links, {"docs/a.md": f"## A `b`, c\n[x]({link})\n", "README.md": "# Top\n", "src/x.c": ""})

    def test_valid_links_are_quiet(self):
        for link in ("#a-b-c", "../README.md", "../README.md#top", "../src", "https://example.org/x"):
            self.assertEqual(self.check(link), [])

    def test_broken_links_are_found(self):
        for link in ("#a", "b.md", "../README.md#bottom"):
            self.assertEqual(len(self.check(link)), 1, link)


class Signals(unittest.TestCase):
    HEAD = "|---|---|\n"
    FILES = {
        "docs/metrics.md": "| metric | kind | means | look |\n" + HEAD + "| `inboxd_a_total{topic}` | counter | A.<br>b | c |\n",
        "docs/alerts.md": "| alert | severity | means |\n" + HEAD + "| `InboxdA` | warning | a |\n",
        "docs/log-events.md": "| event | level | means |\n" + HEAD + "| `a_begun` | info | `why` |\n| `b_lost` | warn | b |\n\n"
                              "| code | means |\n" + HEAD + "| `TIMEOUT` | a |\n\n| SQLSTATE | means |\n" + HEAD
                              + "| `IB001` | a |\n\n| exit code | means |\n" + HEAD + "| 0 | a |\n| 70 | a |\n",
        "src/report/meters.c": '[METER_A] = COUNTER("inboxd_a_total", "A.", "topic"),\n',
        "deploy/prometheus/rules.yaml": "- alert: InboxdA\n  labels: {severity: warning}\n",
        "src/dispatch/a.c": 'log_info(\n\t"a_begun", LOG_STR("why", "x"));\nsay(entry, strdup("TIMEOUT"));\n',
        "src/ingest/b.c": '[PG_ERROR_LOST] = { "b_lost", 1 },\nlog_warn(manner->event, LOG_INT("retry_in_ms", 1));\n',
        "sql/functions/a.sql": "USING ERRCODE = 'IB001'\n",
        "src/base/err.h": "FAULT_INTERNAL = -70,\nFAULT_MEMORY = -71,\n",
    }

    def check(self, **changes):
        files = dict(self.FILES)
        for path, (old, new) in zip(changes.pop("paths"), changes.pop("edits")):
            self.assertIn(old, files[path])
            files[path] = files[path].replace(old, new)
        return words(rule_signals, files)

    def test_explained_names_are_quiet(self):
        self.assertEqual(self.check(paths=[], edits=[]), [])

    def test_a_name_that_is_explained_twice_is_found(self):
        row = "| `a_begun` | info | `why` |\n"
        self.assertEqual(len(self.check(paths=["docs/log-events.md"], edits=[(row, row + row)])), 1)

    def test_unexplained_names_are_found(self):
        for path, old, new in (("src/report/meters.c", "inboxd_a_total", "inboxd_b_total"),
                               ("deploy/prometheus/rules.yaml", "InboxdA", "InboxdB"),
                               ("src/dispatch/a.c", '"a_begun"', 'late ? "a_begun" : "a_late"'),
                               ("src/ingest/b.c", "b_lost", "b_found"),
                               ("src/dispatch/a.c", "TIMEOUT", "CRASHED"),
                               ("sql/functions/a.sql", "IB001", "IB009"),
                               ("src/base/err.h", "-70", "-8")):
            self.assertTrue(self.check(paths=[path], edits=[(old, new)]), path)

    def test_explained_names_that_do_not_exist_are_found(self):
        gone = self.check(paths=["docs/log-events.md"], edits=[("| `b_lost` | warn | b |\n", "| `b_lost` | warn | b |\n| `c` | warn | c |\n")])
        self.assertEqual(gone, ["explains the log event c, which does not exist"])

    def test_what_a_row_says_and_the_source_does_not_is_found(self):
        for path, old, new in (("docs/log-events.md", "| info |", "| warn |"),
                               ("docs/log-events.md", "`why`", "`retry_in_ms`"),
                               ("docs/alerts.md", "warning", "critical"),
                               ("docs/metrics.md", "{topic}", ""),
                               ("docs/metrics.md", "counter", "gauge"),
                               ("docs/metrics.md", "A.", "B."),
                               ("src/report/meters.c", '"A."', '"A"\n\t" longer."')):
            self.assertEqual(len(self.check(paths=[path], edits=[(old, new)])), 1, new)

    def test_a_level_that_is_known_when_the_program_runs_may_be_any(self):
        self.assertEqual(self.check(paths=["src/dispatch/a.c"], edits=[("log_info(", "log_at(late ? LOG_WARN : LOG_INFO,")]), [])


class Examples(unittest.TestCase):
    SHOWN = "# In Python\n\n```python\nprint(1)\n```\n\n```sh\nls\n```\n"

    def check(self, example):
        return words(rule_examples, {"README.md": self.SHOWN, "docs/handlers.md": "", "examples/a.py": example})

    def test_code_in_documents_is_part_of_an_example(self):
        self.assertEqual(self.check("import os\nprint(1)\nprint(2)\n"), [])

    def test_different_code_in_documents_is_found(self):
        self.assertTrue(self.check("print(2)\n"))
        self.assertTrue(self.check("print(1) # more\n"))

    def test_a_method_in_java_is_indented_in_its_example(self):
        shown = "```java\nvoid run() {\n\n    end();\n}\n```\n"
        for method, found in (("    void run() {\n\n        end();\n    }\n", False), ("    void run() {\n        end();\n    }\n", True)):
            example = f"class A {{\n{method}}}\n"
            files = {"README.md": "", "docs/handlers.md": shown, "handlers/java/examples/A.java": example}
            self.assertEqual(bool(words(rule_examples, files)), found)


class Features(unittest.TestCase):
    HEADING = "| feature | C | Python | Node.js | Go | Java |\n|---|---|---|---|---|---|\n"
    CELLS = ("`inbox_stop()`", "`Handler(name=…)`", "`handler.onBatch()`", "`d.Emit(Event{…})`", "`event.data()`")
    SOURCES = {"include/inboxd/handler.h": "INBOX_API void inbox_stop(void);\n",
               "handlers/python/src/inboxd/a.py": "class Handler:\n    name: str\n",
               "handlers/node/src/a.ts": "class A {\n  onBatch(): void {}\n}\n",
               "handlers/go/a.go": "type Event struct {\n\tID string\n}\n\nfunc (d *D) Emit(e Event) {\n}\n",
               "handlers/java/src/main/java/A.java": "public record A(String data, int size) {\n}\n"}

    def check(self, *cells, **sources):
        return words(rule_features, {**self.SOURCES, **sources, "docs/handlers.md": f"{self.HEADING}| a | {' | '.join(cells)} |\n\n"})

    def test_names_of_the_libraries_exist(self):
        self.assertEqual(self.check(*self.CELLS), [])

    def test_a_name_that_a_library_does_not_have_is_found(self):
        wrong = ("`inbox_start()`", "`Handler(names=…)`", "`handler.off()`", "`d.Emit(Events{…})`", "`event.datum()`")
        for place, cell in enumerate(wrong):
            self.assertEqual(len(self.check(*self.CELLS[:place], cell, *self.CELLS[place + 1:])), 1, cell)

    def test_a_name_that_is_only_used_or_in_a_test_is_no_definition(self):
        self.assertTrue(self.check(*self.CELLS, **{"handlers/python/src/inboxd/a.py": "Handler(name=1)\n"}))
        self.assertTrue(self.check(*self.CELLS, **{"handlers/go/a.go": "", "handlers/go/a_test.go": self.SOURCES["handlers/go/a.go"]}))

    def test_a_missing_cell_is_found(self):
        self.assertTrue(self.check(*self.CELLS[:4]))


class Waits(unittest.TestCase):
    def check(self, body, path="src/ingest/kafka/a.c"):
        return words(rule_waits, {path: f"{STORY}void a(void)\n{{\n{body}}}\n"})

    def test_a_wait_is_announced_before_it(self):
        wait = "\tevent = rd_kafka_queue_poll(queue, timeout_ms);\n"
        self.assertEqual(self.check(wait), ["rd_kafka_queue_poll() waits without progress_note()"])
        self.assertEqual(len(self.check(wait + "\tprogress_note(timeout_ms);\n")), 1)
        self.assertEqual(self.check("\tprogress_note(timeout_ms);\n" + wait), [])

    def test_a_look_is_no_wait(self):
        self.assertEqual(self.check("\t(void)rd_kafka_poll(kafka, 0);\n"), [])

    def test_commands_have_no_threads_that_are_watched(self):
        self.assertEqual(self.check("\t(void)rd_kafka_poll(kafka, 1);\n", "src/ingest/kafka/commands/a.c"), [])


class Circles(unittest.TestCase):
    def check(self, **bodies):
        return words(rule_circles, {f"src/store/{name}.c": f"{STORY}void {name}(void)\n{{\n\t{body}\n}}\n"
                                    for name, body in bodies.items()})

    def test_two_files_that_call_each_other_are_a_circle(self):
        self.assertEqual(len(self.check(a="b();", b="a();")), 1)

    def test_three_files_can_be_a_circle(self):
        self.assertEqual(len(self.check(a="b();", b="c();", c="a();")), 1)

    def test_calls_in_one_direction_are_no_circle(self):
        self.assertEqual(self.check(a="b(); c();", b="c();", c="x();"), [])

    def test_a_name_in_a_comment_or_a_text_is_no_call(self):
        self.assertEqual(self.check(a="b();", b='log("a"); /* as a() does */'), [])


class Glossary(unittest.TestCase):
    GLOSSARY = "# Glossary\n\n## Names that are not used\n\n| old name | new name |\n|---|---|\n| keeper | heartbeat |\n"

    def check(self, path, text):
        return words(rule_glossary, {"docs/glossary.md": self.GLOSSARY, path: text})

    def test_an_old_name_is_found_in_words_and_identifiers(self):
        for line in ("the keeper thread", "keeper_new();", "struct my_keeper", "KEEPER_MAX"):
            self.assertEqual(len(self.check("src/a.c", line)), 1, line)

    def test_an_old_name_is_found_in_the_name_of_a_file(self):
        self.assertEqual(len(self.check("src/lease/keeper.c", "x")), 1)

    def test_longer_words_are_allowed(self):
        self.assertEqual(self.check("src/a.c", "a housekeeper; keepers"), [])

    def test_an_old_name_is_found_in_tests_sql_and_documents(self):
        for path in ("tests/unit/test_a.c", "sql/functions/a.sql", "docs/a.md", "README.md"):
            self.assertEqual(len(self.check(path, "the keeper thread")), 1, path)

    def test_an_old_name_is_allowed_as_data_and_in_the_changelog(self):
        self.assertEqual(self.check("docs/a.md", "the event type `keeper`"), [])
        self.assertEqual(self.check("tests/a.py", 'filter["keeper"]'), [])
        self.assertEqual(self.check("CHANGELOG.md", "keeper"), [])

    def test_a_glossary_without_the_table_is_a_problem(self):
        self.assertEqual(len(words(rule_glossary, {"docs/glossary.md": "# Glossary\n"})), 1)


class Figures(unittest.TestCase):
    SOURCE = "title T\nsize 200 50\nstate waiting 0 0 80 40 waiting\nend dead 120 0 80 40 dead\narrow waiting:right dead:left\n"
    VIEW = "CREATE VIEW inbox.messages AS SELECT CASE WHEN m.x THEN 'dead' ELSE 'waiting' END AS status"

    def check(self, source=SOURCE, drawn=None, view=VIEW):
        return words(rule_figures, {"docs/figures/states.txt": source, "sql/functions/views.sql": view,
                                    "docs/figures/states.svg": drawn or rule_figures.figures.draw(source)})

    def test_a_figure_is_drawn_from_its_source(self):
        self.assertEqual(self.check(), [])
        self.assertIn("not up to date", self.check(drawn="<svg/>")[0])

    def test_a_figure_has_the_states_of_the_view(self):
        self.assertIn("parked", self.check(view=self.VIEW.replace("'dead'", "'dead' WHEN m.y THEN 'parked'"))[0])
        self.assertIn("dead", self.check(view=self.VIEW.replace("'dead'", "'waiting'"))[0])


class Mutants(unittest.TestCase):
    """tests/mutants removes rules from the current sources; its tests and rules are in docs/rules.md."""

    def test_each_mutant_fits_the_sources(self):
        self.assertEqual([f"{one.name}: {one.misfit()}" for one in ALL if one.misfit()], [])

    def test_white_space_in_a_piece_does_not_count(self):
        for text in ("\tif (first(a, b) == 0)\n\t\treturn 1;\n", "if (first(\n\t\ta, b) == 0) return 1;"):
            self.assertTrue(pattern("if (first(a, b) == 0) return 1;").search(text))
            self.assertEqual(squeeze(text), "if(first(a,b)==0)return 1;")

    def test_an_edit_fits_one_place_and_changes_it(self):
        self.assertIn("say within which function", edit("return 0;", "").misfit())
        self.assertIn("nowhere in elsewhere", edit("return 0;", "", within="elsewhere").misfit())
        some = ALL[0].edits[0]
        self.assertIsNone(some.misfit())
        self.assertIn("replaced by itself", edit(some.old, f" {some.old} ", within=some.within).misfit())

    def test_each_mutant_names_tests_of_its_rule(self):
        sections = {}
        for section in (ROOT / "docs/rules.md").read_text(encoding="utf-8").split("\n## ")[1:]:
            sections[section.split()[0]] = section
        missing = [f"{one.rule}: {test}" for one in ALL if one.rule.startswith("R") for test in one.tests
                   if f"`{test.partition('[')[0]}`" not in sections[one.rule]]
        self.assertEqual(missing, [])

    def test_each_rule_has_a_mutant(self):
        headings = {f"R{number}" for number in range(1, 34)}
        self.assertEqual({one.rule for one in ALL if one.rule.startswith("R")}, headings)


if __name__ == "__main__":
    unittest.main()
