/* SPDX-License-Identifier: Apache-2.0
 * test_shapes.c: every published model's pattern, and every variant of the family, as a small checkpoint: written, loaded with a balanced ledger, and run in
 * both forms with the contract of every op checked. A row in a mixed step, with neighbours in other slots and pages, gives the bits that it gives alone.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"

typedef struct {
	const char *name;
	const char *published; /* a file of tests/data/configs whose pattern is used; NULL: the options' own */
	mk_options o;
	const char *profile;
} variant;

static const variant VARIANTS[] = {
    {"h-4b", "h-4b", {.format = MK_BF16}, "portable"},
    {"h-8b", "h-8b", {.format = MK_BF16}, "exact"},
    {"h-47b", "h-47b", {.format = MK_BF16, .list_form = true}, "portable"},
    {"h-56b", "h-56b", {.format = MK_BF16}, "portable"},
    {"nano-9b-v2", "nano-9b-v2", {.format = MK_FP8}, "hopper"},
    {"nano-12b-v2", "nano-12b-v2", {.format = MK_FP8}, "portable"},
    {"nano-4b", "nano-4b", {.format = MK_W4A16}, "portable"},
    {"nano-30b", "nano-30b", {.format = MK_NVFP4, .shards = 2}, "hopper"},
    {"nano-30b-exact", "nano-30b", {.format = MK_NVFP4}, "exact"},
    {"lightning", "lightning", {.format = MK_MIXED, .list_form = true, .mtp = true}, "portable"},
    {"super", "super", {.format = MK_SUPER, .latent = true, .mtp = true}, "hopper"},
    {"ultra", "ultra", {.format = MK_SUPER, .latent = true, .mtp = true, .shards = 3}, "portable"},
    {"puzzle", NULL, {.format = MK_FP8, .pattern = "ME*EM*E", .puzzle = true, .latent = true}, "portable"},
    {"f32", NULL, {.format = MK_BF16, .pattern = "ME*-", .f32_params = true}, "hopper"},
};

static const char *SMALL[] = {
    "hidden_size=64", "vocab_size=320", "chunk_size=8", "mamba_num_heads=4", "mamba_head_dim=16", "ssm_state_size=16", "n_groups=2"};

/* The letters of a published pattern, or NULL. Owned by *doc. */
static const char *pattern_of(const char *published, json_t **doc)
{
	char path[700];
	nh_error e = {0};
	nm_config c;
	snprintf(path, sizeof path, "%s/tests/data/configs/%s.json", NH_SOURCE_DIR, published);
	if (jsn_load_path(doc, path, JSON_LIMIT_CONFIG, &e) != NH_OK || nm_config_read(&c, *doc, path, NULL, &e) != NH_OK)
		fail_msg("%s", e.text);
	json_object_set_new(*doc, "letters", json_string(c.pattern));
	nm_config_deinit(&c);
	return json_string_value(json_object_get(*doc, "letters"));
}

#define ALONE 20
#define STEPS 3

static void fill(int32_t *ids, int n, uint64_t seed, int vocab)
{
	for (int i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(seed, (uint64_t)i, 3) % (uint64_t)vocab);
}

/* A prompt and a few decode steps of one sequence; with company, two neighbours prefill and decode in the same steps. */
static void run(model_bench *b, bool company, double *logits)
{
	int V = b->m->shape.vocab;
	int32_t ids[ALONE + STEPS], other[64];
	double *all = mem_array((size_t)BENCH_ROWS * (size_t)V, sizeof *all);
	fill(ids, ALONE + STEPS, 1, V);
	fill(other, 64, 2, V);
	bench_clear(b);
	const bench_segment mine = {.seq = 2, .slot_in = -1, .slot_out = 1, .origin = 0, .pos = 0, .count = ALONE, .ids = ids};
	const bench_segment first = {.seq = 0, .slot_in = -1, .slot_out = 3, .origin = 0, .pos = 0, .count = 13, .ids = other};
	if (company) {
		bench_step(b, NULL, 0, &first, 1, all);
		const bench_segment two[2] = {{.seq = 1, .slot_in = -1, .slot_out = 0, .origin = 0, .pos = 0, .count = 9, .ids = other + 20}, mine};
		const bench_row row = {.seq = 0, .slot_in = 3, .slot_out = 3, .pos = 13, .id = other[40]};
		bench_step(b, &row, 1, two, 2, all);
		memcpy(logits, all + (size_t)(1 + 9) * (size_t)V, (size_t)(ALONE * V) * sizeof *all);
	} else bench_step(b, NULL, 0, &mine, 1, logits);
	for (int i = 0; i < STEPS; i++) {
		const bench_row rows[2] = {{.seq = 0, .slot_in = 3, .slot_out = 2, .pos = 14, .id = other[i]},
		    {.seq = 2, .slot_in = 1, .slot_out = 1, .pos = ALONE + i, .id = ids[ALONE + i]}};
		bench_step(b, company ? rows : rows + 1, company ? 2 : 1, NULL, 0, all);
		memcpy(logits + (size_t)(ALONE + i) * (size_t)V, all + (company ? (size_t)V : 0), (size_t)V * sizeof *all);
	}
	mem_free(all);
}

static void one(const variant *v)
{
	json_t *doc = NULL;
	mk_options o = v->o;
	o.seed = 3;
	o.config = SMALL;
	o.config_count = ARRAY_LEN(SMALL);
	if (v->published) o.pattern = pattern_of(v->published, &doc);
	char name[64];
	snprintf(name, sizeof name, "shapes-%s", v->name);
	model_bench b;
	bench_open(&b, bench_checkpoint(name, &o), v->profile, 4, 16, 16, true);
	int V = b.m->shape.vocab, rows = ALONE + STEPS;
	double *alone = mem_array((size_t)(rows * V), sizeof *alone), *among = mem_array((size_t)(rows * V), sizeof *among);
	run(&b, false, alone);
	run(&b, true, among);
	for (int i = 0; i < rows * V; i++) assert_true(isfinite(alone[i]));
	double spread = 0;
	for (int i = 0; i < V; i++) spread = fmax(spread, fabs(alone[(rows - 1) * V + i]));
	assert_true(spread > 1e-3); /* logits that are all zero would prove nothing */
	for (int r = 0; r < rows; r++)
		if (memcmp(alone + (size_t)r * (size_t)V, among + (size_t)r * (size_t)V, (size_t)V * sizeof *alone) != 0)
			fail_msg("%s: row %d depends on its company", v->name, r);
	printf("LAW a row among others = the row alone: %-14s %3d layers, %-8s %d rows of %d equal bit for bit\n", v->name, b.m->shape.layers,
	    v->profile, rows, V);
	mem_free(alone);
	mem_free(among);
	bench_close(&b);
	json_decref(doc);
}

static void every_published_shape_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(VARIANTS); i++) one(&VARIANTS[i]);
	assert_int_equal(ARRAY_LEN(VARIANTS), 14);
}

/* The other form of the same text, to the bound that the scan's roundings give: exact profiles to double precision, eager ones measured. */
static void forms_agree(void **state)
{
	(void)state;
	static const struct {
		const char *profile;
		mk_format format;
		double bound;
	} CASES[] = {{"exact", MK_BF16, 1e-9}, {"exact", MK_MIXED, 1e-9}, {"portable", MK_BF16, 0.03}, {"portable", MK_MIXED, 0.08}};
	for (size_t n = 0; n < ARRAY_LEN(CASES); n++) {
		const mk_options o = {.format = CASES[n].format, .seed = 8, .pattern = "ME*M-M", .config = SMALL, .config_count = ARRAY_LEN(SMALL)};
		model_bench b;
		char name[32];
		snprintf(name, sizeof name, "forms-%zu", n);
		bench_open(&b, bench_checkpoint(name, &o), CASES[n].profile, 2, 16, 16, true);
		int V = b.m->shape.vocab;
		int32_t ids[24];
		double *given = mem_array((size_t)(24 * V), sizeof *given), *stepped = mem_array((size_t)(24 * V), sizeof *stepped);
		fill(ids, 24, 4, V);
		const int ends[1] = {24}, one_token[1] = {1};
		bench_clear(&b);
		bench_prefill(&b, 0, 0, 0, ids, 24, ends, 1, given);
		bench_clear(&b);
		bench_prefill(&b, 0, 0, 0, ids, 1, one_token, 1, stepped);
		for (int i = 1; i < 24; i++) {
			const bench_row row = {.seq = 0, .slot_in = 0, .slot_out = 0, .pos = i, .id = ids[i]};
			bench_step(&b, &row, 1, NULL, 0, stepped + (size_t)(i * V));
		}
		double difference = 0, size = 0;
		for (int i = 0; i < 24 * V; i++) {
			difference += (given[i] - stepped[i]) * (given[i] - stepped[i]);
			size += given[i] * given[i];
		}
		double relative = sqrt(difference / size);
		printf("LAW prefill form against decode form: %s, %s: relative L2 %.3g, bound %.3g\n", CASES[n].profile,
		    CASES[n].format == MK_BF16 ? "bf16" : "mixed", relative, CASES[n].bound);
		assert_true(relative <= CASES[n].bound);
		if (CASES[n].bound > 1e-3) assert_true(relative > 0); /* two forms, not one under two names */
		mem_free(given);
		mem_free(stepped);
		bench_close(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_published_shape_runs), cmocka_unit_test(forms_agree)};
	return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}
