/* SPDX-License-Identifier: Apache-2.0
 * test_lockstep.c: whole models, op by op, on ref and on every tier of every other arm: each op is handed what ref was handed, so what differs is that op's
 * own, at the shapes, magnitudes and layers of a real step: prompts in prefill form over an edge, decode rows alone and beside a prompt. The first line that
 * leaves its band (common/bands.c) is named by op, layer, weight and position.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/bands.h"
#include "common/model_bench.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* What one arm showed under one profile. */
typedef struct seen {
	bool eager;
	uint64_t outputs, elements, differ, integers;
	double worst[OP_COUNT];
	uint64_t outside;
	char first[400];
	const char *where;
	int T, first_pos; /* rows of the step; position of row 0, for the text */
} seen;

static void tell_first(seen *s, const lockstep_finding *f, int64_t line, double band)
{
	if (s->outside++) return;
	snprintf(s->first, sizeof s->first,
	    "%s: %s, layer %d, %s%s%s: line %lld of %lld (position %lld) is %.3g off, the band is %g; %llu of %lld elements differ", s->where,
	    op_name(f->op), f->layer, f->field, *f->weight ? ", " : "", f->weight, (long long)line, (long long)f->lines,
	    f->rows > 0 && f->lines % f->rows == 0 ? (long long)(s->first_pos + line / (f->lines / f->rows)) : -1LL, f->errors[line], band,
	    (unsigned long long)f->differ, (long long)(f->lines * f->width));
}

static void look(void *user, const lockstep_finding *f)
{
	seen *s = *(seen **)user;
	s->outputs++;
	s->elements += (uint64_t)(f->lines * f->width);
	s->differ += f->differ;
	s->integers += f->integers;
	const double band = band_of(f->op, s->eager);
	s->worst[f->op] = fmax(s->worst[f->op], f->error);
	for (int64_t r = 0; r < f->lines; r++)
		if (f->errors[r] > band) tell_first(s, f, r, band);
}

/* ref, and all the others. */
typedef struct bunch {
	model_bench b[TEST_ARMS];
	seen s[TEST_ARMS], *now;
	int arms;
	lockstep *l;
	double *logits;
} bunch;

static void bunch_open(bunch *p, const test_arm *arms, int count, const char *dir, const char *profile)
{
	memset(p, 0, sizeof *p);
	p->arms = count;
	const bool eager = num_profile(profile)->rounding == NUM_ROUND_EAGER;
	p->l = lockstep_create(LOCKSTEP_SEEDED, true, look, &p->now);
	assert_non_null(p->l);
	for (int i = 0; i < count; i++) {
		model_bench *b = &p->b[i];
		bench_open_on(b, &arms[i], 2, dir, profile, 3, 12, 64, false);
		b->x = i == 0 ? lockstep_first(p->l, b->arm) : lockstep_other(p->l, b->arm);
		assert_non_null(b->x);
		p->s[i].eager = eager;
	}
	p->logits = mem_array((size_t)BENCH_ROWS * (size_t)p->b[0].m->shape.vocab, sizeof *p->logits);
	assert_non_null(p->logits);
}

static void bunch_close(bunch *p)
{
	for (int i = 0; i < p->arms; i++) bench_close(&p->b[i]); /* destroys the wrapper too */
	lockstep_destroy(p->l);
	mem_free(p->logits);
}

static void bunch_step(bunch *p, const bench_row *rows, int row_count, const bench_segment *segs, int seg_count)
{
	lockstep_forget(p->l);
	for (int i = 0; i < p->arms; i++) {
		p->now = &p->s[i];
		p->now->first_pos = row_count ? rows[0].pos : segs[0].pos;
		bench_step(&p->b[i], rows, row_count, segs, seg_count, p->logits);
		if (i) assert_true(lockstep_rewind(p->l));
	}
}

/* A prompt in two pieces that meet at an edge, a short one beside decode rows, decode rows alone. */
static void steps(bunch *p, int prompt)
{
	enum { MOST = 180 };
	int32_t ids[MOST];
	const int V = p->b[0].m->shape.vocab, L = p->b[0].m->shape.chunk, edge = prompt / L * L;
	assert_true(prompt + 4 < MOST && edge > 0 && edge < prompt);
	for (int i = 0; i < MOST; i++) ids[i] = (int32_t)(rng_u64(3, (uint64_t)i, 9) % (uint64_t)V);
	bench_segment a = {.seq = 0, .slot_in = -1, .slot_out = 2, .pos = 0, .count = edge, .ids = ids};
	bunch_step(p, NULL, 0, &a, 1);
	const bench_segment both[2] = {{.seq = 0, .slot_in = 2, .slot_out = 2, .pos = edge, .count = prompt - edge, .ids = ids + edge},
	    {.seq = 1, .slot_in = -1, .slot_out = 0, .pos = 0, .count = 1, .ids = ids + 7}};
	bunch_step(p, NULL, 0, both, 2);
	for (int i = 0; i < 3; i++) {
		const bench_row rows[2] = {{.seq = 0, .slot_in = 2, .slot_out = 2, .pos = prompt + i, .id = ids[prompt + i]},
		    {.seq = 1, .slot_in = 0, .slot_out = 0, .pos = 1 + i, .id = ids[20 + i]}};
		const bench_segment fresh = {.seq = 2, .slot_in = -1, .slot_out = 1, .pos = 0, .count = 5, .ids = ids + 30};
		bunch_step(p, rows, i ? 2 : 1, &fresh, i == 2);
	}
}

static test_arm arms[TEST_ARMS];
static int arm_count;

static void on_every_tier(const char *name, const char *dir, int prompt, bool w4a4)
{
	static const char *const PROFILES[] = {"portable", "exact", "exact-wo"};
	static bunch p;
	uint64_t outside = 0;
	char first[sizeof p.s->first] = "";
	for (size_t k = 0; k < (w4a4 ? 3 : 2); k++) { /* without W4A4 weights both exact profiles are one */
		char where[TEST_ARMS][100];
		bunch_open(&p, arms, arm_count, dir, PROFILES[k]);
		for (int a = 0; a < arm_count; a++) {
			snprintf(where[a], sizeof where[a], "%s, %s, %s", name, arms[a].name, PROFILES[k]);
			p.s[a].where = where[a];
		}
		steps(&p, prompt);
		bunch_close(&p);
		for (int a = 1; a < arm_count; a++) {
			const seen *s = &p.s[a];
			int worst = 0;
			for (int op = 0; op < OP_COUNT; op++)
				if (s->worst[op] > s->worst[worst]) worst = op;
			printf("LOCKSTEP %s: %llu outputs, %llu elements, %llu differ; farthest line %.2g (%s)\n", where[a],
			    (unsigned long long)s->outputs, (unsigned long long)s->elements, (unsigned long long)s->differ, s->worst[worst],
			    op_name((op_id)worst));
			assert_true(s->outputs > 100 && s->elements > 10000 && s->integers > 0 && s->differ > 0);
			if (s->outside && outside == 0) memcpy(first, s->first, sizeof first);
			outside += s->outside;
		}
	}
	if (outside) fail_msg("%llu lines outside of their band; the first: %s", (unsigned long long)outside, first);
}

static void made_checkpoints(void **state)
{
	(void)state;
	static const char *const CONFIG[] = {"hidden_size=96", "vocab_size=200", "chunk_size=16", "mamba_num_heads=6", "mamba_head_dim=16",
	    "ssm_state_size=48", "n_groups=2", "max_position_embeddings=4096"};
	static const struct {
		const char *name;
		mk_format format;
	} CASES[] = {{"lockstep-bf16", MK_BF16}, {"lockstep-fp8", MK_FP8}, {"lockstep-nvfp4", MK_NVFP4}, {"lockstep-w4a16", MK_W4A16},
	    {"lockstep-mixed", MK_MIXED}};
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		if (SANITIZED && CASES[i].format != MK_MIXED) {
			printf("NOT RUN: %s: too slow under sanitizers\n", CASES[i].name);
			continue;
		}
		const mk_options o = {
		    .format = CASES[i].format, .seed = 40 + i, .pattern = "ME*-", .config = CONFIG, .config_count = ARRAY_LEN(CONFIG)};
		on_every_tier(CASES[i].name, bench_checkpoint(CASES[i].name, &o), 37, CASES[i].format != MK_BF16 && CASES[i].format != MK_FP8);
	}
}

static void built_in_model(void **state)
{
	(void)state;
	if (SANITIZED) NOT_RUN("too slow under sanitizers");
	on_every_tier("built-in", NH_SOURCE_DIR "/models/tiny", 140, false);
}

static void published(const char *name)
{
	char dir[700];
	snprintf(dir, sizeof dir, "%s/models/%s", NH_SHARED_DIR, name);
	if (SANITIZED) NOT_RUN("too slow under sanitizers");
	if (!file_exists(dir)) NOT_RUN("%s is not there", dir);
	on_every_tier(name, dir, 140, strstr(name, "w4a4") != NULL);
}

static void published_bf16(void **state) { (void)state, published("tiny-bf16"); }
static void published_fp8(void **state) { (void)state, published("tiny-fp8"); }
static void published_w4a4(void **state) { (void)state, published("tiny-nvfp4-w4a4"); }

static int find_arms(void **state)
{
	(void)state;
	arm_count = test_arms(arms);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(made_checkpoints), cmocka_unit_test(built_in_model),
	    cmocka_unit_test(published_bf16), cmocka_unit_test(published_fp8), cmocka_unit_test(published_w4a4)};
	return cmocka_run_group_tests_name("lockstep", tests, find_arms, NULL);
}
