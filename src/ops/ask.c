/*
 * The confirmation and the progress line. See op.h.
 */
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ops/op.h"

#define BAR_WIDTH 40

#define BLANKS    " \t\r\n"

static bool is_yes(char *answer)
{
	char *from = answer + strspn(answer, BLANKS);
	size_t length = strlen(from);

	while (length > 0 && strchr(BLANKS, from[length - 1]) != NULL)
		from[--length] = '\0';
	return strcasecmp(from, "y") == 0 || strcasecmp(from, "yes") == 0;
}

int op_confirm(const struct op *op, const char *action, int64_t wanted, const char *question,
	struct err *err)
{
	char answer[64] = "";

	if (op->cli->dry_run) {
		if (!op->cli->json)
			(void)printf("dry run: %s\n", question);
		op_print_change(op, action, wanted);
		return OP_NO;
	}
	if (op->cli->yes)
		return 0;
	if (isatty(STDIN_FILENO) == 0)
		return err_set(err, FAULT_USAGE,
			"%s? stdin is not a terminal: use --yes, or --dry-run to change nothing",
			question);
	(void)fprintf(stderr, "%s? [y/N] ", question);
	if (fgets(answer, sizeof(answer), stdin) != NULL && is_yes(answer))
		return 0;
	(void)fputs("nothing was changed\n", stderr);
	op_print_change(op, action, 0);
	return OP_NO;
}

void op_progress(int64_t done, int64_t total)
{
	int filled;

	if (isatty(STDERR_FILENO) == 0)
		return;
	if (total == 0) {
		(void)fputs("\r\033[K", stderr);
		return;
	}
	filled = done >= total ? BAR_WIDTH : (int)(done * BAR_WIDTH / total);
	(void)fprintf(stderr, "\r[%.*s%*s] %lld of %lld", filled,
		"########################################", BAR_WIDTH - filled, "", (long long)done,
		(long long)total);
}
