/* SPDX-License-Identifier: Apache-2.0
 * test_loader.c: the closed world: each tensor consumed once, each parameter filled once, each scale applied once; otherwise a refusal that names
 * file and tensor. Checkpoints are written here, tensor by tensor.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "exec/wrap.h"
#include "load/loader.h"
#include "num/num_conv.h"

/* --- an arm that only holds memory --- */

static int imports, releases;

static nh_status arm_import(exec *x, weight *w, nh_error *e)
{
	(void)x, (void)e;
	w->bound = w;
	imports++;
	return NH_OK;
}

static void arm_release(exec *x, weight *w)
{
	(void)x, (void)w;
	releases++;
}

static void *arm_alloc(exec *x, size_t bytes)
{
	(void)x;
	return mem_alloc(bytes);
}

static void arm_free(exec *x, void *p)
{
	(void)x;
	mem_free(p);
}

static nh_status arm_upload(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	return NH_OK;
}

static const backend ARM = {.name = "holder",
    .default_profile = "portable",
    .host_memory = true,
    .import = arm_import,
    .release = arm_release,
    .alloc = arm_alloc,
    .free = arm_free,
    .upload = arm_upload};

/* --- a checkpoint --- */

typedef struct {
	const char *name;
	num_dtype type;
	int rank;
	int64_t shape[3];
	double value; /* every element; stored exactly as the type holds it */
} piece;

typedef struct {
	char dir[256];
	exec *x;
	st_set *set;
	quant_config *quant;
	json_t *config;
	loader *l;
	char notices[4096];
	int told;
} bench;

static void hear(void *user, nh_log_level level, const char *text)
{
	bench *b = user;
	(void)level;
	b->told++;
	snprintf(b->notices + strlen(b->notices), sizeof b->notices - strlen(b->notices), "%s\n", text);
}

static void write_pieces(const char *path, const piece *p, size_t count)
{
	st_writer *w;
	nh_error e = {0};
	if (st_writer_open(&w, path, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < count; i++)
		if (st_writer_add(w, p[i].name, p[i].type, p[i].rank, p[i].shape, &e) != NH_OK) fail_msg("%s", e.text);
	if (st_writer_begin(w, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < count; i++) {
		int64_t n = 1;
		for (int r = 0; r < p[i].rank; r++) n *= p[i].shape[r];
		for (int64_t k = 0; k < n; k++) {
			uint8_t raw[8] = {0};
			if (p[i].type == NUM_U8 || p[i].type == NUM_I32) raw[0] = (uint8_t)p[i].value;
			else num_store(p[i].type, raw, 0, p[i].value);
			st_writer_put(w, raw, num_bytes(p[i].type));
		}
	}
	if (st_writer_commit(w, &e) != NH_OK) fail_msg("%s", e.text);
}

static logger sink;

static void open_bench(bench *b, const char *profile, const char *quantisation, const piece *p, size_t count)
{
	char path[300];
	nh_error e = {0};
	memset(b, 0, sizeof *b);
	imports = releases = 0;
	snprintf(b->dir, sizeof b->dir, "%s/tests/load-XXXXXX", NH_BINARY_DIR);
	assert_non_null(mkdtemp(b->dir));
	snprintf(path, sizeof path, "%s/model.safetensors", b->dir);
	write_pieces(path, p, count);
	b->x = dry_create(num_profile(profile), NUM_F64);
	assert_non_null(b->x);
	char text[1024];
	snprintf(text, sizeof text, "{%s}", quantisation);
	if (jsn_load_text(&b->config, text, strlen(text), "config.json", &e) != NH_OK ||
	    quant_open(&b->quant, b->config, "config.json", NULL, NULL, &e) != NH_OK || st_set_open(&b->set, b->dir, NULL, &e) != NH_OK)
		fail_msg("%s", e.text);
	sink = (logger){.fn = hear, .user = b, .level = NH_LOG_NOTICE};
	const loader_options o = {.set = b->set, .quant = b->quant, .x = b->x, .arm = &ARM, .log = &sink, .files_name = "checkpoint"};
	if (loader_open(&b->l, &o, &e) != NH_OK) fail_msg("%s", e.text);
}

static void close_bench(bench *b)
{
	char path[300];
	loader_close(b->l);
	assert_int_equal(imports, releases);
	st_set_close(b->set);
	quant_close(b->quant);
	json_decref(b->config);
	dry_destroy(b->x);
	snprintf(path, sizeof path, "%s/model.safetensors", b->dir);
	unlink(path);
	rmdir(b->dir);
	assert_int_equal(mem_live(), 0);
}

/* loader_finish must refuse, and its text must hold each of the words. */
static void refused(bench *b, const char *const *words)
{
	nh_error e = {0};
	assert_int_equal(loader_finish(b->l, &e), NH_ERR_TENSOR);
	printf("refused: %s\n", e.text);
	for (; *words; words++)
		if (!strstr(e.text, *words)) fail_msg("\"%s\" is not in: %s", *words, e.text);
}

#define REFUSED(b, ...) refused(b, (const char *const[]){__VA_ARGS__, NULL})

#define FP8 "\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\", \"ignore\": [\"lm_head*\"]}"
#define PLAIN ""

static const int64_t vec8[1] = {8};

static void a_balanced_checkpoint_loads(void **state)
{
	(void)state;
	const piece p[] = {{"a.weight", NUM_E4M3, 2, {4, 8}, 0.5}, {"a.weight_scale", NUM_F32, 0, {0}, 0.25},
	    {"a.input_scale", NUM_F32, 1, {1}, 2.0}, {"v", NUM_BF16, 1, {8}, 1.5}};
	bench b;
	nh_error e = {0};
	weight w;
	tensor v;
	open_bench(&b, "portable", FP8, p, ARRAY_LEN(p));
	assert_int_equal(load_weight(b.l, "a", 4, 8, &w, &e), NH_OK);
	assert_int_equal(load_param(b.l, "v", LOAD_MODEL, 1, vec8, &v, &e), NH_OK);
	assert_int_equal(loader_finish(b.l, &e), NH_OK);
	assert_int_equal(w.scheme, NUM_SCHEME_FP8);
	assert_true(w.scale == 0.25f && w.input_scale == 2.0f && w.bound != NULL && imports == 1);
	assert_true(num_load(v.dtype, v.data, 7) == 1.5);
	assert_int_equal(loader_scheme_bytes(b.l)[NUM_SCHEME_FP8], 32 + 4 + 4);
	assert_int_equal(b.told, 0);
	close_bench(&b);
}

static void each_imbalance_is_named(void **state)
{
	(void)state;
	const piece p[] = {
	    {"a.weight", NUM_BF16, 2, {4, 8}, 1}, {"b", NUM_BF16, 1, {8}, 1}, {"c", NUM_BF16, 1, {8}, 1}, {"d", NUM_I32, 1, {8}, 0}};
	bench b;
	nh_error e = {0};
	weight w;
	tensor t;
	open_bench(&b, "portable", PLAIN, p, ARRAY_LEN(p));
	load_weight(b.l, "a", 4, 9, &w, &e);
	load_weight(b.l, "nowhere", 4, 8, &w, &e);
	load_param(b.l, "b", LOAD_MODEL, 1, vec8, &t, &e);
	load_param(b.l, "b", LOAD_MODEL, 1, vec8, &t, &e);
	load_param(b.l, "d", LOAD_MODEL, 1, vec8, &t, &e);
	REFUSED(&b, "1 missing", "2 wrong", "1 asked for twice", "1 not understood",
	    "model.safetensors: tensor a.weight: shape [4, 8], config needs [4, 9]", "tensor nowhere.weight: not in the files",
	    "tensor b: asked for twice", "tensor d: type", "tensor c: nothing in the configuration asks for it");
	assert_true(b.told >= 5);
	close_bench(&b);
}

static void one_imbalance_is_one_line(void **state)
{
	(void)state;
	const piece p[] = {{"backbone.layers.3.mixer.in_proj.weight", NUM_BF16, 2, {16, 7}, 1}};
	bench b;
	nh_error e = {0};
	weight w;
	open_bench(&b, "portable", PLAIN, p, 1);
	load_weight(b.l, "backbone.layers.3.mixer.in_proj", 16, 8, &w, &e);
	assert_int_equal(loader_finish(b.l, &e), NH_ERR_TENSOR);
	assert_string_equal(e.text, "model.safetensors: tensor backbone.layers.3.mixer.in_proj.weight: shape [16, 7], config needs [16, 8]");
	close_bench(&b);
}

static void at_most_ten_of_a_kind_are_listed(void **state)
{
	(void)state;
	const piece p[] = {{"a", NUM_BF16, 1, {8}, 1}};
	bench b;
	nh_error e = {0};
	tensor t;
	open_bench(&b, "portable", PLAIN, p, 1);
	load_param(b.l, "a", LOAD_MODEL, 1, vec8, &t, &e);
	for (int i = 0; i < 25; i++) {
		char name[16];
		snprintf(name, sizeof name, "m%d", i);
		load_param(b.l, name, LOAD_MODEL, 1, vec8, &t, &e);
	}
	REFUSED(&b, "25 missing", "tensor m0:", "tensor m9:");
	assert_null(strstr(b.notices, "m10"));
	assert_int_equal(b.told, 10);
	close_bench(&b);
}

static void a_scale_must_be_there_and_positive(void **state)
{
	(void)state;
	static const struct {
		piece p[4];
		size_t count;
		const char *word;
	} CASES[] = {
	    {{{"a.weight", NUM_E4M3, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F32, 0, {0}, 1}}, 2, "tensor a.input_scale: not in the files"},
	    {{{"a.weight", NUM_E4M3, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F32, 0, {0}, 0}, {"a.input_scale", NUM_F32, 0, {0}, 1}}, 3,
	        "a.weight_scale: value 0, expected a positive number"},
	    {{{"a.weight", NUM_E4M3, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F32, 0, {0}, 1}, {"a.input_scale", NUM_F32, 0, {0}, -2}}, 3,
	        "a.input_scale: value -2"},
	    {{{"a.weight", NUM_E4M3, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F32, 1, {2}, 1}, {"a.input_scale", NUM_F32, 0, {0}, 1}}, 3,
	        "a.weight_scale: shape [2], config needs []"},
	    {{{"a.weight", NUM_BF16, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F32, 0, {0}, 1}, {"a.input_scale", NUM_F32, 0, {0}, 1}}, 3,
	        "a.weight: type bf16, the configuration (fp8) needs e4m3"},
	    {{{"a.weight", NUM_E4M3, 2, {4, 16}, 1}, {"a.weight_scale", NUM_F16, 0, {0}, 1}, {"a.input_scale", NUM_F32, 0, {0}, 1}}, 3,
	        "a.weight_scale: type f16"},
	};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		bench b;
		nh_error e = {0};
		weight w;
		open_bench(&b, "portable", FP8, CASES[i].p, CASES[i].count);
		load_weight(b.l, "a", 4, 16, &w, &e);
		REFUSED(&b, CASES[i].word);
		assert_int_equal(imports, 0);
		close_bench(&b);
	}
}

/* The exclude list says lm_head* is plain. With all scales in the file the file decides, and says so; a plain head is plain; codes without their
 * scales are refused. (vLLM issue 45102) */
static void an_excluded_head_follows_the_file(void **state)
{
	(void)state;
	const piece codes[] = {{"lm_head.weight", NUM_U8, 2, {4, 8}, 0x21}, {"lm_head.weight_scale", NUM_E4M3, 2, {4, 1}, 2},
	    {"lm_head.weight_scale_2", NUM_F32, 0, {0}, 0.5}, {"lm_head.input_scale", NUM_F32, 0, {0}, 1}};
	const piece plain[] = {{"lm_head.weight", NUM_BF16, 2, {4, 16}, 1}};
	for (int i = 0; i < 4; i++) {
		bench b;
		nh_error e = {0};
		weight w;
		open_bench(&b, "portable", FP8, i == 2 ? plain : codes, i == 0 ? 4 : i == 1 ? 3 : i == 2 ? 1 : 2);
		assert_int_equal(load_weight(b.l, "lm_head", 4, 16, &w, &e), NH_OK);
		if (i == 3) REFUSED(&b, "lm_head.weight");
		else {
			assert_int_equal(loader_finish(b.l, &e), NH_OK);
			assert_int_equal(w.scheme, i == 0 ? NUM_SCHEME_NVFP4 : i == 1 ? NUM_SCHEME_W4A16 : NUM_SCHEME_NONE);
			assert_int_equal(b.told, i == 2 ? 0 : 1);
		}
		close_bench(&b);
	}
}

/* Table and router are plain in this family: a configuration that lists them is not read as if it had not. */
static void a_listed_table_or_router_is_refused(void **state)
{
	(void)state;
	static const char *const LISTED =
	    "\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", \"quantized_layers\": {"
	    "\"backbone.embeddings\": {\"quant_algo\": \"FP8\"}, \"backbone.layers.1.mixer.gate\": {\"quant_algo\": \"FP8\"}}}";
	const piece p[] = {
	    {"backbone.embeddings.weight", NUM_BF16, 2, {4, 16}, 1}, {"backbone.layers.1.mixer.gate.weight", NUM_BF16, 2, {4, 16}, 1}};
	bench b;
	nh_error e = {0};
	tensor t;
	weight w;
	open_bench(&b, "portable", LISTED, p, ARRAY_LEN(p));
	assert_int_equal(load_table(b.l, "backbone.embeddings.weight", 4, 16, &t, &e), NH_OK);
	assert_int_equal(load_router(b.l, "backbone.layers.1.mixer.gate", 4, 16, &w, &e), NH_OK);
	REFUSED(&b, "2 wrong", "backbone.embeddings: configured as fp8", "backbone.layers.1.mixer.gate: configured as fp8");
	close_bench(&b);
}

static void parameters_follow_the_profile(void **state)
{
	(void)state;
	const double off = 1.0 + 0x1p-12; /* an f32 that bf16 cannot hold */
	const piece p[] = {{"model", NUM_F32, 1, {8}, 1.0 + 0x1p-12}, {"kept", NUM_F32, 1, {8}, 1.0 + 0x1p-12},
	    {"log", NUM_F32, 1, {8}, 1.0 + 0x1p-12}, {"g.weight", NUM_F32, 2, {4, 16}, 1.0 + 0x1p-12},
	    {"m.weight", NUM_F32, 2, {4, 16}, 1.0 + 0x1p-12}, {"k", NUM_F32, 1, {1}, 1.0 + 0x1p-12}};
	for (int exact = 0; exact < 2; exact++) {
		bench b;
		nh_error e = {0};
		tensor model, kept, logs;
		weight router, plain;
		float k;
		bool found;
		double row[16];
		open_bench(&b, exact ? "exact" : "portable", PLAIN, p, ARRAY_LEN(p));
		load_param(b.l, "model", LOAD_MODEL, 1, vec8, &model, &e);
		load_param(b.l, "kept", LOAD_F32, 1, vec8, &kept, &e);
		load_param(b.l, "log", LOAD_NEG_EXP, 1, vec8, &logs, &e);
		load_router(b.l, "g", 4, 16, &router, &e);
		load_weight(b.l, "m", 4, 16, &plain, &e);
		load_kv_scale(b.l, "k", 1, &k, &found, &e);
		assert_int_equal(loader_finish(b.l, &e), NH_OK);
		assert_true(num_load(model.dtype, model.data, 3) == (exact ? off : 1.0));
		assert_true(num_load(kept.dtype, kept.data, 3) == off);
		assert_true(num_load(logs.dtype, logs.data, 3) == (exact ? -exp(off) : -(double)(float)exp(off)));
		weight_decode_row(&router, 3, row);
		assert_true(row[15] == (exact ? off : 1.0));
		weight_decode_row(&plain, 3, row);
		assert_true(row[15] == (exact ? off : 1.0));
		assert_true(found && k == (exact ? (float)off : 1.0f));
		close_bench(&b);
	}
}

static void a_scale_of_the_cache_may_be_absent(void **state)
{
	(void)state;
	const piece p[] = {{"a", NUM_BF16, 1, {8}, 1}};
	bench b;
	nh_error e = {0};
	tensor t;
	float k;
	bool found;
	open_bench(&b, "portable", PLAIN, p, 1);
	load_param(b.l, "a", LOAD_MODEL, 1, vec8, &t, &e);
	assert_int_equal(load_kv_scale(b.l, "k", 1, &k, &found, &e), NH_OK);
	assert_true(!found && k == 1.0f);
	assert_int_equal(loader_finish(b.l, &e), NH_OK);
	close_bench(&b);
}

static void what_is_not_used_is_accounted_for(void **state)
{
	(void)state;
	const piece p[] = {{"mtp.a.weight", NUM_BF16, 2, {4, 16}, 1}, {"mtp.n", NUM_BF16, 1, {8}, 1}, {"odd", NUM_BF16, 1, {3}, 1}};
	bench b;
	nh_error e = {0};
	open_bench(&b, "portable", PLAIN, p, ARRAY_LEN(p));
	load_skip_weight(b.l, "mtp.a", 4, 16, &e);
	load_skip_param(b.l, "mtp.n", 1, vec8, &e);
	load_ignore(b.l, "odd", "a test", &e);
	load_ignore(b.l, "absent", "a test", &e);
	assert_int_equal(loader_finish(b.l, &e), NH_OK);
	assert_int_equal(imports, 0);
	assert_non_null(strstr(b.notices, "odd is not used: a test"));
	assert_int_equal(loader_param_bytes(b.l), 0);
	close_bench(&b);
}

static void a_shifted_name_is_refused(void **state)
{
	(void)state;
	const piece p[] = {{"mtp.layers.1.eh_proj.weight", NUM_BF16, 2, {4, 16}, 1}};
	bench b;
	nh_error e = {0};
	open_bench(&b, "portable", PLAIN, p, 1);
	load_skip_weight(b.l, "mtp.layers.0.eh_proj", 4, 16, &e);
	REFUSED(&b, "mtp.layers.0.eh_proj.weight: not in the files", "mtp.layers.1.eh_proj.weight: nothing in the configuration asks for it");
	close_bench(&b);
}

/* Without memory every call fails cleanly, wherever it happens. */
static void out_of_memory_leaks_nothing(void **state)
{
	(void)state;
	const piece p[] = {{"a.weight", NUM_F32, 2, {4, 16}, 1}, {"v", NUM_F32, 1, {8}, 1}};
	long failures = 0;
	for (size_t n = 0; n < 40; n++) {
		bench b;
		nh_error e = {0};
		weight w;
		tensor t;
		open_bench(&b, "portable", PLAIN, p, 2);
		mem_fail_after(n);
		nh_status s = load_weight(b.l, "a", 4, 16, &w, &e);
		if (s == NH_OK) s = load_param(b.l, "v", LOAD_MODEL, 1, vec8, &t, &e);
		mem_fail_after(SIZE_MAX);
		if (s != NH_OK) {
			assert_int_equal(s, NH_ERR_NOMEM);
			failures++;
		} else assert_int_equal(loader_finish(b.l, &e), NH_OK);
		close_bench(&b);
		if (s == NH_OK) break;
		assert_true(n < 39);
	}
	printf("%ld allocations failed in turn\n", failures);
	assert_true(failures >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_balanced_checkpoint_loads),
	    cmocka_unit_test(each_imbalance_is_named),
	    cmocka_unit_test(one_imbalance_is_one_line),
	    cmocka_unit_test(at_most_ten_of_a_kind_are_listed),
	    cmocka_unit_test(a_scale_must_be_there_and_positive),
	    cmocka_unit_test(an_excluded_head_follows_the_file),
	    cmocka_unit_test(a_listed_table_or_router_is_refused),
	    cmocka_unit_test(parameters_follow_the_profile),
	    cmocka_unit_test(a_scale_of_the_cache_may_be_absent),
	    cmocka_unit_test(what_is_not_used_is_accounted_for),
	    cmocka_unit_test(a_shifted_name_is_refused),
	    cmocka_unit_test(out_of_memory_leaks_nothing),
	};
	return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
