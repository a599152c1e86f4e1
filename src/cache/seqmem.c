/* SPDX-License-Identifier: Apache-2.0
 * seqmem.c: a sequence takes and gives back a slot and pages. Knows no tokens, only how many there are.
 */
#include "cache/seqmem.h"

#include <string.h>

#include "base/base_mem.h"

nh_status seqmem_init(seqmem *m, states *s, pages *p, int64_t max_tokens, nh_error *e)
{
	memset(m, 0, sizeof *m);
	m->states = s;
	m->pages = p;
	m->slot = -1;
	m->page_limit = pages_needed(max_tokens);
	m->page = mem_array((size_t)m->page_limit, sizeof *m->page);
	return m->page ? NH_OK : ERR_NOMEM(e);
}

void seqmem_deinit(seqmem *m)
{
	if (m->page) seqmem_release(m);
	mem_free(m->page);
	memset(m, 0, sizeof *m);
}

nh_status seqmem_begin(seqmem *m, nh_error *e)
{
	seqmem_release(m);
	m->slot = pool_take(&m->states->pool);
	if (m->slot < 0) return ERR(e, NH_ERR_LIMIT, "state slots: all %d are in use", m->states->pool.count);
	return NH_OK;
}

nh_status seqmem_reserve(seqmem *m, int64_t tokens, nh_error *e)
{
	int64_t need = pages_needed(tokens);
	if (need > m->page_limit)
		return ERR(e, NH_ERR_LIMIT, "context: %lld tokens, at most %lld", (long long)tokens, (long long)m->page_limit * PAGES_TOKENS);
	if (need - m->page_count > m->pages->pool.free_count)
		return ERR(e, NH_ERR_LIMIT, "KV pages: %lld more are needed, %d of %d are free", (long long)(need - m->page_count),
		    m->pages->pool.free_count, m->pages->pool.count);
	while (m->page_count < need) m->page[m->page_count++] = pool_take(&m->pages->pool);
	return NH_OK;
}

void seqmem_release(seqmem *m)
{
	while (m->page_count > 0) pool_drop(&m->pages->pool, m->page[--m->page_count]);
	if (m->slot >= 0) pool_drop(&m->states->pool, m->slot);
	m->slot = -1;
	m->length = 0;
}
