/* SPDX-License-Identifier: Apache-2.0
 * engine_impl.h: the engine's object and the stages of a step. Internal to the room.
 *
 * A step computes rows of one request: a piece of its prompt in prefill form, or its pending token in decode form. Its stages run in this
 * order: admit, reserve, inputs, forward, pick, commit, emit. Until commit nothing but the arm's memory past the sequence's length has
 * changed, so a stage that fails leaves everything as it was. Pieces end at scan edges (absolute multiples of the chunk) or with the
 * prompt, so the bits of a request do not depend on step_tokens.
 */
#ifndef ENGINE_ENGINE_IMPL_H
#define ENGINE_ENGINE_IMPL_H

#include <pthread.h>

#include "engine/engine.h"
#include "engine/request.h"

/* Memory for what a step reads: filled here, copied to the arm in one piece; on host arms it is the arm's memory. */
typedef struct inputs {
	arena host; /* fixed; rewound each step */
	char *arm;  /* own; where host.base lies for the arm */
	bool full;  /* sticky for the step: a programmer's mistake in inputs_init */
} inputs;

/* Log-probabilities of n rows: M ids each and the K best. In scratch after pick; NULL data where not asked for. */
typedef struct step_logprobs {
	int n, M, K;
	tensor ids;                    /* [n, M] i32; column 0 is the token that came next */
	tensor lp, rank;               /* [n, M] f64, i32 */
	tensor top_ids, top_lp;        /* [n, K] */
	const double *h_lp, *h_top_lp; /* the same, readable here */
	const int32_t *h_rank, *h_top_ids;
} step_logprobs;

typedef struct step {
	/* The plan (reserve). */
	int T;         /* rows */
	int R;         /* rows whose logits are wanted: none, the last, or all */
	bool decode;   /* the one row is the pending token */
	bool draws;    /* a token is taken after the last row */
	int32_t force; /* that token is given; -1: it is drawn */
	int64_t pos;   /* of row 0 */

	/* Inputs. */
	step_batch batch;
	const op_sample_row *sample_row;
	bool edits; /* the last row's logits are edited before the draw */
	op_logit_edit edit;
	tensor edit_seen, edit_counts, edit_mask;

	/* Results. */
	tensor logits;        /* [R, V] */
	tensor sampled;       /* [1] i32 */
	step_logprobs prompt; /* of the prompt tokens at pos + 1 and on */
	step_logprobs taken;  /* of the token that is taken; n 0 or 1 */
	int32_t token;        /* taken; -1: none */
} step;

struct engine {
	engine_parts *parts; /* borrow */
	int64_t context;     /* tokens a sequence may have */
	int piece;           /* most rows of a step: a multiple of the chunk */
	int event_limit;

	/* The engine thread's. */
	states states;
	pages pages;
	model_state state; /* views of both */
	inputs in;
	void *scratch_block;    /* own; the arm's */
	arena scratch;          /* over scratch_block */
	sample_batch *sampling; /* own; one row */
	arena results;          /* fixed; where results are read to on arms without host memory */
	step step;
	engine_request *active; /* own reference; written under lock */

	pthread_t thread;
	pthread_mutex_t lock; /* inbox, active, closing */
	pthread_cond_t wake;
	engine_request *first, *last; /* own references; the inbox */
	int waiting;
	bool closing;

	pthread_mutex_t stats_lock;
	engine_stats stats;
};

/* What a run of an exec needs of an engine: also the dry run's. */
nh_status inputs_init(
    inputs *in, const backend *arm, exec *base, int piece, int64_t context, int64_t vocab, nh_error *e); /* arm NULL: host */
void inputs_deinit(inputs *in, const backend *arm, exec *base);
nh_status inputs_fill(inputs *in, step *s, const engine_request *r, sample_batch *batch, nh_error *e);

/* Limits from options: context, and the rows of a piece: a multiple of the chunk, at least one. */
nh_status engine_limits(const engine_parts *parts, const engine_options *options, int64_t *context, int *piece, nh_error *e);

/* Ops after the model's: also on a dry exec. Edited logits (wide, [1, V]) lie in scratch and are filled between the two. */
tensor pick_reserve_edited(exec *x, const step *s, int64_t vocab);
void pick_ops(exec *x, step *s, tensor *edited);

/* Stages. */
bool step_admit(engine *g); /* false: nothing to do */
nh_status step_reserve(engine *g, nh_error *e);
nh_status step_inputs(engine *g, nh_error *e);
nh_status step_forward(engine *g, nh_error *e);
nh_status step_pick(engine *g, nh_error *e);
void step_commit(engine *g);
void step_emit(engine *g);
void step_run(engine *g); /* all of them */

/* The last event of a request; it leaves the engine. */
void emit_done(engine *g, engine_request *r, nh_finish finish, int stop_index);
void emit_error(engine *g, engine_request *r);

void *loop_run(void *engine);
void loop_sweep(void *engine);                  /* ends cancelled requests that wait */
void loop_forget(engine *g, engine_request *r); /* gives back what it holds and drops the engine's reference */
void stats_publish(engine *g);                  /* copies the exec's counters */

/* A tensor's data, readable here until the next step. */
const void *step_read(engine *g, const tensor *t, nh_error *e);
void step_trace_tap(void *engine, const char *name, const tensor *t);

#endif
