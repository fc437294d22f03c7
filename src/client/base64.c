/* See base64.h. */
#include "client/base64.h"

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* Decodes four characters, of which the last `padding` are '=', into up to three bytes. */
static bool decode_group(const char *text, size_t padding, unsigned char out[3])
{
	unsigned bits = 0;

	for (size_t i = 0; i < 4; i++) {
		const int value = i < 4 - padding ? value_of(text[i]) : 0;

		if (value < 0)
			return false;
		bits = bits << 6 | (unsigned)value;
	}
	out[0] = (unsigned char)(bits >> 16);
	out[1] = (unsigned char)(bits >> 8);
	out[2] = (unsigned char)bits;
	return true;
}

bool ih_base64_decode(struct ih_buffer *out, const char *text, size_t length)
{
	const size_t start = out->length;
	unsigned char bytes[3];
	size_t padding = 0;

	if (length % 4 != 0)
		return false;
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < length; i += 4) {
		const size_t missing = i + 4 == length ? padding : 0;

		if (!decode_group(text + i, missing, bytes)) {
			out->length = start;
			return false;
		}
		ih_buffer_add(out, bytes, 3 - missing);
	}
	return true;
}
