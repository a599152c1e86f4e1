/* SPDX-License-Identifier: Apache-2.0
 * stop.h: ends a text at the first stop string, while it streams. A push filter: the outcome depends only on the whole text. The stop that is
 * complete first counts; of several that end at the same byte, the longest. Text is held back only while it may
 * be the beginning of a stop string. Whole characters in, whole characters out. Knows nothing of thoughts: a caller that does not want stops
 * to apply inside one pushes only the answer through here.
 */
#ifndef CHAT_STOP_H
#define CHAT_STOP_H

#include <stdint.h>

#include "base/base_buf.h"

#define STOP_MAX_COUNT 256
#define STOP_MAX_BYTES 4096 /* of one stop string */

typedef struct stop_filter {
	struct stop_one *stops; /* own */
	size_t count;
	bool include; /* whether the stop string itself is given out */
	buf held;     /* own; the longest end of the text that a stop string begins with */
	int found;    /* index of the stop that ended the text, -1 while none has */
} stop_filter;

/* Copies the strings. NH_ERR_ARG: an empty string, more than STOP_MAX_COUNT or STOP_MAX_BYTES; NH_ERR_NOMEM. */
nh_status stop_init(stop_filter *f, const char *const *stops, size_t count, bool include, nh_error *e);
void stop_deinit(stop_filter *f); /* safe on a zeroed one */

/* Appends to *out what is certain of the text so far. Once f->found >= 0 the text is over and further text is dropped. NH_ERR_NOMEM. */
nh_status stop_push(stop_filter *f, const char *text, size_t len, buf *out, nh_error *e);
nh_status stop_finish(stop_filter *f, buf *out, nh_error *e); /* the text ended by itself: gives out what was held */

#endif
