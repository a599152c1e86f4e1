/* SPDX-License-Identifier: Apache-2.0
 * conf.h: the frame of the conformance tests. A case is a function that builds seeded inputs, calls one op on the exec that it is given and
 * hands back outputs; it is run on ref, on every other arm, and on ref again once for each of its mutants. A mutant is a wrong variant of
 * the op, made inside the case where CONF_MUTANT(c, "name") is true. The noise of an arm must stay below the band, and every mutant must
 * rise above it in some case of the corpus; a corpus that cannot see a mutant is wrong.
 */
#ifndef CONF_H
#define CONF_H

#include <math.h>
#include <string.h>

#include "backend/registry.h"
#include "base/base_arena.h"
#include "base/base_rng.h"
#include "num/num_conv.h"
#include "tensor/paged.h"
#include "test.h"

#define CONF_SEED 20240607u
#define CONF_OUTPUTS 8
#define CONF_MUTANTS 24

typedef struct conf_output {
	const double *v; /* [rows, width] */
	int64_t rows, width;
	bool exact; /* integers: any difference is an error of 1 */
} conf_output;

typedef struct conf {
	/* What the case sees. */
	exec *x;
	int variant;        /* which member of the corpus, from 0 */
	const char *active; /* the mutant to be, or NULL */
	/* The frame's own. */
	const backend *arm;
	arena mem; /* host side */
	void *device[128];
	weight weights[64]; /* as they were imported: the case's own are gone when it has returned */
	int devices, imported;
	uint64_t seed, drawn;
	conf_output out[CONF_OUTPUTS];
	int outputs;
	const char *names[CONF_MUTANTS];
	int mutants;
} conf;

/* Of profiles that round nothing, and of those that round to bf16, where one sum on the edge moves an output by a whole step. */
enum { CONF_PLAIN, CONF_EAGER, CONF_KINDS };
int conf_kind(const char *profile);
double conf_band(op_id op, int kind);

typedef void (*conf_fn)(conf *c);
typedef struct conf_case {
	op_id op;
	conf_fn run;
	int variants;
} conf_case;

/* Whether the case is to be this mutant now; registers the name. */
bool conf_mutant(conf *c, const char *name);
#define CONF_MUTANT(c, name) conf_mutant((c), (name))

double conf_rand(conf *c); /* -1 .. 1, densest at 0 */
int64_t conf_below(conf *c, int64_t n);

/* Host tensors: built and mutated before conf_put hands a copy to the arm. */
tensor conf_host(conf *c, num_dtype type, int rank, int64_t a, int64_t b, int64_t d, int64_t e);
tensor conf_random(conf *c, num_dtype type, int64_t rows, int64_t cols, double middle, double scale);
tensor conf_ints(conf *c, int64_t n, const int32_t *v);
#define CONF_INTS(c, ...) conf_ints((c), (int64_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]){__VA_ARGS__})
double conf_get(const tensor *t, int64_t i);
void conf_set(const tensor *t, int64_t i, double v);
tensor conf_put(conf *c, const tensor *host);
void *conf_put_bytes(conf *c, const void *p, size_t bytes);
tensor conf_back(conf *c, const tensor *on_arm); /* a host copy */

/* A weight of random codes on the host, then imported by conf_import. `bytes` are the case's to change before that. */
weight conf_weight(conf *c, num_scheme scheme, int64_t n, int64_t k);
void conf_import(conf *c, weight *w);

/* An output: the arm's tensor as it is now, or a host tensor that a mutant made of it. */
void conf_out(conf *c, const tensor *on_arm);
void conf_out_host(conf *c, const tensor *host);

/* Opens the arm, runs the case (as `mutant`, or NULL), checks that it called its op; conf_done gives everything back. */
void conf_run(conf *c, const conf_case *k, const backend *arm, const char *isa, const char *profile, int variant, const char *mutant);
void conf_done(conf *c);
/* The largest error over the rows of all outputs: |difference| / |ref's row|; a row far quieter than its tensor is measured against the tensor; a
 * difference in integers is an error of 1. Adds what it compared to *elements. */
double conf_compare(const conf *a, const conf *ref, uint64_t *elements);

extern const conf_case CONF_BASIC[], CONF_SSM[], CONF_ATTN[], CONF_MOE[], CONF_SAMPLE[]; /* end with run NULL */

#endif
