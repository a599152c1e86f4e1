/* SPDX-License-Identifier: Apache-2.0
 * swap.c: one block of host memory a copy, filled piece by piece in the order that swap.h names. A page is moved as the rows that hold
 * tokens, so what lies behind the last token of the last page is never read or written.
 * The invariant that breaks first: the walk over the pieces is the same for bytes, copies out and copies in, because it is one function.
 */
#include "cache/swap.h"

#include <assert.h>
#include <string.h>

#include "base/base_mem.h"

struct swapped {
	int64_t length;
	size_t bytes;
	_Alignas(16) unsigned char content[];
};

typedef enum swap_way { SWAP_OUT, SWAP_IN } swap_way;

/* What is moved: the pools, and where the sequence lies in them. */
typedef struct swap_walk {
	const states *s;
	const pages *p;
	int32_t slot;
	const int32_t *page;
	int64_t length;
	unsigned char *at; /* the next byte of the content */
} swap_walk;

static size_t swap_line(const tensor *t) { return t->shape[0] ? tensor_bytes(t) / (size_t)t->shape[0] : 0; }

static nh_status swap_piece(swap_walk *w, swap_way way, const backend *arm, exec *x, void *in_arm, size_t bytes, nh_error *e)
{
	nh_status s = NH_OK;
	if (bytes) s = way == SWAP_OUT ? arm->download(x, w->at, in_arm, bytes, e) : arm->upload(x, in_arm, w->at, bytes, e);
	w->at += bytes;
	return s;
}

/* The rows of all positions of one k or v tensor, page after page. */
static nh_status swap_rows(swap_walk *w, swap_way way, const tensor *t, nh_error *e)
{
	const size_t row = swap_line(t) / PAGES_TOKENS;
	for (int64_t pos = 0; pos < w->length; pos += PAGES_TOKENS) {
		int64_t rows = w->length - pos < PAGES_TOKENS ? w->length - pos : PAGES_TOKENS;
		TRY(swap_piece(w, way, w->p->arm, w->p->x, tensor_row(t, w->page[pos / PAGES_TOKENS]), (size_t)rows * row, e));
	}
	return NH_OK;
}

static nh_status swap_move(swap_walk *w, swap_way way, nh_error *e)
{
	if (w->length == 0) return NH_OK;
	for (int i = 0; i < w->s->layers; i++) {
		const mamba_state *l = &w->s->layer[i];
		TRY(swap_piece(w, way, w->s->arm, w->s->x, tensor_row(&l->conv, w->slot), swap_line(&l->conv), e));
		TRY(swap_piece(w, way, w->s->arm, w->s->x, tensor_row(&l->ssm, w->slot), swap_line(&l->ssm), e));
	}
	for (int i = 0; i < w->p->layers; i++) {
		TRY(swap_rows(w, way, &w->p->layer[i].k, e));
		TRY(swap_rows(w, way, &w->p->layer[i].v, e));
	}
	/* Told to the arm itself: a wrapper's counters are overwritten by those of the exec that it wraps. */
	exec *x = w->s->x;
	while (x->inner) x = x->inner;
	if (way == SWAP_OUT) x->counters.gathers++;
	else x->counters.scatters++;
	return NH_OK;
}

size_t swap_content_bytes(const states *s, const pages *p, int64_t length)
{
	size_t sum = 0, row = 0, rows;
	if (length <= 0) return 0;
	for (int i = 0; i < s->layers; i++) sum += swap_line(&s->layer[i].conv) + swap_line(&s->layer[i].ssm);
	for (int i = 0; i < p->layers; i++) row += (swap_line(&p->layer[i].k) + swap_line(&p->layer[i].v)) / PAGES_TOKENS;
	if (!mem_mul(row, (size_t)length, &rows) || !mem_add(sum, rows, &sum)) return SIZE_MAX;
	return sum;
}

nh_status swap_blank(swapped **out, const states *s, const pages *p, int64_t length, nh_error *e)
{
	size_t bytes = swap_content_bytes(s, p, length), whole;
	*out = NULL;
	if (length < 0 || !mem_add(bytes, sizeof(swapped), &whole))
		return ERR(e, NH_ERR_LIMIT, "state of %lld tokens: more bytes than this machine can count", (long long)length);
	swapped *c = mem_alloc(whole);
	if (!c) return ERR(e, NH_ERR_NOMEM, "out of memory: %zu bytes for the state of %lld tokens", whole, (long long)length);
	c->length = length;
	c->bytes = bytes;
	*out = c;
	return NH_OK;
}

nh_status swap_copy(swapped **out, const seqmem *m, nh_error *e)
{
	assert(m->length == 0 || (m->slot >= 0 && m->page_count >= pages_needed(m->length)));
	swapped *c;
	*out = NULL;
	TRY(swap_blank(&c, m->states, m->pages, m->length, e));
	swap_walk w = {m->states, m->pages, m->slot, m->page, m->length, c->content};
	nh_status s = swap_move(&w, SWAP_OUT, e);
	if (s != NH_OK) {
		swap_free(c);
		return s;
	}
	assert(w.at == c->content + c->bytes);
	*out = c;
	return NH_OK;
}

nh_status swap_out(swapped **out, seqmem *m, nh_error *e)
{
	TRY(swap_copy(out, m, e));
	seqmem_release(m);
	return NH_OK;
}

nh_status swap_in(const swapped *c, seqmem *m, nh_error *e)
{
	assert(m->slot < 0 && m->page_count == 0 && m->length == 0);
	assert(c->bytes == swap_content_bytes(m->states, m->pages, c->length));
	TRY(seqmem_begin(m, e));
	nh_status s = seqmem_reserve(m, c->length, e);
	if (s == NH_OK) {
		swap_walk w = {m->states, m->pages, m->slot, m->page, c->length, (unsigned char *)(uintptr_t)c->content};
		s = swap_move(&w, SWAP_IN, e);
	}
	if (s == NH_OK) m->length = c->length;
	else seqmem_release(m);
	return s;
}

nh_status swap_from_content(swapped **out, const states *s, const pages *p, int64_t length, const void *content, size_t bytes, nh_error *e)
{
	*out = NULL;
	if (bytes != swap_content_bytes(s, p, length))
		return ERR(
		    e, NH_ERR_FORMAT, "state of %lld tokens: %zu bytes, expected %zu", (long long)length, bytes, swap_content_bytes(s, p, length));
	TRY(swap_blank(out, s, p, length, e));
	if (bytes) memcpy((*out)->content, content, bytes);
	return NH_OK;
}

void swap_free(swapped *s) { mem_free(s); }
int64_t swap_length(const swapped *s) { return s->length; }
int64_t swap_pages(const swapped *s) { return pages_needed(s->length); }
size_t swap_bytes(const swapped *s) { return s->bytes; }
const void *swap_content(const swapped *s) { return s->content; }
void *swap_fill(swapped *s) { return s->content; }
