/* SPDX-License-Identifier: Apache-2.0
 * test_cpu_moe.c: chosen experts over formats, tiers, profiles and shapes: one expert, many, all rows to the same, in both forms. Bands are
 * a few times what was seen: in eager profiles hidden values and results are bf16, so that a sum on the other side of a rounding shows as
 * one step of 2^-8 in that element. A token alone is what it is in a batch, to the bit (twin.h).
 */
#include "matrix.h"

#include "exec/exec.h"

#define EXPERTS_MAX 40

typedef struct shape {
	matrix_kind kind;
	int64_t rows, E, K, width, inner;
	int decode_rows;
	bool same; /* every token chooses the first K experts */
} shape;

static void experts(twin *w, const void *shape_)
{
	const shape *s = shape_;
	weight up[EXPERTS_MAX], down[EXPERTS_MAX];
	weight_experts all = {.E = (int)s->E, .up = up, .down = down};
	for (int64_t e = 0; e < s->E; e++) {
		up[e] = matrix_made(w, s->kind, s->inner, s->width), down[e] = matrix_made(w, s->kind, s->width, s->inner);
		if (up[e].input_scale > all.up_input) all.up_input = up[e].input_scale;
		if (down[e].input_scale > all.down_input) all.down_input = down[e].input_scale;
		matrix_import(w, &up[e]);
		matrix_import(w, &down[e]);
	}
	tensor x = twin_random(w, w->x->types.act, s->rows, s->width, 0, 1), idx = twin_zeros(w, NUM_I32, 2, s->rows, s->K, 1, 1),
	       routed = twin_random(w, w->x->types.wide, s->rows, s->K, 0.3, 0.2),
	       rows = twin_zeros(w, exec_expert_type(w->x, &all), 3, s->rows, s->K, s->width, 1);
	for (int64_t i = 0; i < s->rows; i++) {
		const int64_t first = s->same ? 0 : (int64_t)(rng_u64(w->seed, w->drawn++, 5) % (uint64_t)s->E);
		for (int64_t k = 0; k < s->K; k++) ((int32_t *)idx.data)[i * s->K + k] = (int32_t)((first + k * 7) % s->E);
	}
	tensor rx = twin_rows(w, &x), ri = twin_rows(w, &idx), rr = twin_rows(w, &routed), out = twin_rows(w, &rows);
	int decode = s->decode_rows;
	if (w->only >= 0) decode = w->only < s->decode_rows;
	OP(w->x, expert_ffn, .rows = &out, .x = &rx, .idx = &ri, .w = &rr, .experts = &all, .decode_rows = decode);
	twin_out(w, &out);
	if (w->only < 0) assert_int_equal(w->x->counters.expert_rows, s->rows * s->K);
	for (int64_t e = 0; e < s->E; e++) w->arm->release(w->x, &up[e]), w->arm->release(w->x, &down[e]);
}

static void agree_with_ref(void **state)
{
	(void)state;
	static const shape SHAPES[] = {{M_BF16, 1, 8, 3, 64, 48, 1, false}, {M_BF16, 33, 5, 2, 37, 21, 4, false},
	    {M_FP8, 1, 8, 6, 160, 96, 1, false}, {M_FP8, 9, 40, 22, 48, 80, 5, false}, {M_W4A16, 1, 8, 6, 160, 928, 1, false},
	    {M_W4A16, 20, 6, 3, 96, 80, 7, false}, {M_W4A16, 7, 1, 1, 32, 16, 0, false}, {M_W4A4, 1, 4, 2, 160, 96, 1, false},
	    {M_W4A4, 12, 6, 3, 96, 80, 7, true}, {M_BF16, 13, 9, 2, 33, 40, 13, true}};
	static const double BANDS[2] = {3e-6, 1e-3};
	twin_seen seen = {{0}, 0};
	for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
		twin_check(experts, &SHAPES[i], SHAPES[i].rows < 10 ? SHAPES[i].rows : 4, BANDS, &seen);
	TWIN_REPORT("expert_ffn", seen);
}

/* More tokens than one pass takes. */
static void many_tokens(void **state)
{
	(void)state;
	static const double BANDS[2] = {3e-6, 1e-3};
	twin_seen seen = {{0}, 0};
	twin_check(experts, &(shape){M_BF16, 2100, 3, 1, 16, 16, 1030, false}, 2, BANDS, &seen);
}

static void counted_as_ref_does(void **state)
{
	(void)state;
	twin a, b;
	assert_true(twin_open(&a, &ref_backend, NULL, 1, "portable", 2));
	assert_true(twin_open(&b, &cpu_backend, NULL, 2, "portable", 2));
	const shape s = {M_W4A16, 5, 30, 4, 32, 32, 2, false};
	experts(&a, &s);
	experts(&b, &s);
	assert_int_equal(a.x->counters.experts_read, b.x->counters.experts_read);
	assert_int_equal(a.x->counters.op[OP_expert_ffn].bytes, b.x->counters.op[OP_expert_ffn].bytes);
	assert_int_equal(b.x->counters.op[OP_expert_ffn].calls, 1);
	twin_close(&a), twin_close(&b);
}

static void bad_choices_are_told(void **state)
{
	(void)state;
	twin w;
	assert_true(twin_open(&w, &cpu_backend, NULL, 1, "portable", 1));
	weight up[2], down[2];
	for (int e = 0; e < 2; e++) {
		up[e] = matrix_made(&w, M_BF16, 16, 16), down[e] = matrix_made(&w, M_BF16, 16, 16);
		matrix_import(&w, &up[e]), matrix_import(&w, &down[e]);
	}
	weight_experts all = {.E = 2, .up = up, .down = down};
	tensor x = twin_random(&w, NUM_BF16, 2, 16, 0, 1), idx = twin_count(&w, 2, 1, 1), r = twin_random(&w, NUM_F32, 2, 1, 0.5, 0.1),
	       rows = twin_zeros(&w, NUM_BF16, 3, 2, 1, 16, 1);
	idx = tensor_2d(idx.data, NUM_I32, 2, 1);
	OP(w.x, expert_ffn, .rows = &rows, .x = &x, .idx = &idx, .w = &r, .experts = &all);
	twin_failed(&w, "idx[1, 0] = 2, expected 0 <= expert < 2");
	((int32_t *)idx.data)[1] = 1;
	w.arm->release(w.x, &down[1]);
	OP(w.x, expert_ffn, .rows = &rows, .x = &x, .idx = &idx, .w = &r, .experts = &all);
	twin_failed(&w, "not imported, or in another format");
	w.arm->release(w.x, &up[0]);
	OP(w.x, expert_ffn, .rows = &rows, .x = &x, .idx = &idx, .w = &r, .experts = &all);
	twin_failed(&w, "was not imported");
	w.arm->release(w.x, &up[1]), w.arm->release(w.x, &down[0]);
	twin_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agree_with_ref), cmocka_unit_test(many_tokens),
	    cmocka_unit_test(counted_as_ref_does), cmocka_unit_test(bad_choices_are_told)};
	return cmocka_run_group_tests_name("cpu_moe", tests, NULL, NULL);
}
