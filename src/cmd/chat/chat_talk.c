/* SPDX-License-Identifier: Apache-2.0
 * chat_talk.c: the turns. Every turn is rendered whole through the template, which trims old thoughts; where the new ids extend the history that
 * the state has, only what is new is given and the state goes on, else the turn is a fresh request, whose beginning the engine's prefix cache
 * may know. After a session from a file there are no messages to render: then the template's difference for one turn is given.
 * The invariant that breaks first: a turn that fails leaves messages and state as they were before the turn.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_status.h"
#include "cmd/chat/chat.h"

/* --- places to go back to --- */

static void point_free(talk_point *p)
{
	json_decref(p->messages);
	nh_session_close(p->session);
	*p = (talk_point){0};
}

static void point_move(talk_point *to, talk_point *from)
{
	point_free(to);
	*to = *from;
	*from = (talk_point){0};
}

static nh_status point_copy(talk_point *to, const talk_point *from, nh_error *e)
{
	talk_point p = {.by_ids = from->by_ids, .messages = json_deep_copy(from->messages)};
	if (!p.messages) return ERR_NOMEM(e);
	nh_status s = from->session ? nh_session_fork(from->session, &p.session, e) : NH_OK;
	if (s == NH_OK) point_move(to, &p);
	point_free(&p);
	return s;
}

nh_status talk_open(talk *t, const cmd_args *a, const char *model, nh_error *e)
{
	const char *system = cmd_string(a, "system", NULL);
	*t = (talk){.think = cmd_flag(a, "think") ? 1 : cmd_flag(a, "no-think") ? 0 : -1, .hide = cmd_flag(a, "hide-reasoning")};
	t->now.messages = json_array();
	if (!t->now.messages || (system && !(t->system = mem_strdup(system)))) return ERR_NOMEM(e);
	return gen_open(&t->g, a, model, e);
}

void talk_close(talk *t)
{
	point_free(&t->now);
	point_free(&t->before);
	while (t->forks > 0) point_free(&t->fork[--t->forks]);
	buf_deinit(&t->asked);
	mem_free(t->system);
	gen_close(&t->g);
	*t = (talk){0};
}

size_t talk_tokens(const talk *t)
{
	size_t n = 0;
	if (t->now.session) nh_session_tokens(t->now.session, &n);
	return n;
}

/* --- what is given --- */

static json_t *whole_request(const talk *t)
{
	json_t *all = json_array();
	if (t->system) json_array_append_new(all, json_pack("{s:s, s:s}", "role", "system", "content", t->system));
	json_array_extend(all, t->now.messages);
	return json_pack("{s:o, s:o, s:b}", "messages", all, "chat_template_kwargs", gen_kwargs(t->think), "add_generation_prompt", 1);
}

/* prompt->ids from *first on are to be given; *go_on: after the session's history. */
static nh_status make_prompt(talk *t, const char *text, size_t len, gen_prompt *prompt, size_t *first, bool *go_on, nh_error *e)
{
	size_t known = 0;
	const int32_t *history = t->now.session ? nh_session_tokens(t->now.session, &known) : NULL;
	*first = 0;
	if (t->now.by_ids) {
		*go_on = true;
		return gen_render_next(&t->g, text, len, t->think, history, known, prompt, e);
	}
	TRY(gen_render(&t->g, whole_request(t), prompt, e));
	*go_on = known > 0 && prompt->count > known && memcmp(prompt->ids, history, known * sizeof *history) == 0;
	if (*go_on) *first = known;
	return NH_OK;
}

/* --- one turn --- */

typedef struct answer {
	buf reasoning, content;
	nh_event done;
} answer;

static void cancel(void *request) { nh_request_cancel(request); }

static nh_status listen(talk *t, nh_request *r, answer *out, nh_error *e)
{
	gen_view view = {.hide = t->hide};
	nh_event ev;
	nh_status s;
	cmd_on_each_interrupt(cancel, r);
	do {
		s = nh_request_next(r, &ev, sizeof ev, -1);
		if (s != NH_OK) break;
		gen_show(&view, &ev);
		buf_append(&out->reasoning, ev.reasoning, ev.reasoning_bytes);
		buf_append(&out->content, ev.content, ev.content_bytes);
		if (ev.type == NH_EVENT_ERROR) s = ERR(e, (nh_status)ev.error.code, "%s", ev.error.text);
	} while (s == NH_OK && ev.type != NH_EVENT_DONE);
	cmd_on_each_interrupt(NULL, NULL);
	gen_dim(&view, false);
	if (view.reasoned || view.answered) cmd_out("\n", 1);
	cmd_out_flush();
	if (s == NH_OK && (out->reasoning.failed || out->content.failed)) s = ERR_NOMEM(e);
	if (s == NH_OK) out->done = ev;
	return s;
}

static nh_status submit(talk *t, const gen_prompt *p, size_t first, bool go_on, answer *out, nh_error *e)
{
	nh_request *r;
	nh_request_options o = t->g.o;
	o.seed += t->retries;
	o.prompt = p->ids + first;
	o.prompt_tokens = p->count - first;
	o.text = o.skip_special = o.split_reasoning = o.keep_session = true;
	o.starts_in_reasoning = p->in_reasoning;
	o.session = go_on ? t->now.session : NULL;
	TRY(nh_engine_submit(t->g.engine, &o, &r, e));
	if (!go_on) nh_session_close(t->now.session);
	t->now.session = NULL;
	nh_status s = listen(t, r, out, e);
	if (s == NH_OK) s = nh_request_take_session(r, &t->now.session, e);
	nh_request_release(r);
	return s;
}

static nh_status remember(talk *t, const answer *a, nh_error *e)
{
	json_t *m = json_pack("{s:s, s:s%}", "role", "assistant", "content", a->content.data ? a->content.data : "", a->content.len);
	if (m && a->reasoning.len) json_object_set_new(m, "reasoning_content", json_stringn(a->reasoning.data, a->reasoning.len));
	return m && json_array_append_new(t->now.messages, m) == 0 ? NH_OK : ERR_NOMEM(e);
}

/* known: tokens of the history that went on; 0: a fresh request, of which the engine's prefix cache may have known a part. */
static void tell(const talk *t, size_t known, const answer *a)
{
	const nh_request_stats *s = &a->done.stats;
	uint64_t decoded = s->generated_tokens > 0 ? s->generated_tokens - 1 : 0;
	cmd_note(t->g.a, "%s; %" PRIu64 " tokens reused, %" PRIu64 " computed, %" PRIu64 " generated (%s), %.0f tokens/s",
	    known ? "continued" : "from the messages", known ? known : s->reused_tokens, s->computed_tokens, s->generated_tokens,
	    gen_finish_word(a->done.finish), gen_per_second(decoded, s->decode_us));
}

static nh_status turn(talk *t, const char *text, size_t len, nh_error *e)
{
	gen_prompt prompt = {0};
	answer a = {0};
	size_t first = 0;
	bool go_on = false;
	size_t known = talk_tokens(t);
	json_t *m = json_pack("{s:s, s:s%}", "role", "user", "content", text, len);
	if (!m || json_array_append_new(t->now.messages, m) != 0) return ERR(e, NH_ERR_ARG, "the message is not UTF-8 text");
	nh_status s = make_prompt(t, text, len, &prompt, &first, &go_on, e);
	if (s == NH_OK) s = submit(t, &prompt, first, go_on, &a, e);
	if (s == NH_OK && a.done.stats.generated_tokens == 0) s = ERR(e, NH_ERR_CANCELLED, "stopped before the answer began");
	if (s == NH_OK) s = remember(t, &a, e);
	if (s == NH_OK) tell(t, go_on ? known : 0, &a);
	nh_free(prompt.ids);
	buf_deinit(&a.reasoning);
	buf_deinit(&a.content);
	return s;
}

nh_status talk_turn(talk *t, const char *text, size_t len, nh_error *e)
{
	talk_point before = {0};
	buf asked = {0};
	buf_append(&asked, text, len);
	nh_status s = asked.failed ? ERR_NOMEM(e) : point_copy(&before, &t->now, e);
	if (s == NH_OK) s = turn(t, asked.data, asked.len, e);
	if (s == NH_OK) {
		point_move(&t->before, &before);
		buf_deinit(&t->asked);
		t->asked = asked;
		return NH_OK;
	}
	if (before.messages) point_move(&t->now, &before);
	buf_deinit(&asked);
	return s;
}

nh_status talk_retry(talk *t, nh_error *e)
{
	talk_point left = {0};
	if (!t->before.messages) return ERR(e, NH_ERR_STATE, "nothing was said that could be answered again");
	point_move(&left, &t->now);
	point_move(&t->now, &t->before);
	t->retries++;
	nh_status s = talk_turn(t, t->asked.data, t->asked.len, e);
	if (s != NH_OK) { /* as it was: with the answer that was there, and what went before it */
		point_move(&t->before, &t->now);
		point_move(&t->now, &left);
	}
	point_free(&left);
	return s;
}

/* --- the rest --- */

/* Retry does not reach across what changed otherwise. */
static void forget_turn(talk *t)
{
	point_free(&t->before);
	buf_deinit(&t->asked);
}

nh_status talk_fork(talk *t, nh_error *e)
{
	if (t->forks == TALK_FORKS) return ERR(e, NH_ERR_LIMIT, "%d copies are kept already: /back goes to the last one", TALK_FORKS);
	TRY(point_copy(&t->fork[t->forks], &t->now, e));
	t->forks++;
	return NH_OK;
}

nh_status talk_back(talk *t, nh_error *e)
{
	if (t->forks == 0) return ERR(e, NH_ERR_STATE, "no copy is kept: /fork keeps one");
	point_move(&t->now, &t->fork[--t->forks]);
	forget_turn(t);
	return NH_OK;
}

nh_status talk_system(talk *t, const char *text, nh_error *e)
{
	if (t->now.by_ids) return ERR(e, NH_ERR_STATE, "the beginning of a loaded session is fixed: /new begins another one");
	char *copy = *text ? mem_strdup(text) : NULL;
	if (*text && !copy) return ERR_NOMEM(e);
	mem_free(t->system);
	t->system = copy;
	return NH_OK;
}

void talk_new(talk *t)
{
	talk_point fresh = {.messages = json_array()};
	if (!fresh.messages) return;
	point_move(&t->now, &fresh);
	forget_turn(t);
}

nh_status talk_save(talk *t, const char *file, nh_error *e)
{
	if (!t->now.session) return ERR(e, NH_ERR_STATE, "nothing was said yet that could be saved");
	return nh_session_save(t->now.session, file, e);
}

nh_status talk_load(talk *t, const char *file, nh_error *e)
{
	talk_point p = {.by_ids = true, .messages = json_array()};
	if (!p.messages) return ERR_NOMEM(e);
	uint32_t flags = cmd_flag(t->g.a, "allow-other-arm") ? NH_SESSION_OTHER_ARM : 0;
	nh_status s = nh_session_load(t->g.engine, file, flags, &p.session, e);
	if (s == NH_OK) {
		point_move(&t->now, &p);
		forget_turn(t);
	}
	point_free(&p);
	return s;
}
