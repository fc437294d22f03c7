/* Standard base64 (RFC 4648 section 4), strict: padded, no line breaks. Pure. */
#ifndef CLIENT_BASE64_H
#define CLIENT_BASE64_H

#include "client/buffer.h"

/* Appends the decoded bytes. False: this is not base64, nothing was appended. */
bool ih_base64_decode(struct ih_buffer *out, const char *text, size_t length);

#endif
