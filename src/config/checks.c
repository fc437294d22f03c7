/* The shapes of texts. No I/O: whether a topic or a directory exists is for `inboxd check`. */
#include "config/checks.h"

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

static const char lower[] = "abcdefghijklmnopqrstuvwxyz_";
static const char lower_digits[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
static const char topic_letters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

enum { SCHEMA_MAX = 63, TOPIC_MAX = 249, PORT_MAX = 65535 };

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

const char *check_schema(const char *text)
{
	size_t length = strlen(text);

	if (length == 0 || length > SCHEMA_MAX || strchr(lower, text[0]) == NULL ||
		strspn(text, lower_digits) != length)
		return "is not a schema name; write 1 to 63 lower-case letters, digits and "
		       "underscores, no digit first";
	if (starts_with(text, "pg_") || strcmp(text, "information_schema") == 0)
		return "is a schema PostgreSQL keeps for itself; choose another name";
	return NULL;
}

const char *check_instance(const char *text)
{
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "holds a control character; write a plain name, such as the pod's";
	}
	return NULL;
}

static bool is_topic(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= TOPIC_MAX && strspn(text, topic_letters) == length &&
	       strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

static const char not_a_topic[] =
	"is not a topic name; Kafka allows 1 to 249 letters, digits, dots, underscores and hyphens";

const char *check_topic_pattern(const char *text)
{
	regex_t regex;

	if (text[0] != '^')
		return is_topic(text) ? NULL : not_a_topic;
	if (regcomp(&regex, text, REG_EXTENDED | REG_NOSUB) != 0)
		return "is not a regular expression (POSIX extended); correct it, or drop the ^ to "
		       "name one topic";
	regfree(&regex);
	return NULL;
}

const char *check_topic_or_none(const char *text)
{
	return text[0] == '\0' || is_topic(text) ? NULL : not_a_topic;
}

const char *check_topic_rules(const char *text)
{
	if (text[0] == '^')
		return "is a regular expression; rules are written for a topic by its name, or for "
		       "all others under \"*\"";
	return strcmp(text, "*") == 0 || is_topic(text) ? NULL : not_a_topic;
}

const char *check_type_pattern(const char *text)
{
	const char *star = strchr(text, '*');

	if (text[0] == '\0')
		return "is no event type; write one, or \"*\" for all";
	if (star != NULL && star[1] != '\0')
		return "has a * before its end; only a * at the end stands for the rest";
	return NULL;
}

/* A form that ends in ':' or '/' wants more behind it, but for "json:/", the member named "". */
static bool has_form(const char *text, const char *form)
{
	size_t length = strlen(form);

	if (!starts_with(text, form))
		return false;
	if (form[length - 1] == '/')
		return true;
	return form[length - 1] == ':' ? text[length] != '\0' : text[length] == '\0';
}

static bool has_any_form(const char *text, const char *const *forms)
{
	for (; *forms != NULL; forms++) {
		if (has_form(text, *forms))
			return true;
	}
	return false;
}

const char *check_id_locator(const char *text)
{
	static const char *const forms[] = { "header:", "json:/", "key", NULL };

	return has_any_form(text, forms)
		       ? NULL
		       : "is no place for an id; write header:NAME, key or json:/POINTER";
}

static const char *check_name_locator(const char *text)
{
	static const char *const forms[] = { "header:", "json:/", "literal:", "topic", NULL };

	return has_any_form(text, forms)
		       ? NULL
		       : "is not known; write header:NAME, json:/POINTER, topic or "
			 "literal:TEXT";
}

const char *check_type_locator(const char *text)
{
	return check_name_locator(text);
}

const char *check_source_locator(const char *text)
{
	return check_name_locator(text);
}

const char *check_socket_path(const char *text)
{
	if (strlen(text) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return "is too long for a Unix socket; write a path of at most 107 bytes";
	return NULL;
}

static bool is_port(const char *text)
{
	int port = 0;
	size_t length = strlen(text);

	if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
		return false;
	for (; *text != '\0'; text++)
		port = port * 10 + (*text - '0');
	return port <= PORT_MAX;
}

const char *check_listen(const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *bracket = strchr(text, ']');

	if (text[0] == '\0')
		return NULL;
	if (colon == NULL || !is_port(colon + 1) || (text[0] == '[') != (bracket != NULL) ||
		(bracket != NULL && bracket + 1 != colon) ||
		(bracket == NULL && strchr(text, ':') != colon))
		return "is not an address to listen on; write host:port, [ipv6]:port, or \"\" for "
		       "none";
	return NULL;
}

static bool is_host(const char *text, size_t length)
{
	static const char *const letters =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	if (length > 2 && text[0] == '[' && text[length - 1] == ']')
		return strspn(text + 1, "0123456789abcdefABCDEF:.") == length - 2;
	return length > 0 && length < 256 && strspn(text, letters) >= length;
}

static bool is_path(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text <= ' ' || *text > '~' || strchr("?#\"\\<>", *text) != NULL)
			return false;
	}
	return true;
}

/* host, host:port, [ipv6]:port. */
static bool is_authority(const char *text, size_t length)
{
	const char *bracket = memchr(text, ']', length);
	const char *from = bracket == NULL ? text : bracket;
	const char *colon = memchr(from, ':', length - (size_t)(from - text));
	char port[8] = "";

	if (colon == NULL)
		return is_host(text, length);
	if (length - (size_t)(colon + 1 - text) >= sizeof(port))
		return false;
	memcpy(port, colon + 1, length - (size_t)(colon + 1 - text));
	return is_host(text, (size_t)(colon - text)) && is_port(port) &&
	       strspn(port, "0") != strlen(port);
}

const char *check_otlp_endpoint(const char *text)
{
	size_t length;

	if (text[0] == '\0')
		return NULL;
	if (starts_with(text, "https://"))
		return "asks for TLS, which is not spoken here; write http:// and the address of a "
		       "collector on this host or in this network, which may go on with TLS";
	if (!starts_with(text, "http://"))
		return "is no address of a collector; write http://host:4318, or \"\" for none";
	text += strlen("http://");
	length = strcspn(text, "/");
	if (!is_authority(text, length) || !is_path(text + length))
		return "is no address of a collector; write http://host:port or "
		       "http://host:port/path, or \"\" for none";
	return NULL;
}
