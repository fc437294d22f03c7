/* A program that is run for its output: its limits, what it may see, and who may change it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/program.h"
#include "base/time/clock.h"

#define SHELL   "/bin/sh"
#define LONG_MS 30000

static struct thread thread = THREAD_INIT;

/* Runs a script of the shell. */
static int run(const char *script, int64_t timeout_ms, struct buf *out, struct err *err)
{
	char shell[] = SHELL;
	char option[] = "-c";
	CLEANUP(freep) char *text = strdup(script);
	char *command[] = { shell, option, text, NULL };
	struct program program = { .command = command, .timeout_ms = timeout_ms };

	buf_reset(out);
	*err = (struct err)ERR_INIT;
	return program_run(&program, &thread, out, err);
}

static void its_output_is_kept(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err;

	(void)state;
	assert_int_equal(run("echo token; echo words >&2", LONG_MS, &out, &err), 0);
	assert_string_equal(buf_str(&out), "token\n");
	assert_int_equal(run("head -c 65536 /dev/zero", LONG_MS, &out, &err), 0);
	assert_int_equal(out.length, PROGRAM_OUTPUT_MAX);
}

static void a_failure_names_the_last_line_of_stderr_without_secrets(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err;
	static const char long_word[] =
		"eyJhbGciOiJub25lIn0.eyJzdWIiOiJiaWxsaW5nIiwiZXhwIjoxNzAwMDAwMTAwfQ.";
	char script[256];

	(void)state;
	assert_int_equal(
		run("echo secret; echo first >&2; echo no access >&2; exit 3", LONG_MS, &out, &err),
		FAULT_INTERNAL);
	assert_string_equal(err.text, SHELL " ended with exit code 3: no access");
	assert_int_equal(run("exit 3", LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_string_equal(err.text, SHELL " ended with exit code 3, and wrote nothing to stderr");
	assert_int_equal(run("kill -9 $$", LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_non_null(strstr(err.text, "ended with signal 9"));
	(void)snprintf(script, sizeof(script), "echo 'sent %s to it' >&2; exit 1", long_word);
	assert_int_equal(run(script, LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_string_equal(err.text, SHELL " ended with exit code 1: sent ***.***. to it");
	assert_int_equal(run("echo CERTIFICATE_VERIFY_FAILED: /usr/lib/ssl/cert.pem >&2; exit 1",
				 LONG_MS, &out, &err),
		FAULT_INTERNAL);
	assert_string_equal(err.text, SHELL " ended with exit code 1: "
					    "CERTIFICATE_VERIFY_FAILED: /usr/lib/ssl/cert.pem");
	assert_int_equal(run("echo '+ curl -d id=7&secret=Zm9vYmFyYmF6cXV4cXV1eA "
			     "https://login.example.com/v2/token'"
			     " >&2; exit 1",
				 LONG_MS, &out, &err),
		FAULT_INTERNAL);
	assert_string_equal(err.text, SHELL " ended with exit code 1: + curl -d id=7&*** "
					    "https://login.example.com/v2/token");
}

static void too_much_output_ends_it(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	const int64_t began_ms = clock_now_ms();
	struct err err;

	(void)state;
	assert_int_equal(run("cat /dev/zero", LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_non_null(strstr(err.text, "too much to stdout"));
	assert_int_equal(
		run("head -c 1048576 /dev/zero; sleep 60", LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_non_null(strstr(err.text, "too much to stdout"));
	assert_int_equal(out.length, PROGRAM_OUTPUT_MAX);
	assert_int_equal(run("head -c 1048576 /dev/zero >&2; echo; echo end >&2; exit 1", LONG_MS,
				 &out, &err),
		FAULT_INTERNAL);
	assert_non_null(strstr(err.text, "end"));
	assert_true(clock_now_ms() - began_ms < LONG_MS);
}

/* The pid that a script has written to stdout. */
static pid_t pid_in(struct buf *out)
{
	const pid_t pid = (pid_t)strtol(buf_str(out), NULL, 10);

	assert_true(pid > 1);
	return pid;
}

/* A process that was killed can be a zombie of somebody else for a moment. */
static bool is_gone(pid_t pid)
{
	char path[64];
	char line[512] = "";
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return true;
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	(void)fclose(file);
	return line[0] == '\0' || strstr(line, ") Z ") != NULL;
}

static void assert_ends(pid_t pid)
{
	for (int i = 0; i < 3000 && !is_gone(pid); i++)
		(void)usleep(10000);
	assert_true(is_gone(pid));
}

/* Runs a script into its timeout, again with a longer one while a busy machine has not let it write its pid. */
static pid_t run_too_long(const char *script, int64_t timeout_ms)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err;

	for (; out.length == 0 && timeout_ms < LONG_MS; timeout_ms *= 2) {
		assert_int_equal(run(script, timeout_ms, &out, &err), FAULT_INTERNAL);
		assert_non_null(strstr(err.text, "took too long"));
	}
	return pid_in(&out);
}

static void its_group_is_killed_at_the_timeout(void **state)
{
	(void)state;
	assert_ends(run_too_long("sleep 600 & echo $!; trap '' TERM; wait; sleep 600", 300));
}

/* Only a process that is no leader of a session can do so. */
static void a_program_that_has_left_its_group_is_killed(void **state)
{
	static const char script[] = "exec python3 -c 'import os, time; os.setpgid(0, "
				     "os.getpgid(os.getppid())); print(os.getpid(), flush=True); "
				     "time.sleep(600)'";

	(void)state;
	assert_ends(run_too_long(script, 700));
}

static void what_it_leaves_behind_is_killed(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	const int64_t began_ms = clock_now_ms();
	struct err err;

	(void)state;
	assert_int_equal(run("sleep 600 & echo $!", LONG_MS, &out, &err), 0);
	assert_true(clock_now_ms() - began_ms < LONG_MS);
	assert_ends(pid_in(&out));
}

static void a_stop_ends_it(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	struct err err;

	(void)state;
	thread_request_stop(&thread);
	assert_int_equal(run("echo $$; exec sleep 600", LONG_MS, &out, &err), FAULT_INTERNAL);
	assert_non_null(strstr(err.text, "inboxd stops"));
	atomic_store(&thread.stop, false);
}

static void it_sees_no_secrets_and_no_descriptors_of_ours(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	const int leaked = open("/dev/null", O_RDONLY);
	struct err err;

	(void)state;
	assert_true(leaked > STDERR_FILENO);
	assert_int_equal(setenv("INBOXD_POSTGRES_PASSWORD", "secret", 1), 0);
	assert_int_equal(setenv("PGPASSWORD", "secret", 1), 0);
	assert_int_equal(setenv("OTHERS", "kept", 1), 0);
	assert_int_equal(run("env; echo /proc/self/fd/*; cat", LONG_MS, &out, &err), 0);
	assert_null(strstr(buf_str(&out), "secret"));
	assert_non_null(strstr(buf_str(&out), "OTHERS=kept"));
	/* The shell itself may have one open, of the directory. */
	assert_null(strstr(buf_str(&out), "fd/4"));
	(void)close(leaked);
}

static void it_gets_signals_as_usual(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;
	sigset_t all;
	sigset_t before;
	struct err err;

	(void)state;
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);
	assert_int_equal(
		run("kill -PIPE $$; kill -TERM $$; sleep 60", LONG_MS, &out, &err), FAULT_INTERNAL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_non_null(strstr(err.text, "signal 13"));
}

struct place {
	char directory[64];
	char path[128];
};

static struct place new_place(void)
{
	struct place place = { "/tmp/inboxd-program-XXXXXX", "" };
	FILE *file;

	assert_non_null(mkdtemp(place.directory));
	(void)snprintf(place.path, sizeof(place.path), "%s/program", place.directory);
	file = fopen(place.path, "we");
	assert_non_null(file);
	(void)fputs("#!/bin/sh\necho token\n", file);
	(void)fclose(file);
	assert_int_equal(chmod(place.path, 0755), 0);
	return place;
}

static void remove_place(const struct place *place)
{
	(void)unlink(place->path);
	(void)rmdir(place->directory);
}

static int find(const char *path, struct err *err)
{
	CLEANUP(freep) char *real = NULL;

	*err = (struct err)ERR_INIT;
	return program_find(path, &real, err);
}

static void a_program_that_others_may_write_is_refused(void **state)
{
	struct place place = new_place();
	struct err err;

	(void)state;
	assert_int_equal(find(place.path, &err), 0);
	assert_int_equal(chmod(place.path, 0757), 0);
	assert_int_equal(find(place.path, &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, "may write it: "));
	assert_int_equal(chmod(place.path, 0775), 0);
	assert_int_equal(find(place.path, &err), FAULT_CONFIG);
	assert_int_equal(chmod(place.path, 0755), 0);
	assert_int_equal(chmod(place.directory, 0777), 0);
	assert_int_equal(find(place.path, &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, "may write /tmp/inboxd-program-"));
	assert_int_equal(chmod(place.directory, 01777), 0);
	assert_int_equal(find(place.path, &err), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(place.path, 12345, 0), 0);
		assert_int_equal(find(place.path, &err), FAULT_CONFIG);
	}
	remove_place(&place);
}

static void a_link_is_followed_before_the_check(void **state)
{
	struct place place = new_place();
	char link[160];
	struct err err;

	(void)state;
	(void)snprintf(link, sizeof(link), "%s.link", place.path);
	assert_int_equal(symlink(place.path, link), 0);
	assert_int_equal(find(link, &err), 0);
	assert_int_equal(chmod(place.path, 0757), 0);
	assert_int_equal(find(link, &err), FAULT_CONFIG);
	(void)unlink(link);
	remove_place(&place);
}

static void a_link_that_others_may_replace_is_refused(void **state)
{
	char directory[] = "/tmp/test_program_XXXXXX";
	char link[64];
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(directory));
	(void)snprintf(link, sizeof(link), "%s/link", directory);
	assert_int_equal(symlink(SHELL, link), 0);
	assert_int_equal(find(link, &err), 0);
	assert_int_equal(chmod(directory, 0770), 0);
	assert_int_equal(find(link, &err), FAULT_CONFIG);
	assert_non_null(strstr(err.text, directory));
	(void)unlink(link);
	(void)rmdir(directory);
}

static void a_path_that_is_no_program_is_refused(void **state)
{
	static const char *const paths[] = { "sh", "bin/sh", "/tmp", "/etc/passwd",
		"/does/not/exist", "" };
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(find(paths[i], &err), FAULT_CONFIG);
}

/* Valgrind ends a process whose execve() fails although the file exists. */
static bool is_under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

/* The kernel says only that a file does not exist, although the program does. */
static void a_script_without_an_interpreter_is_explained(void **state)
{
	static const struct {
		const char *text;
		const char *says;
	} scripts[] = {
		{ "#!/does/not/exist\n", "interpreter of its first line (#!)" },
		{ "#!/bin/sh\r\n", "interpreter of its first line (#!)" },
		{ "echo token\n", "needs a first line like #!/bin/sh" },
	};
	struct place place = new_place();
	char *command[] = { place.path, NULL };

	(void)state;
	if (is_under_valgrind()) {
		remove_place(&place);
		skip();
	}
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct program program = { .command = command, .timeout_ms = LONG_MS };
		CLEANUP(buf_fini) struct buf out = BUF_INIT;
		struct err err = ERR_INIT;
		FILE *file = fopen(place.path, "we");

		assert_non_null(file);
		(void)fputs(scripts[i].text, file);
		(void)fclose(file);
		assert_int_equal(program_run(&program, &thread, &out, &err), FAULT_INTERNAL);
		assert_non_null(strstr(err.text, "cannot be started: "));
		assert_non_null(strstr(err.text, scripts[i].says));
	}
	remove_place(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_output_is_kept),
		cmocka_unit_test(a_failure_names_the_last_line_of_stderr_without_secrets),
		cmocka_unit_test(too_much_output_ends_it),
		cmocka_unit_test(its_group_is_killed_at_the_timeout),
		cmocka_unit_test(a_program_that_has_left_its_group_is_killed),
		cmocka_unit_test(what_it_leaves_behind_is_killed),
		cmocka_unit_test(a_stop_ends_it),
		cmocka_unit_test(it_sees_no_secrets_and_no_descriptors_of_ours),
		cmocka_unit_test(it_gets_signals_as_usual),
		cmocka_unit_test(a_program_that_others_may_write_is_refused),
		cmocka_unit_test(a_link_is_followed_before_the_check),
		cmocka_unit_test(a_link_that_others_may_replace_is_refused),
		cmocka_unit_test(a_path_that_is_no_program_is_refused),
		cmocka_unit_test(a_script_without_an_interpreter_is_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
