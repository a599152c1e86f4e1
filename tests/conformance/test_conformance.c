/* SPDX-License-Identifier: Apache-2.0
 * test_conformance.c: every op, every arm of this build, every tier that this machine has, every profile that both have, against ref; and
 * every mutant against the band. The error of an output is the largest, over its rows, of |difference| / |ref's row| (a row far quieter
 * than its tensor is measured against the tensor); a difference in integers is an error of 1. The bands are common/bands.c. With --record COMMIT
 * DATE the numbers go to records/band/<arm or tier>.json.
 */
#include <stdlib.h>

#include "conf.h"

enum { PLAIN = CONF_PLAIN, EAGER = CONF_EAGER, KINDS = CONF_KINDS };
static const char *const KIND[KINDS] = {"exact", "eager"};

static const conf_case *const FAMILIES[] = {CONF_BASIC, CONF_SSM, CONF_ATTN, CONF_MOE, CONF_SAMPLE};
#define FAMILY_COUNT 5

/* What was seen of one op on one tier of one arm. */
typedef struct row {
	int cases;
	uint64_t elements;
	double noise[KINDS];       /* the largest over profiles */
	uint64_t reference, calls; /* of the calls, those that ran ref's op */
} row;
typedef struct tier {
	const backend *arm;
	const char *isa; /* NULL: the arm has one tier */
	bool has[KINDS];
	row ops[OP_COUNT];
} tier;
#define TIERS 8
static tier tiers[TIERS];
static int tier_count;

/* What was seen of the mutants of one op, on ref. */
typedef struct mutant_row {
	const char *names[CONF_MUTANTS];
	double error[KINDS][CONF_MUTANTS]; /* the largest over the corpus */
	int count;
} mutant_row;
static mutant_row mutants[OP_COUNT];

static const char *tier_name(const tier *t) { return t->isa ? t->isa : t->arm->name; }

static bool has(const backend *arm, const char *profile)
{
	exec *x = NULL;
	if (arm->open(&x, &(backend_options){.num = num_profile(profile), .threads = 1}, NULL) != NH_OK) return false;
	arm->close(x);
	return true;
}

static uint64_t compare_case(tier *t, const char *profile, const conf_case *k, int variant)
{
	conf want, got;
	uint64_t elements = 0;
	conf_run(&want, k, backend_find("ref"), NULL, profile, variant, NULL);
	conf_run(&got, k, t->arm, t->isa, profile, variant, NULL);
	const int kind = conf_kind(profile);
	double noise = conf_compare(&got, &want, &elements);
	row *r = &t->ops[k->op];
	r->cases++, r->elements += elements;
	r->calls += got.x->counters.op[k->op].calls, r->reference += got.x->counters.op[k->op].reference_calls;
	r->noise[kind] = noise > r->noise[kind] ? noise : r->noise[kind];
	if (t->arm == want.arm && noise != 0) fail_msg("ref is not itself: %s variant %d, %g", op_name(k->op), variant, noise);
	if (!(noise <= conf_band(k->op, kind)))
		fail_msg("%s: %s %s variant %d: %g above the band", tier_name(t), profile, op_name(k->op), variant, noise);
	conf_done(&want), conf_done(&got);
	return elements;
}

static void arms_agree_with_ref(void **state)
{
	(void)state;
	const backend *ref = backend_find("ref");
	uint64_t elements = 0;
	int comparisons = 0, profiles = 0;
	assert_non_null(ref);
	for (int b = 0; backend_at(b); b++) {
		const backend *arm = backend_at(b);
		for (int i = 0; arm->tier_at ? arm->tier_at(i) != NULL : i == 0; i++) {
			assert_true(tier_count < TIERS);
			tiers[tier_count++] = (tier){.arm = arm, .isa = arm->tier_at ? arm->tier_at(i) : NULL};
		}
	}
	for (int i = 0; i < tier_count; i++)
		for (int p = 0; num_profile_at(p); p++) {
			const char *profile = num_profile_at(p)->name;
			if (!has(ref, profile) || !has(tiers[i].arm, profile)) continue;
			profiles++;
			tiers[i].has[conf_kind(profile)] = true;
			for (int f = 0; f < FAMILY_COUNT; f++)
				for (const conf_case *k = FAMILIES[f]; k->run; k++)
					for (int v = 0; v < k->variants; v++, comparisons++) elements += compare_case(&tiers[i], profile, k, v);
		}
	print_message(
	    "%d tiers, %d profiles, %d comparisons, %llu elements\n", tier_count, profiles, comparisons, (unsigned long long)elements);
	assert_true(tier_count >= 1 && profiles >= 4 && comparisons >= 4 * OP_COUNT && elements > 50000);
	for (int i = 0; i < tier_count; i++) {
		uint64_t reference = 0, calls = 0;
		for (int op = 0; op < OP_COUNT; op++) {
			const row *r = &tiers[i].ops[op];
			if (r->cases == 0 || r->elements == 0) fail_msg("no assertion made: %s", op_name((op_id)op));
			reference += r->reference, calls += r->calls;
		}
		print_message("%-9s %llu of %llu calls ran the reference op\n", tier_name(&tiers[i]), (unsigned long long)reference,
		    (unsigned long long)calls);
	}
}

static void run_mutants(const conf_case *k, const char *profile, int variant, int *runs, uint64_t *elements)
{
	const backend *ref = backend_find("ref");
	const int kind = conf_kind(profile);
	conf want, got;
	conf_run(&want, k, ref, NULL, profile, variant, NULL);
	for (int m = 0; m < want.mutants; m++, ++*runs) {
		mutant_row *r = &mutants[k->op];
		conf_run(&got, k, ref, NULL, profile, variant, want.names[m]);
		double error = conf_compare(&got, &want, elements);
		conf_done(&got);
		int at = 0;
		while (at < r->count && strcmp(r->names[at], want.names[m]) != 0) at++;
		assert_true(at < CONF_MUTANTS);
		if (at == r->count) r->names[r->count++] = want.names[m];
		r->error[kind][at] = error > r->error[kind][at] ? error : r->error[kind][at];
	}
	conf_done(&want);
}

static void mutants_are_seen(void **state)
{
	(void)state;
	static const char *const PROFILES[] = {"exact", "exact-wo", "portable"};
	int count = 0, runs = 0, hidden = 0;
	uint64_t elements = 0;
	for (size_t p = 0; p < sizeof PROFILES / sizeof *PROFILES; p++)
		for (int f = 0; f < FAMILY_COUNT; f++)
			for (const conf_case *k = FAMILIES[f]; k->run; k++)
				for (int v = 0; v < k->variants; v++) run_mutants(k, PROFILES[p], v, &runs, &elements);
	for (int op = 0; op < OP_COUNT; op++) {
		const mutant_row *r = &mutants[op];
		if (r->count < 2) fail_msg("%s has %d mutants, expected at least 2", op_name((op_id)op), r->count);
		count += r->count;
		for (int kind = 0; kind < KINDS; kind++) {
			int least = 0;
			double noise = 0;
			for (int m = 0; m < r->count; m++) {
				if (kind == EAGER && r->error[PLAIN][m] > 0 && r->error[EAGER][m] == 0)
					continue; /* a mutant of a format's native form only */
				if (r->error[kind][m] < r->error[kind][least] || r->error[kind][least] == 0) least = m;
				if (r->error[kind][m] > conf_band((op_id)op, kind)) continue;
				hidden++;
				print_message("%s: mutant '%s' is below the %s band: %g\n", op_name((op_id)op), r->names[m], KIND[kind], r->error[kind][m]);
			}
			for (int i = 0; i < tier_count; i++) noise = tiers[i].ops[op].noise[kind] > noise ? tiers[i].ops[op].noise[kind] : noise;
			print_message("%-13s %s: noise %-8.2g smallest of %2d mutants %-8.2g (%s)\n", op_name((op_id)op), KIND[kind], noise, r->count,
			    r->error[kind][least], r->names[least]);
		}
	}
	print_message("%d mutants, %d runs, %llu elements\n", count, runs, (unsigned long long)elements);
	assert_true(count >= 2 * OP_COUNT);
	assert_int_equal(hidden, 0);
}

static int record(const tier *t, const char *commit, const char *date)
{
	char path[256], temp[300];
	snprintf(path, sizeof path, NH_SOURCE_DIR "/records/band/%s%s%s.json", t->arm->name, t->isa ? "-" : "", t->isa ? t->isa : "");
	snprintf(temp, sizeof temp, "%s.new", path);
	FILE *f = fopen(temp, "w");
	if (!f) return perror(temp), 1;
	fprintf(f,
	    "{\n  \"tool\": \"conformance_test_conformance --record\", \"commit\": \"%s\", \"date\": \"%s\", \"arm\": \"%s\", \"tier\": "
	    "\"%s\", "
	    "\"seed\": %u, \"compiler\": \"%s\",\n",
	    commit, date, t->arm->name, tier_name(t), CONF_SEED, __VERSION__);
	fprintf(f, "  \"error\": \"largest over rows of |difference| / |row of ref|; of a mutant: in the corpus case that shows it best, "
	           "[exact, eager]\",\n  \"ops\": {\n");
	for (int op = 0; op < OP_COUNT; op++) {
		const row *r = &t->ops[op];
		const mutant_row *all = &mutants[op];
		fprintf(f,
		    "    \"%s\": {\"comparisons\": %d, \"elements\": %llu, \"reference_calls\": %llu, \"band\": [%g, %g], \"noise\": [%.3g, %.3g]",
		    op_name((op_id)op), r->cases, (unsigned long long)r->elements, (unsigned long long)r->reference, conf_band((op_id)op, PLAIN),
		    conf_band((op_id)op, EAGER), r->noise[PLAIN], r->noise[EAGER]);
		if (!t->isa) {
			fprintf(f, ", \"mutants\": {");
			for (int m = 0; m < all->count; m++)
				fprintf(f, "%s\"%s\": [%.3g, %.3g]", m ? ", " : "", all->names[m], all->error[PLAIN][m], all->error[EAGER][m]);
			fprintf(f, "}");
		}
		fprintf(f, "}%s\n", op + 1 < OP_COUNT ? "," : "");
	}
	fprintf(f, "  }\n}\n");
	if (fclose(f) != 0 || rename(temp, path) != 0) return perror(path), 1;
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(arms_agree_with_ref), cmocka_unit_test(mutants_are_seen)};
	int failed = cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
	if (!failed && argc == 4 && strcmp(argv[1], "--record") == 0) {
		for (int i = 0; i < tier_count; i++) failed |= record(&tiers[i], argv[2], argv[3]);
	}
	return failed;
}
