/* SPDX-License-Identifier: Apache-2.0
 * ref_work.c: working memory of the reference arm. Knows no op. The invariant that breaks first: a block is freed only in ref_begin,
 * when nobody holds a pointer into it.
 */
#include "backend/ref/ref.h"
#include "base/base_mem.h"

#define ALIGN ((size_t)64)

struct ref_block {
	ref_block *next;
	size_t cap, used; /* bytes behind the header */
};

static ref_block *block_create(size_t cap, ref_block *next)
{
	size_t whole;
	if (!mem_add(cap, ALIGN, &whole)) return NULL;
	ref_block *b = mem_aligned(ALIGN, whole);
	if (b) *b = (ref_block){.next = next, .cap = cap};
	return b;
}

size_t ref_work_bytes(const ref_self *s)
{
	size_t sum = 0;
	for (const ref_block *b = s->work; b; b = b->next) sum += b->cap;
	return sum;
}

void ref_work_free(ref_self *s)
{
	while (s->work) {
		ref_block *b = s->work;
		s->work = b->next;
		mem_free(b);
	}
}

void ref_begin(exec *x)
{
	ref_self *s = x->self;
	if (s->work && s->work->next) { /* the last op outgrew its block: join them, so that its like finds one that is large enough */
		size_t sum = ref_work_bytes(s);
		ref_work_free(s);
		s->work = block_create(sum, NULL);
	}
	if (s->work) s->work->used = 0;
}

void *ref_take(exec *x, op_id op, int64_t count, size_t size)
{
	ref_self *s = x->self;
	size_t bytes;
	bool fits = count >= 0 && mem_mul((size_t)count, size, &bytes) && mem_add(bytes, ALIGN, &bytes);
	if (fits) {
		bytes &= ~(ALIGN - 1);
		if (!s->work || bytes > s->work->cap - s->work->used) {
			ref_block *b = block_create(bytes, s->work);
			fits = b != NULL;
			if (b) s->work = b;
		}
	}
	if (!fits) {
		exec_fail(x, op, NH_ERR_NOMEM, "out of memory: %lld elements of %zu bytes of working memory", (long long)count, size);
		return NULL;
	}
	void *p = (char *)s->work + ALIGN + s->work->used;
	s->work->used += bytes;
	return p;
}

ref_mark ref_work_mark(exec *x)
{
	ref_block *b = ((ref_self *)x->self)->work;
	return (ref_mark){b, b ? b->used : 0};
}

void ref_work_rewind(exec *x, ref_mark mark)
{
	ref_block *b = ((ref_self *)x->self)->work;
	if (b && b == mark.block) b->used = mark.used; /* else it grew meanwhile: the next ref_begin joins the blocks */
}
