/* SPDX-License-Identifier: Apache-2.0
 * test_load_memory.c: what the CPU arm's weights take. Of a matrix that it packed, neither the file's pages nor the drawn bytes stay, and the
 * peak is what was packed and little more; nothing reads the source afterwards.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_pack.h"
#include "base/base_mem.h"
#include "exec/exec.h"
#include "load/loader.h"

enum { MATRICES = 40, ROWS = 1024, COLS = 1024 };
#define EACH ((size_t)ROWS * COLS * 2) /* in bf16: file, drawn and packed alike */

static char folder[] = "/tmp/nh-load-memory-XXXXXX", path[64];

/* A figure in kB of /proc/self/status, or of the mappings of a file in smaps (summed). */
static size_t kb_of(const char *file, const char *key, const char *mapping)
{
	char line[4096];
	size_t sum = 0, value;
	bool inside = mapping == NULL;
	FILE *f = fopen(file, "r");
	if (!f) return 0;
	while (fgets(line, sizeof line, f)) {
		bool head = strchr(line, '-') && strchr(line, '-') < strchr(line, ' ');
		if (mapping && head) inside = strstr(line, mapping) != NULL;
		if (inside && strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %zu", &value) == 1) sum += value;
	}
	fclose(f);
	return sum;
}

static size_t resident_kb(void) { return kb_of("/proc/self/status", "VmRSS", NULL); }
static size_t peak_kb(void) { return kb_of("/proc/self/status", "VmHWM", NULL); }

static bool forget_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");
	bool ok = f && fputs("5", f) >= 0;
	if (f && fclose(f) != 0) ok = false;
	return ok;
}

static void write_file(void)
{
	st_writer *w;
	nh_error e = {0};
	uint16_t *bytes = mem_alloc(EACH);
	for (size_t i = 0; i < EACH / 2; i++) bytes[i] = (uint16_t)(0x3c00 + i % 97);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/model.safetensors", folder);
	assert_int_equal(st_writer_open(&w, path, &e), NH_OK);
	for (int i = 0; i < MATRICES; i++) {
		char name[32];
		snprintf(name, sizeof name, "m.%d.weight", i);
		assert_int_equal(st_writer_add(w, name, NUM_BF16, 2, (int64_t[]){ROWS, COLS}, &e), NH_OK);
	}
	assert_int_equal(st_writer_begin(w, &e), NH_OK);
	for (int i = 0; i < MATRICES; i++) st_writer_put(w, bytes, EACH);
	assert_int_equal(st_writer_commit(w, &e), NH_OK);
	mem_free(bytes);
}

/* The growth in kB while all matrices are loaded, at its end and at its peak. */
static void load_all(const st_set *set, size_t *grown, size_t *peak)
{
	nh_error e = {0};
	exec *x;
	loader *l;
	assert_int_equal(cpu_backend.open(&x, &(backend_options){.threads = 2}, &e), NH_OK);
	const loader_options o = {.set = set, .dummy = set == NULL, .threads = 1, .x = x, .arm = &cpu_backend, .files_name = "the model"};
	if (loader_open(&l, &o, &e) != NH_OK) fail_msg("%s", e.text);
	bool told = forget_peak();
	size_t before = resident_kb();
	weight w[MATRICES];
	for (int i = 0; i < MATRICES; i++) {
		char name[32];
		snprintf(name, sizeof name, "m.%d", i);
		if (load_weight(l, name, ROWS, COLS, &w[i], &e) != NH_OK) fail_msg("%s", e.text);
		assert_non_null(w[i].bound);
	}
	*grown = resident_kb() - before;
	*peak = told ? peak_kb() - before : *grown;
	if (set) {
		size_t mapped = kb_of("/proc/self/smaps", "Size", "model.safetensors"),
		       held = kb_of("/proc/self/smaps", "Rss", "model.safetensors");
		printf("file: %zu kB mapped, %zu kB of it resident\n", mapped, held);
		assert_true(mapped >= MATRICES * EACH / 1024);
		assert_true(held < mapped / 50);
	}
	assert_int_equal(loader_finish(l, &e), NH_OK);
	loader_close(l);
	cpu_backend.close(x);
}

static void packed_weights_are_all_that_stays(void **state)
{
	(void)state;
	const size_t packed = MATRICES * EACH / 1024, little = 16 * 1024; /* kB: the source of one matrix, tables, a huge page's rest */
	for (int files = 0; files < 2; files++) {
		nh_error e = {0};
		st_set *set = NULL;
		size_t grown, peak;
		if (files) write_file();
		if (files && st_set_open(&set, folder, NULL, &e) != NH_OK) fail_msg("%s", e.text);
		load_all(set, &grown, &peak);
		printf("%s: %zu kB packed; resident grew by %zu kB, at most %zu kB\n", files ? "from a file" : "drawn", packed, grown, peak);
		st_set_close(set);
		if (files) unlink(path);
		if (files) rmdir(folder);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
		(void)little; /* their shadows lie beside every page */
#else
		assert_true(grown >= packed && grown <= packed + little);
		assert_true(peak <= packed + little);
#endif
	}
	assert_int_equal(mem_live(), 0);
}

/* Small matrices share blocks, in any order of release; a large one has pages of its own. */
static void matrices_share_blocks(void **state)
{
	(void)state;
	enum { N = 50, BIG = N };
	nh_error e = {0};
	exec *x;
	weight w[N + 1];
	assert_int_equal(cpu_backend.open(&x, &(backend_options){.threads = 1}, &e), NH_OK);
	size_t live = mem_live();
	uint16_t *bytes = mem_alloc(16 * EACH);
	int apart = 0;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i <= N; i++) {
			w[i] = (weight){.name = "m", .dtype = NUM_BF16, .n = i == BIG ? 9 * ROWS : ROWS, .k = COLS, .scale = 1, .data = bytes};
			assert_int_equal(cpu_backend.import(x, &w[i], &e), NH_OK);
			const cpu_mat *m = w[i].bound, *before = i ? w[i - 1].bound : NULL;
			assert_int_equal((uintptr_t)m->data % 64, 0);
			assert_int_equal(m->slab == NULL, i == BIG);
			if (i > 0 && i < BIG) apart += m->data - before->data != (ptrdiff_t)EACH;
			if (i > 0 && i < BIG && m->slab == before->slab) assert_int_equal(m->data - before->data, EACH);
		}
		for (int i = 0; i <= N; i++) cpu_backend.release(x, &w[round ? N - i : i * 7 % (N + 1)]);
		assert_int_equal(mem_live(), live + 1);
	}
	printf("%d of %d matrices begin a block\n", apart, 2 * N);
	assert_true(apart == 2); /* 32 of 2 MB fill a block of 64 */
	mem_free(bytes);
	cpu_backend.close(x);
}

/* The arm's word that it repacks: with the source overwritten a product is the same. */
static void the_source_is_not_read_again(void **state)
{
	(void)state;
	enum { N = 40, K = 64 };
	static const num_dtype TYPES[] = {NUM_BF16, NUM_F32, NUM_E4M3, NUM_E2M1X2, NUM_E2M1X2};
	static const num_scheme SCHEMES[] = {NUM_SCHEME_NONE, NUM_SCHEME_NONE, NUM_SCHEME_FP8, NUM_SCHEME_W4A16, NUM_SCHEME_NVFP4};
	static const char *const PROFILES[] = {"portable", "exact"};
	assert_true(cpu_backend.repacks);
	int compared = 0;
	for (size_t i = 0; i < ARRAY_LEN(TYPES) * ARRAY_LEN(PROFILES); i++) {
		nh_error e = {0};
		exec *x;
		assert_int_equal(cpu_backend.open(&x, &(backend_options){.threads = 2, .num = num_profile(PROFILES[i / 5])}, &e), NH_OK);
		uint8_t data[N * K * 4], scales[N * K / 16];
		memset(data, 0x3c, sizeof data);
		memset(scales, 0x38, sizeof scales);
		weight w = {.name = "m", .scheme = SCHEMES[i % 5], .dtype = TYPES[i % 5], .n = N, .k = K, .scale = 1, .input_scale = 1};
		w.data = data;
		w.block_scale = TYPES[i % 5] == NUM_E2M1X2 ? scales : NULL;
		assert_int_equal(cpu_backend.import(x, &w, &e), NH_OK);
		const bool eager = x->num->rounding == NUM_ROUND_EAGER;
		float y[2][N + 1], in[2 * K];
		for (int j = 0; j < 2 * K; j++) ((uint16_t *)(void *)in)[j] = 0x3f80;
		for (int j = 0; j < 2 * K && !eager; j++) in[j] = 1;
		for (int after = 0; after < 2; after++) {
			tensor to = tensor_2d(y[after], eager ? NUM_BF16 : NUM_F32, 1, N), from = tensor_2d(in, eager ? NUM_BF16 : NUM_F32, 1, K);
			memset(y[after], 0, sizeof y[after]);
			OP(x, linear, .y = &to, .x = &from, .w = &w, .decode_rows = 1);
			assert_int_equal(x->status, NH_OK);
			memset(data, 0x11, sizeof data);
			memset(scales, 0x11, sizeof scales);
			w.data = w.block_scale = NULL;
		}
		assert_memory_equal(y[0], y[1], sizeof y[0]);
		assert_true(y[0][0] != 0);
		compared++;
		cpu_backend.release(x, &w);
		cpu_backend.close(x);
	}
	printf("%d products\n", compared);
	assert_int_equal(compared, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(packed_weights_are_all_that_stays), cmocka_unit_test(matrices_share_blocks),
	    cmocka_unit_test(the_source_is_not_read_again)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
