/* See socket.h. The order matters: lock, remove the stale socket, bind with a closed mode, then set group and mode. */
#include "dispatch/sessions/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128

static int too_long(const char *path, struct err *err)
{
	(void)err_set(err, FAULT_CONFIG,
		"socket.path is %zu bytes long, a Unix socket path has room for %zu", strlen(path),
		sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return err_advise(err, "choose a shorter one");
}

static bool read_boot_id(char *out, int size)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool found;

	if (file == NULL)
		return false;
	found = fgets(out, size, file) != NULL;
	(void)fclose(file);
	if (found)
		out[strcspn(out, "\n")] = '\0';
	return found && out[0] != '\0';
}

/* Device and inode distinguish this lock file from those of other containers on the same host. They can be equal on two
 * hosts, so the boot id is part of the name. Without a boot id there is no name. */
static int set_host_id(struct socket_lock *lock, struct err *err)
{
	struct stat file;
	char boot[64];

	if (fstat(lock->fd, &file) != 0)
		return err_set(
			err, FAULT_SOCKET, "cannot look at the lock file: %s", strerror(errno));
	lock->host_id[0] = '\0';
	if (!read_boot_id(boot, sizeof(boot)))
		return 0;
	(void)snprintf(lock->host_id, sizeof(lock->host_id), "%s/%llu/%llu", boot,
		(unsigned long long)file.st_dev, (unsigned long long)file.st_ino);
	return 0;
}

/* Checks for a start and for `inboxd check` that the directory exists and is writable. */
static int check_directory(const char *path, struct err *err)
{
	char copy[PATH_MAX];
	const char *directory;

	(void)snprintf(copy, sizeof(copy), "%s", path);
	directory = dirname(copy);
	if (access(directory, W_OK | X_OK) == 0)
		return 0;
	if (errno == ENOENT) {
		(void)err_set(
			err, FAULT_SOCKET, "socket.path: there is no directory %s", directory);
		return err_advise(err,
			"create it for this user, as with `install -d -o USER %s`, or name another",
			directory);
	}
	(void)err_set(
		err, FAULT_SOCKET, "socket.path: the directory %s: %s", directory, strerror(errno));
	return err_advise(err, "let this user write there, or name another");
}

static int cannot_lock(const char *path, const char *file, struct err *err)
{
	int error = errno;
	int r = check_directory(path, err);

	return r != 0 ? r
		      : err_set(err, FAULT_SOCKET,
				"cannot open %s: %s; if no inboxd of another user serves "
				"this path, remove it",
				file, strerror(error));
}

int socket_lock(struct socket_lock *out, const char *path, struct err *err)
{
	char file[PATH_MAX];
	int r;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return too_long(path, err);
	(void)snprintf(file, sizeof(file), "%s.lock", path);
	out->fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out->fd < 0)
		return cannot_lock(path, file, err);
	if (flock(out->fd, LOCK_EX | LOCK_NB) != 0) {
		socket_unlock(out);
		return err_set(err, FAULT_SOCKET,
			"another inboxd serves %s (it holds %s): stop it, or give this one its own "
			"socket.path",
			path, file);
	}
	r = set_host_id(out, err);
	if (r != 0)
		socket_unlock(out);
	return r;
}

void socket_unlock(struct socket_lock *lock)
{
	if (lock->fd >= 0)
		(void)close(lock->fd);
	lock->fd = -1;
}

static int remove_stale(const char *path, struct err *err)
{
	struct stat file;

	if (lstat(path, &file) != 0)
		return 0;
	if (!S_ISSOCK(file.st_mode))
		return err_set(err, FAULT_SOCKET,
			"%s is there and is not a socket: move it away or choose another "
			"socket.path",
			path);
	if (unlink(path) != 0)
		return err_set(err, FAULT_SOCKET, "cannot remove the old socket %s: %s", path,
			strerror(errno));
	return 0;
}

static int set_group(const char *path, const char *name, struct err *err)
{
	const struct group *group;

	if (name[0] == '\0')
		return 0;
	errno = 0;
	group = getgrnam(name); /* at start, before any thread */
	if (group == NULL)
		return err_set(err, FAULT_CONFIG,
			"socket.group: there is no group '%s' on this host", name);
	if (chown(path, (uid_t)-1, group->gr_gid) != 0)
		return err_set(err, FAULT_SOCKET,
			"cannot give %s to group %s: %s; run as root or as a member of the group",
			path, name, strerror(errno));
	return 0;
}

static int set_rights(const struct config *config, struct err *err)
{
	int r = set_group(config->socket.path, config->socket.group, err);

	if (r != 0)
		return r;
	if (chmod(config->socket.path, config->socket.mode) != 0)
		return err_set(err, FAULT_SOCKET, "cannot set the mode of %s: %s",
			config->socket.path, strerror(errno));
	return 0;
}

static int bind_and_listen(int fd, const struct config *config, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = config->socket.path;
	mode_t mask;
	int bound;

	if (strlen(path) >= sizeof(address.sun_path))
		return too_long(path, err);
	memcpy(address.sun_path, path, strlen(path) + 1);
	mask = umask(0177); /* no other user can connect before the mode is set */
	bound = bind(fd, (const struct sockaddr *)&address, sizeof(address));
	(void)umask(mask);
	if (bound != 0)
		return err_set(err, FAULT_SOCKET, "cannot bind %s: %s", path, strerror(errno));
	if (listen(fd, BACKLOG) != 0)
		return err_set(err, FAULT_SOCKET, "cannot listen on %s: %s", path, strerror(errno));
	return set_rights(config, err);
}

int socket_listen(int *fd, const struct config *config, struct err *err)
{
	int r = remove_stale(config->socket.path, err);

	if (r != 0)
		return r;
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return err_set(err, FAULT_SOCKET, "cannot make a socket: %s", strerror(errno));
	r = bind_and_listen(*fd, config, err);
	if (r != 0) {
		(void)close(*fd);
		*fd = -1;
	}
	return r;
}

/* As socket_lock(), but without making the file. */
static int check_lock(const char *path, struct err *err)
{
	char file[PATH_MAX];
	bool served;
	int fd;

	(void)snprintf(file, sizeof(file), "%s.lock", path);
	fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : cannot_lock(path, file, err);
	served = flock(fd, LOCK_SH | LOCK_NB) != 0;
	(void)close(fd);
	return served ? SOCKET_SERVED : 0;
}

int socket_check(const struct config *config, struct err *err)
{
	int r;

	if (strlen(config->socket.path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return too_long(config->socket.path, err);
	r = check_directory(config->socket.path, err);
	if (r != 0)
		return r;
	if (config->socket.group[0] == '\0' || getgrnam(config->socket.group) != NULL)
		return check_lock(config->socket.path, err);
	(void)err_set(err, FAULT_CONFIG, "socket.group: there is no group '%s' on this host",
		config->socket.group);
	return err_advise(err, "create it, or name another");
}
