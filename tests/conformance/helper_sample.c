/* SPDX-License-Identifier: Apache-2.0
 * helper_sample.c: corpora and mutants of what happens to logits.
 */
#include "conf.h"

enum { R = 4, V = 75 };

static void logit_edit(conf *c)
{
	tensor l = conf_random(c, c->x->types.wide, R, V, 0, 4), counts = conf_host(c, NUM_I32, 2, R, V, 1, 1),
	       seen = conf_host(c, NUM_U8, 2, R, V, 1, 1);
	tensor mask = conf_host(c, NUM_I32, 2, R, 3, 1, 1);
	float repetition[R] = {1.3f, 1, 0.8f, 1.5f}, presence[R] = {0.5f, 0.25f, 0, 1}, frequency[R] = {0.1f, 0.2f, 0.3f, 0};
	op_logit_bias bias[2] = {{1, 5, 2}, {3, 74, -1}};
	for (int i = 0; i < R * V; i++) {
		((int32_t *)counts.data)[i] = (int32_t)conf_below(c, 4);
		((uint8_t *)seen.data)[i] = (uint8_t)(conf_get(&counts, i) > 0 || conf_below(c, 2));
		if (CONF_MUTANT(c, "only output ids count as seen")) ((uint8_t *)seen.data)[i] = conf_get(&counts, i) > 0;
		if (CONF_MUTANT(c, "frequency counted once") && conf_get(&counts, i) > 1) conf_set(&counts, i, 1);
	}
	for (int i = 0; i < R * 3; i++) ((int32_t *)mask.data)[i] = ~(1 << conf_below(c, 31));
	for (int r = 0; r < R; r++) {
		if (CONF_MUTANT(c, "repetition inverted")) repetition[r] = 1 / repetition[r];
		if (CONF_MUTANT(c, "presence added")) presence[r] = -presence[r];
	}
	if (CONF_MUTANT(c, "bias of the next row")) bias[0].row++;
	for (int i = 0; i < R * 3; i++) {
		if (CONF_MUTANT(c, "mask inverted")) ((int32_t *)mask.data)[i] = ~((int32_t *)mask.data)[i];
		if (CONF_MUTANT(c, "mask bits from the top"))
			for (uint32_t m = ((uint32_t *)mask.data)[i], b = 0, o = 0; b < 32; b++)
				o |= (m >> b & 1) << (31 - b), ((uint32_t *)mask.data)[i] = o;
	}
	l = conf_put(c, &l), counts = conf_put(c, &counts), seen = conf_put(c, &seen), mask = conf_put(c, &mask);
	OP(c->x, logit_edit, .logits = &l, .counts = &counts, .seen = &seen, .repetition = conf_put_bytes(c, repetition, sizeof repetition),
	    .presence = conf_put_bytes(c, presence, sizeof presence), .frequency = conf_put_bytes(c, frequency, sizeof frequency),
	    .bias = conf_put_bytes(c, bias, sizeof bias), .biases = 2, .mask = &mask);
	conf_out(c, &l);
}

static void sample_rows(conf *c)
{
	enum { ROWS = 64 };
	tensor l = conf_random(c, c->x->types.wide, ROWS, V, 0, 6), ids = conf_host(c, NUM_I32, 1, ROWS, 1, 1, 1);
	op_sample_row rows[ROWS];
	for (int i = 0; i < ROWS * V; i++)
		if (i / V % 4 == 0) conf_set(&l, i, floor(conf_get(&l, i))); /* greedy rows are full of equals */
	for (int r = 0; r < ROWS; r++) {
		rows[r] = (op_sample_row){.temperature = r % 4 ? 0.8 : 0,
		    .top_p = r % 4 == 2 ? 0.7 : 1,
		    .min_p = r % 4 == 3 ? 0.1 : 0,
		    .top_k = r % 8 == 1 ? 3 : 0,
		    .seed = 77,
		    .position = r};
		if (CONF_MUTANT(c, "temperature ignored") && r % 4) rows[r].temperature = 1;
		if (CONF_MUTANT(c, "seed ignored")) rows[r].seed = 0;
		if (CONF_MUTANT(c, "position late by one")) rows[r].position++;
		if (CONF_MUTANT(c, "top-p ignored")) rows[r].top_p = 1;
		if (CONF_MUTANT(c, "top-k one too many") && rows[r].top_k) rows[r].top_k++;
		if (CONF_MUTANT(c, "min-p ignored")) rows[r].min_p = 0;
	}
	const bool high = CONF_MUTANT(c, "equals: the higher id");
	tensor given = l;
	if (high) {
		given = conf_host(c, l.dtype, 2, ROWS, V, 1, 1);
		for (int i = 0; i < ROWS * V; i++) conf_set(&given, i, conf_get(&l, i / V * V + V - 1 - i % V));
	}
	tensor al = conf_put(c, &given), ai = conf_put(c, &ids);
	OP(c->x, sample_rows, .ids = &ai, .logits = &al, .rows = conf_put_bytes(c, rows, sizeof rows));
	tensor back = conf_back(c, &ai);
	for (int r = 0; high && r < ROWS; r++) conf_set(&back, r, V - 1 - conf_get(&back, r));
	conf_out_host(c, &back);
}

static void logprobs(conf *c)
{
	enum { M = 4, BEST = 5 };
	tensor l = conf_random(c, c->x->types.wide, R, V, 0, 5), ids = conf_host(c, NUM_I32, 2, R, M, 1, 1);
	tensor lp = conf_host(c, NUM_F64, 2, R, M, 1, 1), rank = conf_host(c, NUM_I32, 2, R, M, 1, 1),
	       top = conf_host(c, NUM_I32, 2, R, BEST, 1, 1), top_lp = conf_host(c, NUM_F64, 2, R, BEST, 1, 1);
	for (int i = 0; i < R * V; i++) {
		conf_set(&l, i, num_round_bf16(floor(4 * conf_get(&l, i)) / 4));
		if (CONF_MUTANT(c, "after temperature")) conf_set(&l, i, conf_get(&l, i) * 1.25);
	}
	for (int i = 0; i < R * M; i++) conf_set(&ids, i, i % M == 3 ? -1 : (double)conf_below(c, V));
	const bool zero = CONF_MUTANT(c, "ranks from zero"), raw = CONF_MUTANT(c, "logits for log-probabilities");
	tensor al = conf_put(c, &l), ai = conf_put(c, &ids), alp = conf_put(c, &lp), ar = conf_put(c, &rank), at = conf_put(c, &top),
	       atl = conf_put(c, &top_lp);
	OP(c->x, logprobs, .logits = &al, .ids = &ai, .lp = &alp, .rank = &ar, .top_ids = &at, .top_lp = &atl);
	tensor r = conf_back(c, &ar), p = conf_back(c, &alp);
	for (int i = 0; i < R * M; i++) {
		if (conf_get(&ids, i) < 0) continue;
		if (zero) conf_set(&r, i, conf_get(&r, i) - 1);
		if (raw) conf_set(&p, i, conf_get(&l, i / M * V + (int)conf_get(&ids, i)));
	}
	conf_out_host(c, &r);
	conf_out_host(c, &p);
	conf_out(c, &at);
	conf_out(c, &atl);
}

static void pool_rows(conf *c)
{
	tensor x = conf_random(c, c->x->types.act, 9, 20, 0.1, 1), start = CONF_INTS(c, 0, 2, 3, 9), y = conf_host(c, NUM_F32, 2, 3, 20, 1, 1);
	op_pool how = c->variant % 2 ? OP_POOL_MEAN : OP_POOL_LAST;
	bool unit = c->variant >= 2;
	if (CONF_MUTANT(c, "mean and last exchanged")) how = c->variant % 2 ? OP_POOL_LAST : OP_POOL_MEAN;
	if (unit && CONF_MUTANT(c, "not normalised")) unit = false;
	if (CONF_MUTANT(c, "one row too few")) conf_set(&start, 3, 8);
	x = conf_put(c, &x), start = conf_put(c, &start), y = conf_put(c, &y);
	OP(c->x, pool_rows, .y = &y, .x = &x, .start = &start, .how = how, .normalise = unit);
	conf_out(c, &y);
}

const conf_case CONF_SAMPLE[] = {{OP_logit_edit, logit_edit, 1}, {OP_sample_rows, sample_rows, 1}, {OP_logprobs, logprobs, 1},
    {OP_pool_rows, pool_rows, 4}, {OP_COUNT, NULL, 0}};
