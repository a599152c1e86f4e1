/* SPDX-License-Identifier: Apache-2.0
 * test_dummy.c: drawn tensors: the same bits whenever and by however many threads they are made, with the spread of trained weights in each
 * format; and what a loader does with the source of a matrix once the arm has its own form.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "exec/wrap.h"
#include "load/dummy.h"
#include "load/load_impl.h"
#include "num/num_conv.h"
#include "tensor/weight.h"

static weight matrix_of(const char *name, num_scheme scheme, int64_t n, int64_t k)
{
	return (weight){.name = name,
	    .scheme = scheme,
	    .dtype = scheme == NUM_SCHEME_NONE  ? NUM_BF16
	             : scheme == NUM_SCHEME_FP8 ? NUM_E4M3
	                                        : NUM_E2M1X2,
	    .n = n,
	    .k = k,
	    .scale = 1};
}

static const num_scheme SCHEMES[] = {NUM_SCHEME_NONE, NUM_SCHEME_FP8, NUM_SCHEME_NVFP4, NUM_SCHEME_W4A16};

/* Mean 0, deviation 1 / sqrt(k), and no value that stands apart. */
static void matrices_have_the_spread_of_trained_ones(void **state)
{
	(void)state;
	enum { ROWS = 300, COLS = 1024 };
	dummy *d;
	nh_error e = {0};
	double *row = mem_array(COLS, sizeof *row);
	assert_int_equal(dummy_open(&d, 7, 2, &e), NH_OK);
	for (size_t f = 0; f < ARRAY_LEN(SCHEMES); f++) {
		weight w = matrix_of("m.in_proj", SCHEMES[f], ROWS, COLS);
		assert_int_equal(dummy_matrix(d, &w, f % 2, &e), NH_OK);
		double sum = 0, square = 0, most = 0;
		for (int64_t i = 0; i < ROWS; i++) {
			weight_decode_row(&w, i, row);
			for (int j = 0; j < COLS; j++) {
				double v = row[j] * (double)w.scale;
				sum += v;
				square += v * v;
				most = fmax(most, fabs(v));
				if (SCHEMES[f] == NUM_SCHEME_FP8) assert_true(fabs(row[j]) <= 448);
			}
		}
		double std = sqrt(square / (ROWS * COLS)) * sqrt(COLS), mean = sum / (ROWS * COLS) * sqrt(COLS);
		printf("%s: deviation %.4f, mean %.4f, largest %.2f\n", num_scheme_name(SCHEMES[f]), std, mean, most * sqrt(COLS));
		assert_true(std > 0.99 && std < 1.01 && fabs(mean) < 0.01);
		assert_true(most * sqrt(COLS) > 3 && most * sqrt(COLS) < 6);
		bool input = SCHEMES[f] == NUM_SCHEME_FP8 || SCHEMES[f] == NUM_SCHEME_NVFP4;
		assert_int_equal(w.input_scale > 0, input);
	}
	dummy_close(d);
	mem_free(row);
	assert_int_equal(mem_live(), 0);
}

static void bits_depend_on_the_name_alone(void **state)
{
	(void)state;
	const int64_t shape[2] = {500, 640};
	dummy *a, *b, *c;
	nh_error e = {0};
	assert_int_equal(dummy_open(&a, 1, 1, &e), NH_OK);
	assert_int_equal(dummy_open(&b, 1, 3, &e), NH_OK);
	assert_int_equal(dummy_open(&c, 2, 1, &e), NH_OK);
	int differ = 0;
	for (size_t f = 0; f < ARRAY_LEN(SCHEMES); f++) {
		weight x = matrix_of("x", SCHEMES[f], 500, 640), y = x, other = matrix_of("y", SCHEMES[f], 500, 640), seed = x;
		size_t bytes = wfmt_of(SCHEMES[f])->bytes(500, 640);
		if (x.block_scale) bytes = 500 * 320;
		else if (SCHEMES[f] != NUM_SCHEME_NONE && SCHEMES[f] != NUM_SCHEME_FP8) bytes = 500 * 320;
		else if (SCHEMES[f] == NUM_SCHEME_FP8) bytes = 500 * 640;
		assert_int_equal(dummy_matrix(a, &x, true, &e), NH_OK);
		assert_int_equal(dummy_matrix(b, &other, true, &e), NH_OK); /* another order */
		assert_int_equal(dummy_matrix(b, &y, false, &e), NH_OK);
		assert_int_equal(dummy_matrix(c, &seed, true, &e), NH_OK);
		assert_memory_equal(x.data, y.data, bytes);
		assert_true(x.scale == y.scale && x.input_scale == y.input_scale);
		if (x.block_scale) assert_memory_equal(x.block_scale, y.block_scale, 500 * 40);
		differ += memcmp(x.data, other.data, bytes) != 0;
		differ += memcmp(x.data, seed.data, bytes) != 0;
	}
	assert_int_equal(differ, 2 * ARRAY_LEN(SCHEMES));
	const st_tensor *t = dummy_tensor(a, "t.weight", NUM_F32, 2, shape, false, &e),
	                *u = dummy_tensor(b, "t.weight", NUM_F32, 2, shape, true, &e);
	assert_memory_equal(t->data, u->data, t->bytes);
	dummy_close(a);
	dummy_close(b);
	dummy_close(c);
	dummy_close(NULL);
	assert_int_equal(mem_live(), 0);
}

/* Who writes a file asks for pieces. */
static void pieces_are_the_whole(void **state)
{
	(void)state;
	enum { N = 96, K = 1024, PIECE = 64 * 37 };
	dummy *d;
	nh_error e = {0};
	int pieces = 0;
	assert_int_equal(dummy_open(&d, 3, 2, &e), NH_OK);
	uint8_t *out = mem_alloc(PIECE + DUMMY_SLACK);
	for (size_t f = 0; f < ARRAY_LEN(SCHEMES); f++) {
		weight w = matrix_of("m.k_proj", SCHEMES[f], N, K), v = w;
		assert_int_equal(dummy_matrix(d, &w, true, &e), NH_OK);
		assert_int_equal(dummy_scale(d, &v, &e), NH_OK);
		assert_true(w.scale == v.scale && w.input_scale == v.input_scale);
		for (int scales = 0; scales <= (w.block_scale != NULL); scales++) {
			const size_t all = scales ? N * K / 16 : w.dtype == NUM_BF16 ? N * K * 2 : w.dtype == NUM_E4M3 ? N * K : N * K / 2;
			const uint8_t *whole = scales ? w.block_scale : w.data;
			for (size_t at = 0; at < all; at += PIECE, pieces++) {
				const size_t n = all - at < PIECE ? all - at : PIECE;
				assert_int_equal(dummy_matrix_part(d, &v, scales, at, n, out, &e), NH_OK);
				assert_memory_equal(out, whole + at, n);
			}
		}
	}
	static const char *const NAMES[] = {"t.conv1d.weight", "t.embeddings.weight", "t.A_log", "t.norm.weight"};
	for (size_t i = 0; i < 2 * ARRAY_LEN(NAMES); i++) {
		const int64_t shape[2] = {1000, 20};
		const int rank = i / 2 < 2 ? 2 : 1;
		const num_dtype type = i % 2 ? NUM_F32 : NUM_BF16;
		const st_tensor *t = dummy_tensor(d, NAMES[i / 2], type, rank, shape, false, &e);
		for (size_t at = 0; at < t->bytes; at += PIECE, pieces++) {
			const size_t n = t->bytes - at < PIECE ? t->bytes - at : PIECE;
			assert_int_equal(dummy_tensor_part(d, t->name, type, rank == 2 ? 20 : 0, at, n, out, &e), NH_OK);
			assert_memory_equal(out, t->data + at, n);
		}
	}
	printf("%d pieces\n", pieces);
	assert_true(pieces > 200);
	mem_free(out);
	dummy_close(d);
	assert_int_equal(mem_live(), 0);
}

static void parameters_are_drawn_by_what_they_are(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		double lo, hi;
	} CASES[] = {{"l.norm.weight", 0.4, 1.6}, {"l.mixer.A_log", 0, 2.78}, {"l.mixer.D", -0.5, 2.5}, {"l.mixer.dt_bias", -7, -2.2},
	    {"l.mixer.gate.e_score_correction_bias", -0.1, 0.1}, {"l.mixer.conv1d.bias", -0.3, 0.3},
	    {"l.mixer.k_proj.k_scale", 0.0079, 0.0201}};
	dummy *d;
	nh_error e = {0};
	assert_int_equal(dummy_open(&d, 0, 1, &e), NH_OK);
	for (size_t c = 0; c < ARRAY_LEN(CASES); c++) {
		const int64_t n = 2000;
		const st_tensor *t = dummy_tensor(d, CASES[c].name, NUM_BF16, 1, &n, false, &e);
		double lo = INFINITY, hi = -INFINITY;
		for (int64_t i = 0; i < n; i++) {
			double v = num_load(t->dtype, t->data, (size_t)i);
			lo = fmin(lo, v);
			hi = fmax(hi, v);
		}
		if (lo < CASES[c].lo || hi > CASES[c].hi || lo == hi) fail_msg("%s: %g .. %g", CASES[c].name, lo, hi);
	}
	dummy_close(d);
}

/* --- the loader and an arm that repacks --- */

static int imports;
static bool seen_data;
static size_t arm_bytes, arm_most; /* held by the arm */

static nh_status arm_import(exec *x, weight *w, nh_error *e)
{
	(void)x, (void)e;
	seen_data = w->data != NULL && (w->dtype != NUM_E2M1X2 || w->block_scale != NULL);
	w->bound = w;
	imports++;
	return NH_OK;
}

static void arm_release(exec *x, weight *w)
{
	(void)x, (void)w;
	imports--;
}

typedef struct held {
	size_t bytes;
	double room[];
} held;

static void *arm_alloc(exec *x, size_t bytes)
{
	(void)x;
	held *h = mem_alloc(sizeof *h + bytes);
	h->bytes = bytes;
	arm_bytes += bytes;
	if (arm_bytes > arm_most) arm_most = arm_bytes;
	return h->room;
}

static void arm_free(exec *x, void *p)
{
	(void)x;
	held *h = (held *)(void *)((char *)p - offsetof(held, room));
	arm_bytes -= h->bytes;
	mem_free(h);
}

static nh_status arm_upload(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	return NH_OK;
}

static backend arm_of(bool repacks)
{
	return (backend){.name = "packer",
	    .host_memory = true,
	    .import = arm_import,
	    .release = arm_release,
	    .alloc = arm_alloc,
	    .free = arm_free,
	    .upload = arm_upload,
	    .repacks = repacks};
}

static size_t resident_kb(void)
{
	size_t all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%zu %zu", &all, &resident) != 2) resident = 0;
	if (f) fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* 60 matrices of 4 MB: an arm that repacks never meets more than one of them. */
static void the_source_of_a_drawn_matrix_is_given_back(void **state)
{
	(void)state;
	size_t grown[2];
	for (int repacks = 0; repacks < 2; repacks++) {
		nh_error e = {0};
		backend arm = arm_of(repacks);
		exec *x = dry_create(num_profile("portable"), NUM_F64);
		const loader_options o = {.x = x, .arm = &arm, .dummy = true, .threads = 1};
		loader *l;
		assert_int_equal(loader_open(&l, &o, &e), NH_OK);
		assert_false(loader_shapes_only(l));
		size_t before = resident_kb();
		for (int i = 0; i < 60; i++) {
			char name[32];
			weight w;
			snprintf(name, sizeof name, "m.%d", i);
			assert_int_equal(load_weight(l, name, 2048, 1024, &w, &e), NH_OK);
			assert_true(seen_data);
			assert_int_equal(w.data == NULL, repacks);
			assert_non_null(w.bound);
		}
		grown[repacks] = resident_kb() - before;
		tensor table, v;
		const int64_t eight[1] = {8};
		assert_int_equal(load_table(l, "embeddings.weight", 64, 32, &table, &e), NH_OK);
		assert_int_equal(load_param(l, "norm.weight", LOAD_MODEL, 1, eight, &v, &e), NH_OK);
		assert_non_null(table.data); /* tables stay, whatever the arm does */
		assert_int_equal(loader_bytes_done(l), 60u * 2048 * 1024 * 2 + 64 * 32 * 2 + 16);
		assert_int_equal(loader_us(l), 0);
		assert_int_equal(loader_finish(l, &e), NH_OK);
		assert_true(loader_us(l) > 0);
		loader_close(l);
		dry_destroy(x);
		assert_int_equal(imports, 0);
		assert_int_equal(arm_bytes, 0);
		assert_int_equal(mem_live(), 0);
	}
	printf("240 MB of matrices: %zu kB resident where they stay, %zu kB where they are given back\n", grown[0], grown[1]);
	assert_true(grown[0] > 200 * 1024);
	assert_true(grown[1] < 40 * 1024);
}

/* A router in F32 that the profile wants in BF16 is copied; the copy goes too. */
static void a_narrowed_copy_is_given_back(void **state)
{
	(void)state;
	nh_error e = {0};
	json_t *config = json_pack("{s:{s:s,s:s}}", "quantization_config", "quant_method", "modelopt", "quant_algo", "FP8");
	quant_config *quant;
	assert_int_equal(quant_open(&quant, config, "config.json", NULL, NULL, &e), NH_OK);
	for (int repacks = 0; repacks < 2; repacks++) {
		backend arm = arm_of(repacks);
		exec *x = dry_create(num_profile("portable"), NUM_F64);
		const loader_options o = {.x = x, .arm = &arm, .dummy = true, .threads = 1, .quant = quant};
		loader *l;
		weight w;
		assert_int_equal(loader_open(&l, &o, &e), NH_OK);
		if (load_router(l, "layers.1.mixer.gate", 16, 32, &w, &e) != NH_OK) fail_msg("%s", e.text);
		assert_true(seen_data && w.dtype == NUM_BF16);
		assert_int_equal(w.data == NULL, repacks);
		assert_int_equal(arm_bytes, repacks ? 0 : 16 * 32 * 2);
		loader_close(l);
		dry_destroy(x);
	}
	quant_close(quant);
	json_decref(config);
	assert_int_equal(mem_live(), 0);
}

/* Shapes alone tell what will be drawn: progress counts to there, and no further. */
static void shapes_tell_the_bytes_that_are_drawn(void **state)
{
	(void)state;
	uint64_t bytes[2];
	json_t *config = json_pack("{s:{s:s,s:s}}", "quantization_config", "quant_method", "modelopt", "quant_algo", "NVFP4");
	quant_config *quant;
	nh_error e = {0};
	assert_int_equal(quant_open(&quant, config, "config.json", NULL, NULL, &e), NH_OK);
	for (int drawn = 0; drawn < 2; drawn++) {
		backend arm = arm_of(true);
		exec *x = dry_create(num_profile("portable"), NUM_F64);
		const loader_options o = {.x = x, .arm = &arm, .dummy = drawn, .threads = 1, .quant = quant};
		const int64_t shape[3] = {24, 1, 4};
		loader *l;
		weight w;
		tensor t;
		float scale;
		bool found;
		assert_int_equal(loader_open(&l, &o, &e), NH_OK);
		assert_int_equal(load_table(l, "embeddings.weight", 64, 32, &t, &e), NH_OK);
		assert_int_equal(loader_bytes_done(l), 64 * 32 * 2);
		assert_int_equal(load_param(l, "conv1d.weight", LOAD_MODEL, 3, shape, &t, &e), NH_OK);
		assert_int_equal(load_skip_param(l, "other.weight", 1, shape, &e), NH_OK);
		if (drawn) assert_int_equal(load_weight(l, "m.up_proj", 16, 32, &w, &e), NH_OK);
		else assert_int_equal(load_skip_weight(l, "m.up_proj", 16, 32, &e), NH_OK);
		assert_int_equal(load_router(l, "mixer.gate", 16, 32, &w, &e), NH_OK);
		assert_int_equal(load_kv_scale(l, "k_scale", 1, &scale, &found, &e), NH_OK);
		bytes[drawn] = loader_bytes_done(l);
		loader_close(l);
		dry_destroy(x);
	}
	quant_close(quant);
	json_decref(config);
	printf("%llu bytes\n", (unsigned long long)bytes[1]);
	assert_int_equal(bytes[0], bytes[1]);
}

static void memory_that_ends_is_an_error(void **state)
{
	(void)state;
	int failed = 0;
	for (size_t nth = 0; nth < 40; nth++) {
		nh_error e = {0};
		dummy *d = NULL;
		mem_fault_set(MEM_FAULT_ALLOC, nth, 1);
		nh_status s = dummy_open(&d, 1, 1, &e);
		weight w = matrix_of("m", NUM_SCHEME_FP8, 16, 32), p = matrix_of("p", NUM_SCHEME_NONE, 16, 32);
		const int64_t n = 5;
		if (s == NH_OK) s = dummy_matrix(d, &w, true, &e);
		if (s == NH_OK) s = dummy_matrix(d, &p, false, &e);
		if (s == NH_OK && !dummy_tensor(d, "D", NUM_F32, 1, &n, true, &e)) s = (nh_status)e.code;
		failed += s != NH_OK;
		if (s != NH_OK) assert_int_equal(s, NH_ERR_NOMEM);
		mem_fault_set(MEM_FAULT_ALLOC, SIZE_MAX, 0);
		dummy_close(d);
		assert_int_equal(mem_live(), 0);
	}
	printf("%d allocations failed in turn\n", failed);
	assert_true(failed > 4 && failed < 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_have_the_spread_of_trained_ones),
	    cmocka_unit_test(bits_depend_on_the_name_alone), cmocka_unit_test(pieces_are_the_whole),
	    cmocka_unit_test(parameters_are_drawn_by_what_they_are), cmocka_unit_test(the_source_of_a_drawn_matrix_is_given_back),
	    cmocka_unit_test(a_narrowed_copy_is_given_back), cmocka_unit_test(shapes_tell_the_bytes_that_are_drawn),
	    cmocka_unit_test(memory_that_ends_is_an_error)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
