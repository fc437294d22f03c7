#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Opens closed standard streams in the wrong direction: their use fails, as if they were still closed. */
void output_begin(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
	(void)signal(SIGPIPE, SIG_IGN);
}

/* An earlier write failed, and its errno is lost. The output is broken anyway, so one more write shows the errno
 * again. */
static int ask_reason(void)
{
	return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : 0;
}

int output_end(struct err *err)
{
	int error = fflush(stdout) == 0 ? 0 : errno;

	if (error == 0 && ferror(stdout) == 0)
		return 0;
	if (error == 0)
		error = ask_reason();
	if (error == EPIPE)
		return 0;
	(void)err_set(err, FAULT_OUTPUT,
		"cannot write to stdout: %s; what was to be done is done, but not all of the "
		"output is there",
		error == 0 ? "a write failed" : strerror(error));
	return err_advise(err, "make room or correct where it goes, then look again");
}
