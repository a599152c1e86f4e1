/* SPDX-License-Identifier: Apache-2.0
 * helper_host.c: see helper_host.h. Layers differ in every extent, so that a wrong stride shows.
 */
#include "helper_host.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/base_file.h"
#include "base/base_mem.h"
#include "base/base_rng.h"

static const states_layer MAMBA[] = {{4, 24, 3, 16, 20}, {3, 20, 7, 8, 16}, {4, 8, 5, 8, 24}};
static const pages_layer KV[] = {{2, 4, 0.5f, 0.25f}, {1, 6, 1, 2}};

static void *host_alloc(exec *x, size_t bytes) { return (void)x, mem_alloc(bytes); }
static void host_free(exec *x, void *p) { (void)x, mem_free(p); }

static nh_status transfer(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	host *h = x->self;
	if (h->fail_after == 0) return ERR(e, NH_ERR_BACKEND, "toy: a transfer failed");
	if (h->fail_after > 0) h->fail_after--;
	memcpy(to, from, bytes);
	return NH_OK;
}

static const backend ARM = {
    .name = "toy", .host_memory = true, .alloc = host_alloc, .free = host_free, .upload = transfer, .download = transfer};

static size_t line_bytes(const tensor *t) { return tensor_bytes(t) / (size_t)t->shape[0]; }

static void copy_lines(exec *x, op_id op, const void *args, const tensor *lines, const tensor *from, const tensor *to)
{
	host *h = x->self;
	char text[256];
	exec_count(x, op, args);
	assert_null(op_check(op, args, text));
	if (h->fail_copies == 0) {
		exec_fail(x, op, NH_ERR_BACKEND, "planted");
		return;
	}
	if (h->fail_copies > 0) h->fail_copies--;
	for (int64_t i = 0; i < from->shape[0]; i++) {
		int32_t a = ((const int32_t *)from->data)[i], b = ((const int32_t *)to->data)[i];
		assert_in_range(a, 0, lines->shape[0] - 1);
		assert_in_range(b, 0, lines->shape[0] - 1);
		memcpy(tensor_row(lines, b), tensor_row(lines, a), line_bytes(lines));
	}
}

static void state_copy(exec *x, const op_state_copy *a) { copy_lines(x, OP_state_copy, a, a->pool, a->from, a->to); }
static const op_table TABLE = {.state_copy = state_copy};

static void state_copy_inside(exec *x, const op_state_copy *a)
{
	state_copy(x->inner, a);
	x->counters = x->inner->counters;
	x->status = x->inner->status;
	x->error = x->inner->error;
}
static const op_table WRAPPER = {.state_copy = state_copy_inside};

void host_open(host *h, num_dtype kv, int64_t slots, int64_t page_count)
{
	memset(h, 0, sizeof *h);
	h->fail_after = h->fail_copies = -1;
	h->x = (exec){.ops = &TABLE, .arm = "toy", .layer = -1, .self = h};
	h->x.types = (exec_types){.act = NUM_BF16, .wide = NUM_F32, .conv_state = NUM_BF16, .ssm_state = NUM_F32, .kv = NUM_BF16};
	h->wrapper = h->x;
	h->wrapper.ops = &WRAPPER;
	h->wrapper.inner = &h->x;
	nh_error e;
	assert_int_equal(states_open(&h->s, &ARM, &h->x, MAMBA, ARRAY_LEN(MAMBA), slots, &e), NH_OK);
	assert_int_equal(pages_open(&h->p, &ARM, &h->x, KV, ARRAY_LEN(KV), kv, page_count, &e), NH_OK);
	host_poison(h);
}

bool host_idle(const host *h) { return h->s.pool.free_count == h->s.pool.count && h->p.pool.free_count == h->p.pool.count; }

void host_close(host *h)
{
	assert_true(host_idle(h));
	assert_int_equal(h->x.status, NH_OK);
	states_close(&h->s);
	pages_close(&h->p);
}

void host_seqmem(host *h, seqmem *m, int64_t max_tokens)
{
	nh_error e;
	assert_int_equal(seqmem_init(m, &h->s, &h->p, max_tokens, &e), NH_OK);
}

/* Bytes of one place: a function of the ids so far (key), the layer, and which of its tensors. */
static void place(uint64_t key, int layer, int part, unsigned char *out, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v = rng_u64(key, (uint64_t)layer * 8 + (uint64_t)part, i);
		memcpy(out + i, &v, bytes - i < 8 ? bytes - i : 8);
	}
}

static uint64_t key_next(uint64_t key, int32_t id) { return rng_mix(key ^ (uint32_t)id); }

enum { PLACE_BYTES = 4096 };

/* Writes (check false) or compares what belongs to position pos, or to the slot. Returns whether all was equal. */
static bool one_place(host *h, bool check, void *at, uint64_t key, int layer, int part, size_t bytes)
{
	unsigned char want[PLACE_BYTES];
	assert_true(bytes <= sizeof want);
	place(key, layer, part, want, bytes);
	if (!check) memcpy(at, want, bytes);
	else h->checked_bytes += bytes;
	return memcmp(at, want, bytes) == 0;
}

static bool one_position(host *h, bool check, const seqmem *m, int64_t pos, uint64_t key)
{
	bool same = true;
	const int64_t at = seqmem_kv_slot(m, pos);
	for (int i = 0; i < h->p.layers; i++) {
		const tensor *t[2] = {&h->p.layer[i].k, &h->p.layer[i].v};
		for (int k = 0; k < 2; k++) {
			size_t row = line_bytes(t[k]) / PAGES_TOKENS;
			same &= one_place(h, check, (char *)t[k]->data + (size_t)at * row, key, 100 + i, k, row);
		}
	}
	return same;
}

static bool one_slot(host *h, bool check, const seqmem *m, uint64_t key)
{
	bool same = true;
	for (int i = 0; i < h->s.layers; i++) {
		const tensor *t[2] = {&h->s.layer[i].conv, &h->s.layer[i].ssm};
		for (int k = 0; k < 2; k++) same &= one_place(h, check, tensor_row(t[k], m->slot), key, i, k, line_bytes(t[k]));
	}
	return same;
}

void host_compute(host *h, seqmem *m, const int32_t *ids, int64_t to)
{
	nh_error e;
	uint64_t key = 0;
	if (m->slot < 0) assert_int_equal(seqmem_begin(m, &e), NH_OK);
	assert_int_equal(seqmem_reserve(m, to, &e), NH_OK);
	assert_int_equal(h->s.pool.holds[m->slot], 1);
	for (int64_t pos = 0; pos < to; pos++) {
		key = key_next(key, ids[pos]);
		if (pos < m->length) continue;
		assert_int_equal(h->p.pool.holds[m->page[pos / PAGES_TOKENS]], 1);
		one_position(h, false, m, pos, key);
	}
	if (to > m->length) one_slot(h, false, m, key);
	m->length = to;
}

bool host_holds(host *h, const seqmem *m, const int32_t *ids)
{
	uint64_t key = 0;
	bool same = true;
	for (int64_t pos = 0; pos < m->length; pos++) {
		key = key_next(key, ids[pos]);
		same &= one_position(h, true, m, pos, key);
	}
	return m->length ? same & one_slot(h, true, m, key) : same;
}

void host_check(host *h, const seqmem *m, const int32_t *ids) { assert_true(host_holds(h, m, ids)); }

void host_poison(host *h)
{
	for (int32_t n = 0; n < h->s.pool.count; n++)
		for (int i = 0; h->s.pool.holds[n] == 0 && i < h->s.layers; i++) {
			memset(tensor_row(&h->s.layer[i].conv, n), 0xFF, line_bytes(&h->s.layer[i].conv));
			memset(tensor_row(&h->s.layer[i].ssm, n), 0xFF, line_bytes(&h->s.layer[i].ssm));
		}
	for (int32_t n = 0; n < h->p.pool.count; n++)
		for (int i = 0; h->p.pool.holds[n] == 0 && i < h->p.layers; i++) {
			memset(tensor_row(&h->p.layer[i].k, n), 0xFF, line_bytes(&h->p.layer[i].k));
			memset(tensor_row(&h->p.layer[i].v, n), 0xFF, line_bytes(&h->p.layer[i].v));
		}
}

void host_prompt(int32_t *ids, int64_t n, int64_t common, uint64_t family, uint64_t seed)
{
	for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(i < common ? family : ~seed, (uint64_t)i, 0) % 1000);
	if (common < n) ids[common] = (int32_t)(seed % 1000) + 1000; /* prompts of one family differ there */
}

void host_folder_remove(const char *path)
{
	file_list l;
	if (file_list_dir(&l, path, NULL) != NH_OK) return;
	for (size_t i = 0; i < l.count; i++) {
		char *p = path_join(path, l.names[i]);
		if (file_is_dir(p)) rmdir(p);
		else unlink(p);
		mem_free(p);
	}
	file_list_free(&l);
	rmdir(path);
}

void host_folder(char path[256], const char *name)
{
	snprintf(path, 256, "%s/cache_%s_%ld", NH_BINARY_DIR, name, (long)getpid());
	host_folder_remove(path);
	assert_int_equal(mkdir(path, 0777), 0);
}
