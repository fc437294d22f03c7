/* See faultpoint.h. Every hit checks the file, which is slow, so that a test can change it while the program runs. */
#include "base/faultpoint.h"

#ifdef INBOXD_FAULTPOINTS

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_output.h"
#include "base/threads/progress.h"

#define RULES_MOST 64
#define NAME_BYTES 64
#define HOLD_TURNS 6000
#define HOLD_US    10000

struct rule {
	char name[NAME_BYTES]; /* as in the file, with the thread */
	char action[NAME_BYTES];
	int nth; /* 0 = every hit */
	int hits;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MOST];
static size_t rule_count;
static struct timespec read_at;

static void read_rules(const char *path)
{
	FILE *file = fopen(path, "re");
	char nth[16];
	char line[256];

	rule_count = 0;
	while (file != NULL && rule_count < RULES_MOST && fgets(line, sizeof(line), file) != NULL) {
		struct rule *rule = &rules[rule_count];
		int words = sscanf(line, "%63s %63s %15s", rule->name, rule->action, nth);

		if (words < 2)
			continue;
		rule->nth = words < 3 ? 1 : nth[0] == '*' ? 0 : (int)strtol(nth, NULL, 10);
		rule->hits = 0;
		rule_count++;
	}
	if (file != NULL)
		(void)fclose(file);
}

static void refresh(const char *path)
{
	struct stat now;

	if (stat(path, &now) != 0) {
		rule_count = 0;
		return;
	}
	if (now.st_mtim.tv_sec == read_at.tv_sec && now.st_mtim.tv_nsec == read_at.tv_nsec)
		return;
	read_at = now.st_mtim;
	read_rules(path);
}

/* The words of a rule have no spaces. */
static void name_thread(char out[NAME_BYTES])
{
	if (pthread_getname_np(pthread_self(), out, NAME_BYTES) != 0)
		out[0] = '\0';
	for (char *c = out; *c != '\0'; c++)
		if (*c == ' ')
			*c = '_';
}

static bool is_for(const struct rule *rule, const char *thread, const char *point)
{
	const char *colon = strchr(rule->name, ':');
	size_t length = colon == NULL ? 0 : (size_t)(colon - rule->name);

	if (colon == NULL)
		return strcmp(rule->name, point) == 0;
	return strcmp(colon + 1, point) == 0 && strlen(thread) == length &&
	       memcmp(rule->name, thread, length) == 0;
}

bool faultpoint_is_set(const char *name)
{
	const char *path = getenv("INBOXD_FAULTPOINTS");
	char thread[NAME_BYTES];
	bool found = false;

	name_thread(thread);
	(void)pthread_mutex_lock(&lock);
	if (path != NULL)
		refresh(path);
	for (size_t i = 0; i < rule_count && !found; i++)
		found = is_for(&rules[i], thread, name);
	(void)pthread_mutex_unlock(&lock);
	return found;
}

/* Copies the rule of this hit. */
static bool find_rule(const char *path, const char *point, struct rule *out)
{
	char thread[NAME_BYTES];
	bool found = false;

	name_thread(thread);
	(void)pthread_mutex_lock(&lock);
	refresh(path);
	for (size_t i = 0; i < rule_count && !found; i++) {
		struct rule *rule = &rules[i];

		if (!is_for(rule, thread, point))
			continue;
		rule->hits++;
		found = rule->nth == 0 || rule->hits == rule->nth;
		if (found)
			*out = *rule;
	}
	(void)pthread_mutex_unlock(&lock);
	return found;
}

static bool is_armed(const char *path, const struct rule *rule)
{
	bool found = false;

	(void)pthread_mutex_lock(&lock);
	refresh(path);
	for (size_t i = 0; i < rule_count && !found; i++)
		found = strcmp(rules[i].name, rule->name) == 0 &&
			strcmp(rules[i].action, rule->action) == 0;
	(void)pthread_mutex_unlock(&lock);
	return found;
}

/* A call that takes long, but not for ever. */
static void delay(int64_t ms)
{
	progress_note(ms);
	(void)usleep((useconds_t)ms * 1000);
}

/* A call that hangs. A test changes the file when what it waits for has happened. */
static void hold(const char *path, const struct rule *rule)
{
	for (int i = 0; i < HOLD_TURNS && is_armed(path, rule); i++)
		(void)usleep(HOLD_US);
}

static void note(const char *path, const struct rule *rule)
{
	char text[512];
	int fd;
	int length;

	(void)snprintf(text, sizeof(text), "%s.hits", path);
	fd = open(text, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	length = snprintf(text, sizeof(text), "%s %s\n", rule->name, rule->action);
	if (fd >= 0 && write(fd, text, (size_t)length) != length)
		(void)fprintf(stderr, "faultpoint %s: cannot note it\n", rule->name);
	if (fd >= 0)
		(void)close(fd);
}

/* A signal for the process stops this thread only when another thread has taken it. On a busy host that takes milliseconds.
 * In them this thread would do what is behind the point. */
static void stop(void)
{
	(void)pthread_kill(pthread_self(), SIGSTOP);
}

bool faultpoint_hit(const char *name)
{
	const char *path = getenv("INBOXD_FAULTPOINTS");
	struct rule rule;

	if (path == NULL || !find_rule(path, name, &rule))
		return false;
	note(path, &rule);
	log_output_flush(1000); /* tests read what was logged before */
	if (strcmp(rule.action, "kill") == 0)
		(void)kill(getpid(), SIGKILL);
	else if (strcmp(rule.action, "stop") == 0)
		stop();
	else if (strncmp(rule.action, "delay:", 6) == 0)
		delay((int64_t)strtoll(rule.action + 6, NULL, 10));
	else if (strcmp(rule.action, "hold") == 0)
		hold(path, &rule);
	return strcmp(rule.action, "error") == 0;
}

#else

/* ISO C requires a declaration in every file. */
typedef int faultpoints_are_off;

#endif
