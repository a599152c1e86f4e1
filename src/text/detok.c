/* SPDX-License-Identifier: Apache-2.0
 * detok.c: the streaming decoder of detok.h. At most three bytes wait, all of them a proper prefix of one character.
 */
#include "text/detok.h"

#include <string.h>

#include "text/tok_impl.h"

void detok_init(detok *d, const tokenizer *tok, bool skip_special) { *d = (detok){.tok = tok, .skip_special = skip_special}; }

/* Could the bytes still become one character? True for a proper prefix only. */
static bool unfinished(const uint8_t *p, size_t len)
{
	size_t used;
	if (len == 0 || len > 3 || p[0] < 0xC2 || p[0] > 0xF4) return false;
	size_t want = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
	return len < want && uni_decode((const char *)p, len, &used) == UNI_INVALID && used == len;
}

static void emit_pending(detok *d, buf *out)
{
	if (d->count > 0) buf_utf8(out, 0xFFFD);
	d->count = 0;
}

static void push_byte(detok *d, uint8_t byte, buf *out)
{
	size_t used;
	d->pending[d->count++] = byte;
	if (unfinished(d->pending, d->count)) return;
	if (uni_decode((const char *)d->pending, d->count, &used) != UNI_INVALID) {
		buf_append(out, d->pending, d->count);
		d->count = 0;
		return;
	}
	/* the byte does not continue what waited: that is lost, and the byte starts anew */
	bool alone = d->count == 1;
	d->count--;
	emit_pending(d, out);
	if (alone) buf_utf8(out, 0xFFFD);
	else push_byte(d, byte, out);
}

static nh_status result(const buf *out) { return !out->failed ? NH_OK : out->limit > 0 ? NH_ERR_LIMIT : NH_ERR_NOMEM; }

nh_status detok_push(detok *d, int32_t id, buf *out)
{
	size_t len;
	if (id < 0) return NH_ERR_ARG;
	const char *bytes = tok_decoded(d->tok, id, &len);
	if (!bytes || (d->skip_special && tok_is_special(d->tok, id))) return NH_OK;
	for (size_t i = 0; i < len;) {
		size_t good = d->count == 0 ? uni_valid_prefix(bytes + i, len - i) : 0;
		if (good > 0) buf_append(out, bytes + i, good);
		i += good;
		if (i < len) push_byte(d, (uint8_t)bytes[i++], out);
	}
	return result(out);
}

nh_status detok_flush(detok *d, buf *out)
{
	emit_pending(d, out);
	return result(out);
}
