/* SPDX-License-Identifier: Apache-2.0
 * engine_impl.h: the engine's object and the stages of a step. Internal to the room.
 *
 * A step computes rows of many sequences: for each that runs, its pending token (and drafts of what may follow) in decode form, or a piece of
 * what it was given in prefill form. Its stages run in this order: admit, reserve, inputs, forward, pick, commit, emit. Until commit nothing but
 * the arm's memory past the sequences' lengths has changed. Pieces end at scan edges (absolute multiples of the chunk) or with what was given,
 * so the bits of a request do not depend on step_tokens or on its company.
 */
#ifndef ENGINE_ENGINE_IMPL_H
#define ENGINE_ENGINE_IMPL_H

#include <pthread.h>

#include "cache/prefix.h"
#include "cache/spill.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/sched.h"

/* What an engine is sized by, from options and the memory budget. */
typedef struct engine_limits {
	int64_t context; /* tokens a sequence may have */
	int piece;       /* most prompt tokens of a step: a multiple of the chunk */
	int sequences;   /* that run at once */
	int drafts;      /* most a sequence and step */
	int queue, events;
	int64_t slots, snapshots; /* of the slots, those that snapshots may hold */
	int64_t pages;
} engine_limits;

/* Memory for what a step reads: filled here, copied to the arm in one piece; on host arms it is the arm's memory. */
typedef struct inputs {
	arena host; /* fixed; rewound each step */
	char *arm;  /* own; where host.base lies for the arm */
	bool full;  /* sticky for the step: a programmer's mistake in inputs_init */
} inputs;

/* Log-probabilities of n rows: the token that came, M ids more and the K best. In scratch after pick; n 0: not asked for. */
typedef struct step_logprobs {
	int n, M, K;
	tensor chosen; /* [n, 1] i32 */
	tensor ids;    /* [n, M] i32 */
	tensor lp, rank, want_lp, want_rank, top_ids, top_lp;
	const double *h_lp, *h_want_lp, *h_top_lp; /* the same, readable here */
	const int32_t *h_rank, *h_want_rank, *h_top_ids;
} step_logprobs;

/* One sequence's part of a step. */
typedef struct step_item {
	sequence *q;
	bool decode;                        /* rows are the pending token and drafts; else a piece of what was given */
	bool edits;                         /* its logits are edited before the draw */
	bool failed;                        /* its request ends with r->error instead of a result */
	bool tells;                         /* log-probabilities: else prompt and taken mean nothing */
	int rows, row0;                     /* in the batch */
	int R, r0;                          /* rows whose logits are wanted: the last R */
	int draws, d0;                      /* tokens that are drawn: one a row, or one a choice after the prompt's last */
	int E, e0;                          /* rows whose final hidden state is wanted: the last E */
	int64_t pos;                        /* of row 0 */
	int32_t force;                      /* the token is given; -1: it is drawn */
	int32_t slot[ENGINE_DRAFT_MAX + 1]; /* decode: the state after each row */
	const int32_t *drawn;               /* [draws], readable here */
	step_logprobs prompt;               /* of the given tokens at pos + 1 and on */
	step_logprobs taken;                /* of the drawn tokens */
} step_item;

typedef struct step {
	step_item *item; /* own [sequences] */
	int items;
	sched_view *view; /* own [sequences] */
	sched_item *plan; /* own [sequences] */

	/* Counts (batch.c). */
	int T, D, S, R, N, E; /* rows, decode rows, segments, logits, draws, hidden rows */
	int plain;            /* draws before the edited ones */
	bool direct;          /* the logits are the draws' as they lie */

	/* Inputs. */
	step_batch batch;
	model_hidden hidden;
	const op_sample_row *rows;        /* [plain] */
	const op_sample_row *edited_rows; /* [N - plain] */
	tensor draw_rows;                 /* [N] i32: which logits */
	tensor hidden_start;              /* [E + 1] i32 */
	tensor fork_from, fork_to;        /* [forks] i32 slots */
	tensor page_from, page_to;        /* [page_forks] i32 pages */
	int forks, page_forks;
	op_logit_edit edit;
	tensor edit_seen, edit_counts, edit_mask;

	/* Results. */
	tensor logits;  /* [R, V] */
	tensor drawn;   /* [N, V] logits of the draws */
	tensor sampled; /* [N] i32 */
	tensor pooled;  /* [E, D] f64 */
} step;

struct engine {
	engine_parts *parts; /* borrow */
	engine_limits limits;
	char *spill_dir; /* own */

	/* The engine thread's. */
	states states;
	pages pages;
	prefix_cache *prefixes; /* own; NULL: off */
	spill *spill;           /* own */
	jobs *jobs;             /* own; writes the spill's files; NULL without one */
	model_state state;      /* views of both pools */
	inputs in;
	void *scratch_block;  /* own; the arm's */
	arena scratch;        /* over scratch_block */
	sample_batch *edited; /* own; rows whose logits are edited */
	uint32_t *mask;       /* own; one row of bits */
	arena results;        /* fixed; where results are read to on arms without host memory */
	step step;
	sequence **run; /* own [sequences]; in the pools, higher priority first, then least recently given a piece */
	int running;
	sequence *swapped; /* highest rank first */
	int swapped_count;
	bool traced_last;      /* the last step was a traced request's alone */
	engine_request *ended; /* own references; dropped after the step */

	pthread_t thread;
	pthread_mutex_t lock; /* inbox, closing, serial */
	pthread_cond_t wake;
	engine_request *first; /* own references; the inbox, highest rank first */
	int waiting;
	uint64_t serial;
	bool closing;

	pthread_mutex_t stats_lock;
	engine_stats stats;
	char identity[65]; /* "" until asked for; under stats_lock */
};

/* What a run of an exec needs of an engine: also the dry run's. */
nh_status inputs_init(inputs *in, const engine_parts *parts, const engine_limits *l, bool dry, nh_error *e);
void inputs_deinit(inputs *in, const backend *arm, exec *base);
nh_status inputs_fill(inputs *in, step *s, sample_batch *edited, uint32_t *mask, int64_t vocab, nh_error *e);

nh_status engine_limits_of(const engine_parts *parts, const engine_options *options, engine_limits *out, nh_error *e);
int engine_most_rows(const engine_limits *l);  /* of a step */
int engine_most_draws(const engine_limits *l); /* of a step */
nh_status step_init(step *s, const engine_limits *l, nh_error *e);
void step_deinit(step *s);
void step_layout(step *s, int64_t vocab); /* from the items' sequences, rows and forms: counts, and where each one's rows lie */
int step_best_count(int asked, int64_t vocab);

/* Ops after the model's: also on a dry exec. Edited logits (wide, [N - plain, V]) are filled between the two. */
void pick_gather(exec *x, step *s, int64_t vocab, tensor *edited);
void pick_ops(exec *x, step *s, const tensor *edited);
/* Copies the prompt's state to the other choices. */
void fork_ops(exec *x, step *s, const states *slots, const pages *kv);

/* Stages. */
void step_admit(engine *g);
bool step_reserve(engine *g); /* false: nothing can run */
nh_status step_inputs(engine *g, nh_error *e);
nh_status step_forward(engine *g, nh_error *e);
nh_status step_pick(engine *g, nh_error *e);
void step_commit(engine *g);
void step_emit(engine *g);
bool step_run(engine *g); /* all of them; false: nothing could run */

/* Who runs. */
int rank_compare(const sequence *a, const sequence *b); /* < 0: a goes first: priority, then arrival */
void run_insert(engine *g, sequence *q);                /* behind those of its priority */
void run_remove(engine *g, const sequence *q);
bool preempt(engine *g, sequence *q); /* to host memory; false: no memory there */
/* Makes `room` pages and `slots` slots free: prefixes first, then sequences that rank below `q`. */
bool make_room(engine *g, int32_t slots, int64_t room, const sequence *q);

/* Rows that the sequence's next step may have, and their form. */
bool sequence_decodes(const sequence *q);
bool sequence_ends_token(const sequence *q, int32_t token);

/* What a step tells, written into the places of the ring; told by step_emit. Fails the item. */
void compose(engine *g, step_item *i);
int32_t item_token(const step_item *i, int at); /* drawn or forced */
/* The last event of a sequence; it leaves the engine. An error ends the whole request. */
void emit_done(engine *g, sequence *q, nh_finish finish, int stop_index);
void emit_error(engine *g, engine_request *r);

void *loop_run(void *engine);
void engine_sweep(engine *g);                               /* ends what was cancelled or is too late */
void loop_leave(engine *g, sequence *q);                    /* gives back what it holds */
void loop_drop_ended(engine *g);                            /* lets go of requests that have told their last event */
void fork_release(const step_item *i);                      /* pages that were taken for the other choices */
void spares_release(engine *g, step_item *i, int32_t keep); /* slots that were taken for drafts, but `keep` */
void stats_publish(engine *g, const int64_t *stage_us);     /* [ENGINE_STAGES] or NULL; copies the exec's counters */
void stats_time(engine *g, int stage, int64_t us);
nh_status engine_identity(engine *g, char hex[65], nh_error *e); /* any thread */

/* A tensor's data, readable here until the next step. */
const void *step_read(engine *g, const tensor *t, nh_error *e);
void step_trace_tap(void *engine, const char *name, const tensor *t);

/* draft.c: tokens that may follow ids[0, n): at most k, the count. */
int draft_propose(const int32_t *ids, int64_t n, int k, int32_t *out);

#endif
