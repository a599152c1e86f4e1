/* SPDX-License-Identifier: Apache-2.0
 * tok_norm.c: NFC, NFD, NFKC and NFKD. Decomposition and composition of a character are utf8proc's; the order of marks is ours, because
 * utf8proc's sort is quadratic in a run of them. Code points that the reference's older data leave alone (UNI_INERT) stand between stretches
 * that are normalised by themselves.
 */
#include <string.h>
#include <utf8proc.h>

#include "base/base_mem.h"
#include "text/tok_impl.h"

/* Code points under way. */
typedef struct points {
	utf8proc_int32_t *at, *sorted; /* own */
	size_t count, cap, sorted_cap;
} points;

static bool points_reserve(points *p, size_t more)
{
	if (p->count + more <= p->cap) return true;
	size_t cap = (p->cap + more) * 2;
	void *grown = mem_resize(p->at, cap, sizeof *p->at);
	if (!grown) return false;
	p->at = grown;
	p->cap = cap;
	return true;
}

static unsigned class_of(utf8proc_int32_t cp) { return (unsigned)utf8proc_get_property(cp)->combining_class; }

/* Stable counting sort of a run of marks by combining class. */
static bool sort_marks(points *p, size_t from, size_t to)
{
	size_t starts[257] = {0}, n = to - from;
	if (n < 2) return true;
	if (n > p->sorted_cap) {
		void *grown = mem_resize(p->sorted, n * 2, sizeof *p->sorted);
		if (!grown) return false;
		p->sorted = grown;
		p->sorted_cap = n * 2;
	}
	for (size_t i = from; i < to; i++) starts[(class_of(p->at[i]) & 0xFF) + 1]++;
	for (int i = 1; i < 257; i++) starts[i] += starts[i - 1];
	for (size_t i = from; i < to; i++) p->sorted[starts[class_of(p->at[i]) & 0xFF]++] = p->at[i];
	memcpy(p->at + from, p->sorted, n * sizeof *p->at);
	return true;
}

static bool order_marks(points *p)
{
	for (size_t i = 0; i < p->count; i++) {
		size_t from = i;
		while (i < p->count && class_of(p->at[i]) != 0) i++;
		if (!sort_marks(p, from, i)) return false;
	}
	return true;
}

/* Orders, composes and appends what is under way, and empties it. */
static bool finish(points *p, buf *out, bool compose)
{
	if (p->count == 0) return true;
	if (!order_marks(p)) return false;
	utf8proc_ssize_t n = (utf8proc_ssize_t)p->count;
	if (compose) n = utf8proc_normalize_utf32(p->at, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	for (utf8proc_ssize_t i = 0; i < n; i++) buf_utf8(out, (unsigned)p->at[i]);
	p->count = 0;
	return n >= 0;
}

static bool normalize_one(tok_form form, points *p, buf *out, const char *text, size_t len)
{
	bool compose = form == TOK_NFC || form == TOK_NFKC, compat = form == TOK_NFKC || form == TOK_NFKD;
	utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
	size_t used;
	for (size_t i = 0; i < len; i += used) {
		uint32_t cp = uni_decode(text + i, len - i, &used);
		if (cp >= 0x300 && uni_find(UNI_INERT, UNI_INERT_COUNT, cp)) {
			if (!finish(p, out, compose)) return false;
			buf_append(out, text + i, used);
			continue;
		}
		int boundary = 0;
		if (!points_reserve(p, 32)) return false; /* the longest decomposition has 18 */
		utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, p->at + p->count, 32, options, &boundary);
		if (n < 0 || n > 32) return false;
		p->count += (size_t)n;
	}
	return finish(p, out, compose) && !out->failed;
}

static bool is_ascii(const char *text, size_t len)
{
	uint8_t any = 0;
	for (size_t i = 0; i < len; i++) any |= (uint8_t)text[i];
	return any < 0x80;
}

nh_status tok_normalize(const tokenizer *t, buf *out, const char *text, size_t len, const char **normal, size_t *normal_len, nh_error *e)
{
	points p = {0};
	buf other = {0};
	bool ok = true;
	*normal = text;
	*normal_len = len;
	if (t->form_count == 0 || is_ascii(text, len)) return NH_OK;
	out->len = 0;
	for (size_t i = 0; i < t->form_count && ok; i++) {
		buf *to = i % 2 == 0 ? out : &other;
		to->len = 0;
		ok = normalize_one(t->forms[i], &p, to, *normal, *normal_len);
		*normal = to->data ? to->data : "";
		*normal_len = to->len;
	}
	if (t->form_count % 2 == 0) { /* the last form is in `other` */
		buf swap = *out;
		*out = other;
		other = swap;
	}
	buf_deinit(&other);
	mem_free(p.at);
	mem_free(p.sorted);
	return ok ? NH_OK : ERR_NOMEM(e);
}
