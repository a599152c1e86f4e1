/* SPDX-License-Identifier: Apache-2.0
 * batch_run.c: the loop: submit while there is room, look at each running request in turn, write each line when its last answer has ended. A line is one
 * request, or several where it has several prompts. What one line does wrong ends in its answer; only the disk, a lack of memory and
 * Ctrl-C end the batch. Breaks first: a request is released whichever way its line ends.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base_clock.h"
#include "base/base_mem.h"
#include "cmd/batch/batch.h"
#include "dialect/oai_batch.h"
#include "dialect/oai_reply.h"

#define WAIT_US 2000 /* for one request while all are silent; the others' events wait no longer than this */
#define NOTED_MAX 50

/* A line that is being answered. */
typedef struct active {
	batch_line *line; /* borrow */
	char name[BATCH_NAME_MAX], id[BATCH_NAME_MAX + 12];
	oai_batch_line in;    /* own */
	oai_request *request; /* own */
	oai_reply *reply;     /* own; NULL: e says why */
	size_t submitted;     /* prompts */
	size_t open;          /* of them, still running */
	oai_error e;          /* status 0: nothing is wrong so far */
} active;

/* One prompt in the engine. */
typedef struct running {
	active *of; /* borrow */
	size_t prompt;
	nh_request *r; /* own */
} running;

typedef struct runner {
	batch_job *j;
	running *running; /* own [concurrency] */
	size_t count;
	size_t next;    /* line to begin with */
	active *newest; /* own; the line whose prompts are being submitted; NULL */
	int64_t begun_us;
	uint64_t tokens; /* seen, for the progress line */
	size_t done;     /* lines, by this start */
} runner;

static void active_free(active *t)
{
	if (t == NULL) return;
	oai_reply_close(t->reply);
	oai_request_free(t->request);
	oai_batch_free(&t->in);
	mem_free(t);
}

/* What is no line's fault, and may be better another time: no answer, the batch ends and can go on. */
static bool of_the_machine(nh_status s) { return s == NH_ERR_NOMEM || s == NH_ERR_IO; }

static nh_status stop(const active *t, nh_status s, nh_error *e)
{
	return ERR(e, s, "line %" PRIu64 ": %s", t->line->number, t->e.status ? t->e.message : nh_status_message(s));
}

/* --- the end of a line --- */

static nh_status write_line(runner *u, active *t, nh_error *e)
{
	char id[BATCH_NAME_MAX + 12], request_id[BATCH_NAME_MAX + 12];
	bool ok = t->e.status == 0;
	snprintf(id, sizeof id, "batch_req_%s", t->name);
	snprintf(request_id, sizeof request_id, "req_%s", t->name);
	json_t *answer =
	    oai_batch_answer(id, t->in.custom_id, ok ? 200 : t->e.status, request_id, ok ? oai_reply_body(t->reply) : oai_error_body(&t->e));
	char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT) : NULL;
	json_decref(answer);
	if (text == NULL) return ERR_NOMEM(e);
	nh_status s = batch_out_put(&u->j->out, t->line->number, text, strlen(text), e);
	free(text);
	if (s != NH_OK) return s;
	t->line->answered = true;
	u->done++;
	if (ok) {
		oai_usage usage = oai_reply_usage(t->reply);
		u->j->counts.answered++;
		u->j->counts.prompt_tokens += usage.prompt;
		u->j->counts.reused_tokens += usage.cached;
		u->j->counts.generated_tokens += usage.completion;
	} else {
		u->j->counts.failed++;
	}
	return NH_OK;
}

/* Takes request i out of the running ones. */
static void let_go(runner *u, size_t i)
{
	u->running[i].of->open--;
	nh_request_release(u->running[i].r);
	u->running[i] = u->running[--u->count];
}

/* Nothing more is to come of t: its line is written. A failed one takes its other prompts with it. */
static nh_status close_line(runner *u, active *t, nh_error *e)
{
	for (size_t i = u->count; t->open > 0 && i-- > 0;)
		if (u->running[i].of == t) let_go(u, i);
	if (u->newest == t) u->newest = NULL;
	nh_status s = write_line(u, t, e);
	active_free(t);
	return s;
}

/* --- the beginning of a line --- */

/* Unknown members, each once. */
static void note_ignored(runner *u, const active *t)
{
	const char *p = t->request->ignored.len > 0 ? t->request->ignored.data : "";
	while (*p != '\0') {
		char name[80];
		size_t n = strcspn(p, ",");
		snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), p);
		if (json_object_get(u->j->noted, name) == NULL && json_object_size(u->j->noted) < NOTED_MAX) {
			json_object_set_new(u->j->noted, name, json_true());
			cmd_progress_clear(&u->j->progress);
			cmd_note(u->j->a, "line %" PRIu64 ": %s is not known and changes nothing here", t->line->number, name);
		}
		p += n;
		p += strspn(p, ", ");
	}
}

/* An id names one answer only. */
static nh_status check_unique(runner *u, active *t)
{
	const json_t *first = json_object_get(u->j->ids, t->in.custom_id);
	if (first != NULL && (uint64_t)json_integer_value(first) < t->line->number)
		return oai_bad(&t->e, "custom_id", "is \"%.80s\", which line %" JSON_INTEGER_FORMAT " has already", t->in.custom_id,
		    json_integer_value(first));
	return json_object_set_new(u->j->ids, t->in.custom_id, json_integer((json_int_t)t->line->number)) == 0 ? NH_OK : oai_nomem(&t->e);
}

static nh_status prepare(runner *u, active *t)
{
	nh_sampling_defaults defaults;
	nh_model_get_sampling_defaults(u->j->model, &defaults, sizeof defaults);
	TRY(oai_batch_parse(&t->in, t->line->text, t->line->len, &t->e));
	TRY(check_unique(u, t));
	TRY(oai_request_parse(&t->request, t->in.kind, t->in.body, &defaults, &t->e));
	if (t->request->stream) return oai_refuse(&t->e, "stream", "is true, a batch answers at once: only false is supported");
	if (!t->request->seeded) t->request->options.seed = batch_seed(t->name);
	t->request->allow_control = cmd_flag(u->j->a, "allow-control-text");
	note_ignored(u, t);
	snprintf(t->id, sizeof t->id, "%s-%s", t->in.kind == OAI_CHAT ? "chatcmpl" : "cmpl", t->name);
	return oai_reply_open(&t->reply, t->request, t->id, (int64_t)time(NULL), u->j->info.name, nh_model_tokenizer(u->j->model), &t->e);
}

static nh_status submit(runner *u, active *t)
{
	nh_error error = {0};
	oai_prompt prompt;
	nh_request *r = NULL;
	TRY(oai_prompt_make(
	    t->request, t->submitted, nh_model_tokenizer(u->j->model), nh_model_template(u->j->model), (int64_t)time(NULL), &prompt, &t->e));
	nh_request_options o = t->request->options;
	o.prompt = prompt.ids;
	o.prompt_tokens = prompt.count;
	o.starts_in_reasoning = prompt.in_reasoning;
	nh_status s = oai_reply_prompt(t->reply, t->submitted, &prompt, &t->e);
	if (s == NH_OK) {
		s = nh_engine_submit(u->j->engine, &o, &r, &error);
		if (s != NH_OK) oai_error_from_submit(&t->e, s, &error, t->in.kind == OAI_CHAT ? "messages" : "prompt");
	}
	oai_prompt_free(&prompt);
	if (s != NH_OK) return s;
	u->running[u->count++] = (running){.of = t, .prompt = t->submitted++, .r = r};
	t->open++;
	return NH_OK;
}

/* Submits what there is room for. */
static nh_status fill(runner *u, nh_error *e)
{
	batch_in *in = &u->j->in;
	while (u->count < (size_t)u->j->concurrency && !cmd_interrupted()) {
		active *t = u->newest;
		nh_status s = NH_OK;
		if (t == NULL) {
			while (u->next < in->count && in->lines[u->next].answered) u->next++;
			if (u->next == in->count) return NH_OK;
			t = mem_alloc(sizeof *t);
			if (t == NULL) return ERR_NOMEM(e);
			u->newest = t;
			t->line = &in->lines[u->next++];
			TRY(batch_name(in, t->line, t->name, e));
			s = prepare(u, t);
		}
		if (s == NH_OK) s = submit(u, t);
		if (of_the_machine(s)) return stop(t, s, e);
		if (s != NH_OK) TRY(close_line(u, t, e));
		else if (t->submitted == t->request->prompts) u->newest = NULL;
	}
	return NH_OK;
}

/* --- what comes back --- */

/* One event of running[i]. *gone: that place holds another request now, or none. */
static nh_status take(runner *u, size_t i, const nh_event *ev, bool *gone, nh_error *e)
{
	active *t = u->running[i].of;
	if (ev->type == NH_EVENT_TOKEN) u->tokens++;
	nh_status s = oai_reply_event(t->reply, u->running[i].prompt, ev, &t->e);
	*gone = s != NH_OK || oai_reply_prompt_done(t->reply, u->running[i].prompt);
	if (s == NH_ERR_CANCELLED && cmd_interrupted()) return s;
	if (of_the_machine(s)) return stop(t, s, e);
	if (!*gone) return NH_OK;
	let_go(u, i);
	if (s != NH_OK || oai_reply_done(t->reply)) return close_line(u, t, e);
	return NH_OK;
}

/* The events of running[i] that are there, at most a handful, so that no request waits for another's. */
static nh_status look(runner *u, size_t i, int64_t wait_us, bool *any, bool *gone, nh_error *e)
{
	*gone = false;
	for (int k = 0; k < 16 && !*gone; k++) {
		nh_event ev;
		nh_status s = nh_request_next(u->running[i].r, &ev, sizeof ev, k == 0 ? wait_us : 0);
		if (s == NH_ERR_TIMEOUT) return NH_OK;
		if (s != NH_OK) { /* it ended without all of its answers */
			active *t = u->running[i].of;
			*gone = true;
			oai_error_from(&t->e, NH_ERR_INTERNAL, NULL, NULL);
			return close_line(u, t, e);
		}
		*any = true;
		TRY(take(u, i, &ev, gone, e));
	}
	return NH_OK;
}

static void show(runner *u)
{
	cmd_progress *p = &u->j->progress;
	int64_t now = clock_us();
	if (!p->on || now - p->last_us < 200000) return;
	double seconds = (double)(now - u->begun_us) / 1e6;
	size_t total = u->j->in.count - u->j->counts.kept;
	p->last_us = now;
	p->shown = true;
	fprintf(stderr, "\r\033[K%zu of %zu lines, %zu running, %.0f tokens/s", u->done + u->j->counts.kept, u->j->in.count, u->count,
	    seconds > 0 ? (double)u->tokens / seconds : 0);
	if (u->j->counts.failed > 0) fprintf(stderr, ", %zu failed", u->j->counts.failed);
	if (u->done > 0) {
		int64_t left = (int64_t)(seconds * (double)(total - u->done) / (double)u->done);
		fprintf(stderr, ", ETA %" PRId64 ":%02" PRId64 ":%02" PRId64, left / 3600, left / 60 % 60, left % 60);
	}
	fflush(stderr);
}

static nh_status loop(runner *u, nh_error *e)
{
	for (;;) {
		bool any = false, gone;
		TRY(fill(u, e));
		if (cmd_interrupted()) return NH_ERR_CANCELLED;
		if (u->count == 0) return NH_OK;
		for (size_t i = 0; i < u->count;) {
			TRY(look(u, i, 0, &any, &gone, e));
			if (!gone) i++;
		}
		if (!any && u->count > 0) TRY(look(u, 0, WAIT_US, &any, &gone, e));
		TRY(batch_out_sync(&u->j->out, e));
		show(u);
	}
}

nh_status batch_run(batch_job *j, nh_error *e)
{
	runner u = {.j = j, .begun_us = clock_us()};
	u.running = mem_array((size_t)j->concurrency, sizeof *u.running);
	nh_status s = u.running != NULL ? loop(&u, e) : ERR_NOMEM(e);
	cmd_progress_clear(&j->progress);
	/* Left over after Ctrl-C or a full disk: the lines are not answered, and a later start does them. */
	while (u.count > 0) {
		active *t = u.running[0].of;
		let_go(&u, 0);
		if (t->open == 0 && t != u.newest) active_free(t);
	}
	active_free(u.newest);
	mem_free(u.running);
	j->counts.elapsed_us = clock_us() - u.begun_us;
	nh_error ignored;
	nh_status synced = batch_out_sync(&j->out, s == NH_OK ? e : &ignored);
	return s != NH_OK ? s : synced;
}
