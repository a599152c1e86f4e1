/* SPDX-License-Identifier: Apache-2.0
 * detok.h: ids to text, one id at a time. Emits whole characters only; what can no longer become valid UTF-8 is emitted as U+FFFD, one for
 * each longest prefix of a character. The law: pushing ids one by one and flushing gives the bytes of decoding all at once.
 * Ids that the tokenizer does not have (holes, or over its end, as a padded head may produce) emit nothing, as in the reference.
 */
#ifndef DETOK_H
#define DETOK_H

#include "base/base_buf.h"
#include "text/tok.h"

typedef struct detok {
	const tokenizer *tok; /* borrow */
	bool skip_special;    /* tokens with special: true emit nothing, and do not end a character that is under way */
	uint8_t pending[4];   /* a proper prefix of a character */
	uint8_t count;
} detok;

void detok_init(detok *d, const tokenizer *tok, bool skip_special);

/* Appends what is certain to out. NH_ERR_ARG on a negative id; NH_ERR_NOMEM or NH_ERR_LIMIT when out failed. */
nh_status detok_push(detok *d, int32_t id, buf *out);

/* Ends the text: an unfinished character becomes one U+FFFD. The detok can be used again. */
nh_status detok_flush(detok *d, buf *out);

#endif
