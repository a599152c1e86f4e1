/* SPDX-License-Identifier: Apache-2.0
 * cpu_pack.c: imports weights: the refusals are ref's, the bytes are repacked by the pool in the ranges of tiles in which its threads read
 * them later, so that each touches its own first. Knows no multiplication. The invariant that breaks first: every row of every tile is
 * written, those behind the last with zeros.
 */
#include "backend/cpu/cpu_pack.h"

#include "base/base_mem.h"

/* An expert is a huge page and a half: alone it would leave hundreds of small pages to be mapped one by one. So matrices share blocks of huge
 * pages; the last one to go takes its block along. Touched memory is what they hold: the rest of a block costs addresses only. */
#define SLAB_BYTES ((size_t)64 << 20)
#define SLAB_MATRIX (SLAB_BYTES / 4) /* a larger one has pages of its own */

typedef struct cpu_slab {
	uint8_t *bytes; /* own, pages */
	size_t used;
	size_t matrices;
} cpu_slab;

typedef struct packing {
	cpu_mat *m;
	const weight *w;
	uint8_t *nan;
} packing;

/* fp8 codes and fp4 scales are e4m3; the layouts hold no NaN of theirs. */
static bool holds_nan(const uint8_t *codes, int64_t n)
{
	int found = 0;
	for (int64_t i = 0; i < n; i++) found |= (codes[i] & 0x7f) == 0x7f;
	return found != 0;
}

static void pack_range(void *user, int thread, int threads)
{
	const packing *p = user;
	const cpu_mat *m = p->m;
	const weight *w = p->w;
	const int64_t row_bytes = m->format == MAT_FP4 ? w->k / 2 : w->k * (int64_t)num_bytes(w->dtype), blocks = w->k / 16;
	int64_t from, to;
	cpu_range(m->tiles, 1, thread, threads, &from, &to);
	for (int64_t t = from; t < to; t++) {
		const uint8_t *rows[MAT_TILE] = {NULL}, *scales[MAT_TILE] = {NULL};
		for (int r = 0; r < MAT_TILE && t * MAT_TILE + r < w->n; r++) {
			const int64_t row = t * MAT_TILE + r;
			rows[r] = (const uint8_t *)w->data + row * row_bytes;
			if (m->format == MAT_FP4) scales[r] = (const uint8_t *)w->block_scale + row * blocks;
			if (m->format == MAT_FP4) p->nan[row] = holds_nan(scales[r], blocks);
			else if (m->format == MAT_FP8) p->nan[row] = holds_nan(rows[r], row_bytes);
		}
		m->vec->pack(m->format, m->data + (size_t)t * m->tile_bytes, rows, scales, w->k);
	}
}

static mat_format format_of(const weight *w)
{
	if (w->dtype == NUM_BF16) return MAT_BF16;
	if (w->dtype == NUM_F32) return MAT_F32;
	return w->dtype == NUM_E4M3 ? MAT_FP8 : MAT_FP4;
}

static void slab_leave(cpu_self *self, cpu_slab *s)
{
	if (--s->matrices > 0) return;
	if (self->slab == s) self->slab = NULL;
	mem_pages_free(s->bytes);
	mem_free(s);
}

/* Memory for the tiles, zero; m->data is NULL where there is none. */
static void take_data(cpu_self *self, cpu_mat *m, size_t bytes)
{
	if (bytes > SLAB_MATRIX) {
		m->data = mem_pages(bytes);
		return;
	}
	cpu_slab *s = self->slab;
	if (!s || bytes > SLAB_BYTES - s->used) {
		if (!(s = mem_alloc(sizeof *s))) return;
		if (!(s->bytes = mem_pages(SLAB_BYTES))) {
			mem_free(s);
			return;
		}
		self->slab = s; /* the one before is its matrices' alone */
	}
	m->slab = s;
	m->data = s->bytes + s->used;
	s->used += (bytes + MEM_PAGE - 1) / MEM_PAGE * MEM_PAGE;
	s->matrices++;
}

static void mat_free(cpu_self *self, cpu_mat *m)
{
	if (!m) return;
	if (m->slab) slab_leave(self, m->slab);
	else mem_pages_free(m->data);
	mem_free(m->nan);
	mem_free(m);
}

nh_status cpu_pack_import(exec *x, weight *w, nh_error *e)
{
	const ref_kernel *kernel;
	TRY(ref_kernel_check(x, w, &kernel, e));
	cpu_self *self = cpu_self_of(x);
	cpu_mat *m = mem_alloc(sizeof *m);
	if (!m) return ERR_NOMEM(e);
	*m = (cpu_mat){.vec = vec_mat_of((int)self->tier),
	    .kernel = kernel,
	    .format = format_of(w),
	    .eager = ref_eager(x),
	    .n = w->n,
	    .k = w->k,
	    .tiles = (w->n + MAT_TILE - 1) / MAT_TILE};
	m->ints = m->eager && m->format == MAT_FP4 && m->vec->ints;
	m->words = m->eager && m->format == MAT_FP4 && m->vec->words;
	m->tile_bytes = m->vec->tile_bytes(m->format, w->k);
	size_t bytes;
	const bool nan = m->format == MAT_FP8 || m->format == MAT_FP4;
	if (mem_mul((size_t)m->tiles, m->tile_bytes, &bytes)) take_data(self, m, bytes);
	if (m->data && nan) m->nan = mem_array((size_t)m->tiles, MAT_TILE);
	if (!m->data || (nan && !m->nan)) {
		mat_free(self, m);
		return ERR_NOMEM(e);
	}
	cpu_pool_run(self->pool, pack_range, &(packing){m, w, m->nan});
	bool found = false;
	for (int64_t i = 0; m->nan && i < m->n; i++) found |= m->nan[i] != 0;
	if (!found) {
		mem_free(m->nan);
		m->nan = NULL;
	}
	w->bound = m;
	return NH_OK;
}

void cpu_pack_release(exec *x, weight *w)
{
	mat_free(cpu_self_of(x), (cpu_mat *)w->bound);
	w->bound = NULL;
}

const cpu_mat *cpu_mat_of(exec *x, op_id op, const weight *w)
{
	if (!w->bound) exec_fail(x, op, NH_ERR_INTERNAL, "%s was not imported", w->name);
	return w->bound;
}
