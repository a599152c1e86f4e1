/* SPDX-License-Identifier: Apache-2.0
 * qz_quality.c: what quantising did to what the model says: log-loss of the source and of the result on one text, and the divergence KL(source || result)
 * over the full vocabulary at every scored position. Teacher-forced, prefill form, the same windows for both; one model is open at a time, and the
 * source's logits wait in an unlinked file beside the result.
 * Breaks first: row i of the one is compared with row i of the other, or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/cmd_open.h"
#include "cmd/cmd_score.h"
#include "cmd/quantize/qz.h"

#define WINDOW 512 /* tokens */

typedef struct side {
	double nll;
	int64_t rows;
	char numerics[32], kv[16];
} side;

typedef struct quality {
	int32_t *ids; /* own */
	int64_t tokens, context;
	score_window at;
	FILE *spool;      /* own: f32 rows of the source's logits */
	float *row, *own; /* own [vocab] */
	size_t vocab;
	bool second; /* the result is being read */
	side source, result;
	double kl, kl_most, kl_squares;
	int64_t kl_at, same_best;
	int error; /* errno of the spool */
	bool nomem, odd;
} quality;

static void begin(void *user, const score_window *w) { ((quality *)user)->at = *w; }

/* log of the sum of exponentials, and where the largest is. */
static double log_sum(const float *x, size_t n, size_t *best)
{
	double sum = 0;
	*best = 0;
	for (size_t i = 1; i < n; i++)
		if (x[i] > x[*best]) *best = i;
	for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)x[*best]);
	return (double)x[*best] + log(sum);
}

static void compare(quality *q, int64_t position, double own_sum, size_t own_best)
{
	size_t best;
	if (fread(q->row, sizeof *q->row, q->vocab, q->spool) != q->vocab) {
		q->error = errno != 0 ? errno : EIO;
		return;
	}
	double sum = log_sum(q->row, q->vocab, &best), kl = 0;
	for (size_t i = 0; i < q->vocab; i++) {
		double p = (double)q->row[i] - sum;
		if (p > -700) kl += exp(p) * (p - ((double)q->own[i] - own_sum)); /* else the term is below any rounding */
	}
	q->same_best += best == own_best;
	q->kl += kl;
	q->kl_squares += kl * kl;
	if (kl > q->kl_most || q->result.rows == 1) {
		q->kl_most = kl;
		q->kl_at = position;
	}
}

/* On the engine's thread: the row of position p foretells token p + 1. */
static void sink(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	quality *q = user;
	(void)step;
	if (strcmp(name, "logits") != 0 || q->nomem || q->error != 0) return;
	if (q->row == NULL) {
		q->vocab = columns;
		q->row = mem_array(columns, sizeof *q->row);
		q->own = mem_array(columns, sizeof *q->own);
	}
	q->nomem = q->row == NULL || q->own == NULL;
	q->odd |= columns != q->vocab;
	for (size_t r = 0; !q->nomem && !q->odd && q->error == 0 && r < rows; r++) {
		int64_t next = q->at.first + first + (int64_t)r + 1;
		size_t best;
		if (next < q->at.scored || next >= q->at.until || (size_t)q->ids[next] >= q->vocab) continue;
		side *s = q->second ? &q->result : &q->source;
		for (size_t c = 0; c < columns; c++) q->own[c] = (float)values[r * columns + c];
		double sum = log_sum(q->own, columns, &best);
		s->nll += sum - (double)q->own[q->ids[next]];
		s->rows++;
		if (q->second) compare(q, next, sum, best);
		else if (fwrite(q->own, sizeof *q->own, columns, q->spool) != columns) q->error = errno != 0 ? errno : EIO;
	}
}

static nh_status read_with(quality *q, const cmd_args *a, const char *path, const char *text, int64_t limit, nh_error *e)
{
	nh_engine_options eo;
	nh_model_info info;
	nh_model *model = NULL;
	nh_engine *engine = NULL;
	cmd_progress progress;
	uint64_t bytes;
	side *own = q->second ? &q->result : &q->source;
	cmd_progress_init(&progress, a);
	nh_status s = cmd_open(a, path, NULL, NULL, &model, NULL, e);
	if (s != NH_OK) return s;
	nh_model_get_info(model, &info, sizeof info);
	snprintf(own->numerics, sizeof own->numerics, "%s", info.numerics);
	snprintf(own->kv, sizeof own->kv, "%s", info.kv_dtype);
	q->context = info.max_context < WINDOW ? info.max_context : WINDOW;
	if (!q->second) s = score_read(model, text, false, limit, &q->ids, &q->tokens, &bytes, e);
	if (s == NH_OK && q->tokens < 2) s = ERR(e, NH_ERR_ARG, "%s: has %lld tokens, expected at least 2", text, (long long)q->tokens);
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = q->context;
	eo.max_sequences = 1;
	eo.step_tokens = info.chunk; /* a traced step holds its rows of logits as doubles */
	if (s == NH_OK) s = nh_engine_open(&engine, model, &eo, e);
	score_job j = {.ids = q->ids,
	    .tokens = q->tokens,
	    .context = q->context,
	    .stride = q->context,
	    .trace = sink,
	    .begin = begin,
	    .trace_user = q,
	    .progress = cmd_progress_show,
	    .progress_user = &progress};
	if (s == NH_OK) s = score_run(engine, &j, e);
	cmd_progress_clear(&progress);
	nh_engine_close(engine);
	nh_model_close(model);
	if (s == NH_OK && q->nomem) s = ERR_NOMEM(e);
	if (s == NH_OK && q->error != 0) s = ERR(e, NH_ERR_IO, "the file of the source's logits: %s", strerror(q->error));
	if (s == NH_OK && q->odd) s = ERR(e, NH_ERR_INTERNAL, "source and result have vocabularies of different sizes");
	return s;
}

static nh_status open_spool(quality *q, const char *out, nh_error *e)
{
	char *path = path_join(out, ".quantize.logits");
	if (path == NULL) return ERR_NOMEM(e);
	q->spool = fopen(path, "w+b");
	nh_status s = q->spool != NULL ? NH_OK : ERR(e, NH_ERR_IO, "%s: %s", path, strerror(errno));
	unlink(path);
	mem_free(path);
	return s;
}

static json_t *told(const side *s)
{
	double mean = s->nll / (double)s->rows;
	return json_pack("{s:f, s:f, s:s, s:s}", "nll_mean", mean, "perplexity", exp(mean), "numerics", s->numerics, "kv_dtype", s->kv);
}

nh_status qz_quality(const cmd_args *a, const char *in, const char *out, const char *text, int64_t tokens, json_t **report, nh_error *e)
{
	quality q = {0};
	nh_status s = open_spool(&q, out, e);
	if (s == NH_OK) s = read_with(&q, a, in, text, tokens, e);
	if (s == NH_OK && fflush(q.spool) != 0) s = ERR(e, NH_ERR_IO, "the file of the source's logits: %s", strerror(errno));
	if (s == NH_OK) {
		rewind(q.spool);
		q.second = true;
		s = read_with(&q, a, out, text, tokens, e);
	}
	if (s == NH_OK && (q.result.rows != q.source.rows || q.source.rows == 0))
		s = ERR(e, NH_ERR_INTERNAL, "%lld rows of the source, %lld of the result", (long long)q.source.rows, (long long)q.result.rows);
	if (s == NH_OK) {
		double n = (double)q.source.rows, mean = q.kl / n;
		*report =
		    json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:{s:f, s:f, s:f, s:I, s:s}, s:f}", "text", text, "tokens", (json_int_t)q.tokens,
		        "scored", (json_int_t)q.source.rows, "context", (json_int_t)q.context, "source", told(&q.source), "result", told(&q.result),
		        "kl", "mean", mean, "standard_error", n > 1 ? sqrt(fmax(0, q.kl_squares / n - mean * mean) / (n - 1)) : 0.0, "largest",
		        q.kl_most, "largest_at", (json_int_t)q.kl_at, "over", "full vocabulary", "same_best_token", (double)q.same_best / n);
		if (*report == NULL) s = ERR(e, NH_ERR_NUMERIC, "%s: a figure of the comparison is not finite", text);
	}
	if (q.spool != NULL) fclose(q.spool);
	nh_free(q.ids);
	mem_free(q.row);
	mem_free(q.own);
	return s;
}
