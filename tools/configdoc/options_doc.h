/*
 * docs/configuration.md, written from the option table (config/options/options.h). Any thread.
 */
#ifndef CONFIGDOC_OPTIONS_DOC_H
#define CONFIGDOC_OPTIONS_DOC_H

#include "base/buf.h"

/* Appends the page. */
void options_markdown(struct buf *out);

#endif
