/* SPDX-License-Identifier: Apache-2.0
 * test_conformance.c: every op, every arm of this build, every profile that both have, against ref; and every mutant against the band.
 * The error of an output is the largest, over its rows, of |difference| / |ref's row| (a row far quieter than its tensor is measured
 * against the tensor); a difference in integers is an error of 1. With --record COMMIT DATE the numbers go to
 * records/band/ref.json.
 */
#include <stdlib.h>

#include "conf.h"

#define SEED 20240607u
/* Between an f32 arm's rounding (k = 160 terms: some 1e-6) and the smallest mutant. Bands of eager profiles, whose outputs are bf16, are
 * set when an arm exists that can differ. */
#define BAND 3e-5

static const conf_case *const FAMILIES[] = {CONF_BASIC, CONF_SSM, CONF_ATTN, CONF_MOE, CONF_SAMPLE};
#define FAMILY_COUNT 5

typedef struct row {
	int cases;
	uint64_t elements; /* compared on arms */
	double noise;      /* the largest over arms and profiles */
	const char *names[CONF_MUTANTS];
	double error[CONF_MUTANTS]; /* of a mutant: the largest over the corpus */
	int mutants;
} row;
static row rows[OP_COUNT];

static void run(conf *c, const conf_case *k, const backend *arm, const char *profile, int variant, const char *mutant)
{
	*c = (conf){.arm = arm, .variant = variant, .active = mutant, .seed = rng_u64(SEED, k->op, (uint64_t)variant)};
	arena_init(&c->mem);
	nh_error e = {0};
	if (arm->open(&c->x, &(backend_options){.num = num_profile(profile)}, &e) != NH_OK) fail_msg("%s: %s", arm->name, e.text);
	k->run(c);
	if (exec_status(c->x, &e) != NH_OK) fail_msg("%s: %s: %s", arm->name, op_name(k->op), e.text);
	assert_true(c->x->counters.op[k->op].calls > 0); /* the case calls what it says */
	assert_true(c->outputs > 0);
}

static void done(conf *c)
{
	for (int i = 0; i < c->imported; i++) c->arm->release(c->x, c->weights[i]);
	for (int i = 0; i < c->devices; i++) c->arm->free(c->x, c->device[i]);
	c->arm->close(c->x);
	arena_deinit(&c->mem);
}

static double compare(const conf *a, const conf *ref, uint64_t *elements)
{
	double worst = 0;
	assert_int_equal(a->outputs, ref->outputs);
	for (int o = 0; o < ref->outputs; o++) {
		const conf_output *x = &a->out[o], *y = &ref->out[o];
		double all = 0;
		assert_true(x->rows == y->rows && x->width == y->width && x->rows * x->width > 0);
		for (int64_t i = 0; i < y->rows * y->width; i++)
			if (isfinite(y->v[i])) all += y->v[i] * y->v[i];
		for (int64_t r = 0; r < y->rows; r++) {
			double far = 0, size = 1e-6 * all / (double)y->rows;
			for (int64_t i = r * y->width; i < (r + 1) * y->width; i++) {
				*elements += 1;
				if (x->v[i] == y->v[i] || (isnan(x->v[i]) && isnan(y->v[i]))) { /* infinities too */
					size += isfinite(y->v[i]) ? y->v[i] * y->v[i] : 0;
					continue;
				}
				double d = y->exact || !isfinite(x->v[i]) || !isfinite(y->v[i]) ? INFINITY : x->v[i] - y->v[i];
				far += d * d, size += isfinite(y->v[i]) ? y->v[i] * y->v[i] : 0;
			}
			double e = far == 0 ? 0 : isinf(far) || size == 0 ? 1 : sqrt(far / size);
			worst = e > worst ? e : worst;
		}
	}
	return worst;
}

static bool has(const backend *arm, const char *profile)
{
	exec *x = NULL;
	if (arm->open(&x, &(backend_options){.num = num_profile(profile)}, NULL) != NH_OK) return false;
	arm->close(x);
	return true;
}

static void arms_agree_with_ref(void **state)
{
	(void)state;
	const backend *ref = backend_find("ref");
	uint64_t elements = 0;
	int comparisons = 0, arms = 0, profiles = 0;
	assert_non_null(ref);
	for (int b = 0; backend_at(b); b++, arms++)
		for (int p = 0; num_profile_at(p); p++) {
			const char *profile = num_profile_at(p)->name;
			if (!has(ref, profile) || !has(backend_at(b), profile)) continue;
			profiles++;
			for (int f = 0; f < FAMILY_COUNT; f++)
				for (const conf_case *k = FAMILIES[f]; k->run; k++)
					for (int v = 0; v < k->variants; v++) {
						conf want, got;
						run(&want, k, ref, profile, v, NULL);
						run(&got, k, backend_at(b), profile, v, NULL);
						const uint64_t before = elements;
						double noise = compare(&got, &want, &elements);
						row *r = &rows[k->op];
						r->cases++, r->elements += elements - before;
						r->noise = noise > r->noise ? noise : r->noise;
						if (backend_at(b) == ref && noise != 0) fail_msg("ref is not itself: %s variant %d, %g", op_name(k->op), v, noise);
						if (!(noise <= BAND))
							fail_msg("%s: %s %s variant %d: %g above the band", backend_at(b)->name, profile, op_name(k->op), v, noise);
						comparisons++;
						done(&want), done(&got);
					}
		}
	print_message("%d arms, %d profiles, %d comparisons, %llu elements\n", arms, profiles, comparisons, (unsigned long long)elements);
	assert_true(arms >= 1 && profiles >= 4 && comparisons >= 4 * OP_COUNT && elements > 50000);
	for (int op = 0; op < OP_COUNT; op++)
		if (rows[op].cases == 0 || rows[op].elements == 0) fail_msg("no assertion made: %s", op_name((op_id)op));
}

static void mutants_are_seen(void **state)
{
	(void)state;
	static const char *const PROFILES[] = {"exact", "exact-wo"};
	const backend *ref = backend_find("ref");
	int mutants = 0, runs = 0;
	uint64_t elements = 0;
	for (int p = 0; p < 2; p++)
		for (int f = 0; f < FAMILY_COUNT; f++)
			for (const conf_case *k = FAMILIES[f]; k->run; k++)
				for (int v = 0; v < k->variants; v++) {
					conf want, got;
					run(&want, k, ref, PROFILES[p], v, NULL);
					for (int m = 0; m < want.mutants; m++, runs++) {
						row *r = &rows[k->op];
						run(&got, k, ref, PROFILES[p], v, want.names[m]);
						double error = compare(&got, &want, &elements);
						done(&got);
						int at = 0;
						while (at < r->mutants && strcmp(r->names[at], want.names[m]) != 0) at++;
						assert_true(at < CONF_MUTANTS);
						if (at == r->mutants) r->names[r->mutants++] = want.names[m], mutants++;
						r->error[at] = error > r->error[at] ? error : r->error[at];
					}
					done(&want);
				}
	int hidden = 0;
	for (int op = 0; op < OP_COUNT; op++) {
		const row *r = &rows[op];
		int least = 0;
		if (r->mutants < 2) fail_msg("%s has %d mutants, expected at least 2", op_name((op_id)op), r->mutants);
		for (int m = 0; m < r->mutants; m++) {
			if (r->error[m] < r->error[least]) least = m;
			if (!(r->error[m] > BAND))
				hidden++, print_message("%s: mutant '%s' is below the band: %g\n", op_name((op_id)op), r->names[m], r->error[m]);
		}
		print_message("%-13s noise %-8.2g smallest of %2d mutants %-8.2g (%s)\n", op_name((op_id)op), r->noise, r->mutants, r->error[least],
		    r->names[least]);
	}
	print_message("%d mutants, %d runs, %llu elements\n", mutants, runs, (unsigned long long)elements);
	assert_true(mutants >= 2 * OP_COUNT);
	assert_int_equal(hidden, 0);
}

static int record(const char *commit, const char *date)
{
	FILE *f = fopen(NH_SOURCE_DIR "/records/band/ref.json", "w");
	if (!f) return perror("records/band/ref.json"), 1;
	fprintf(f,
	    "{\n  \"tool\": \"conformance_test_conformance --record\", \"commit\": \"%s\", \"date\": \"%s\", \"arm\": \"ref\", \"seed\": %u, "
	    "\"compiler\": \"%s\", \"band\": %g,\n",
	    commit, date, SEED, __VERSION__, BAND);
	fprintf(f, "  \"error\": \"largest over rows of |difference| / |row of ref|; of a mutant: in the corpus case that shows it best\",\n  "
	           "\"ops\": {\n");
	for (int op = 0; op < OP_COUNT; op++) {
		const row *r = &rows[op];
		fprintf(f, "    \"%s\": {\"comparisons\": %d, \"elements\": %llu, \"noise\": %.3g, \"mutants\": {", op_name((op_id)op), r->cases,
		    (unsigned long long)r->elements, r->noise);
		for (int m = 0; m < r->mutants; m++) fprintf(f, "%s\"%s\": %.3g", m ? ", " : "", r->names[m], r->error[m]);
		fprintf(f, "}}%s\n", op + 1 < OP_COUNT ? "," : "");
	}
	fprintf(f, "  }\n}\n");
	return fclose(f) != 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(arms_agree_with_ref), cmocka_unit_test(mutants_are_seen)};
	int failed = cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
	if (!failed && argc == 4 && strcmp(argv[1], "--record") == 0) return record(argv[2], argv[3]);
	return failed;
}
