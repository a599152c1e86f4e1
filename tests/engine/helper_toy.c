/* SPDX-License-Identifier: Apache-2.0
 * helper_toy.c: see helper_toy.h.
 */
#include "helper_toy.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/base_mem.h"
#include "cache/pages.h"
#include "num/num_conv.h"
#include "test.h"

static void complain(toy *t, const char *format, ...)
{
	if (atomic_fetch_add(&t->complaints, 1)) return;
	va_list args;
	va_start(args, format);
	vsnprintf(t->complaint, sizeof t->complaint, format, args);
	va_end(args);
}

static int32_t i32(const tensor *t, int64_t i) { return *(const int32_t *)tensor_row(t, i); }
static int64_t i64(const tensor *t, int64_t i) { return *(const int64_t *)tensor_row(t, i); }
static double get(const tensor *t, int64_t i) { return num_load(t->dtype, tensor_row(t, i), 0); }
static void set(const tensor *t, int64_t i, double v) { num_store(t->dtype, tensor_row(t, i), 0, v); }

#define PROMISE(c, ...)                     \
	do {                                    \
		if (!(c)) complain(t, __VA_ARGS__); \
	} while (0)

/* What the engine promises of a step, whoever is in it. Lines of the page table belong to sequences: rows of one are adjacent and ascend. */
static void check_batch(toy *t, const step_batch *b)
{
	PROMISE(b->T > 0 && b->D >= 0 && b->D <= b->T, "T %d D %d S %d", b->T, b->D, b->S);
	PROMISE(b->seg_row.shape[0] == b->S + 1 && i32(&b->seg_row, 0) == b->D && i32(&b->seg_row, b->S) == b->T, "seg_row");
	const int64_t width = b->page_table.shape[1];
	for (int r = 0; r < b->T; r++) {
		int64_t pos = i32(&b->pos, r), line = i32(&b->row_seq, r);
		bool follows = r > 0 && i32(&b->row_seq, r - 1) == line;
		PROMISE(!follows || pos == i32(&b->pos, r - 1) + 1, "row %d: position %lld", r, (long long)pos);
		PROMISE(r == 0 || follows || line == i32(&b->row_seq, r - 1) + 1, "row %d: line %lld", r, (long long)line);
		int32_t page = ((const int32_t *)b->page_table.data)[line * width + pos / b->page_tokens];
		PROMISE(i64(&b->kv_slot, r) == (int64_t)page * b->page_tokens + pos % b->page_tokens, "row %d: kv_slot %lld", r,
		    (long long)i64(&b->kv_slot, r));
		if (r >= b->D) continue;
		PROMISE(i32(&b->slot_in, r) >= 0 && i32(&b->slot_out, r) >= 0, "decode slots");
		if (follows) PROMISE(i32(&b->slot_in, r) == i32(&b->slot_out, r - 1), "row %d: a draft reads the state before it", r);
		else PROMISE(i32(&b->slot_in, r) == i32(&b->slot_out, r), "row %d: a pending token replaces its state", r);
		for (int o = 0; o < r; o++) PROMISE(i32(&b->slot_out, o) != i32(&b->slot_out, r), "rows %d and %d write one slot", o, r);
		if (follows) atomic_fetch_add(&t->draft_rows, 1);
	}
	for (int i = 0; i < b->S; i++) {
		int64_t pos = i32(&b->seg_pos, i), origin = i32(&b->seg_origin, i);
		PROMISE(pos == i32(&b->pos, i32(&b->seg_row, i)), "seg_pos %lld", (long long)pos);
		PROMISE(pos % TOY_CHUNK == 0 || pos == origin, "a piece starts at %lld, its segment at %lld", (long long)pos, (long long)origin);
		PROMISE((i32(&b->seg_in, i) == -1) == (pos == 0), "seg_in %d at %lld", i32(&b->seg_in, i), (long long)pos);
		PROMISE(i32(&b->seg_out, i) >= 0, "seg_out");
		for (int o = 0; o < b->D; o++) PROMISE(i32(&b->slot_out, o) != i32(&b->seg_out, i), "a slot with two writers");
	}
	if (b->D && b->S) atomic_fetch_add(&t->mixed, 1);
	if ((int)b->page_table.shape[0] > atomic_load(&t->most)) atomic_store(&t->most, (int)b->page_table.shape[0]);
	int at = atomic_load(&t->count);
	if (at < TOY_STEPS)
		t->steps[at] = (toy_step){.T = b->T,
		    .D = b->D,
		    .S = b->S,
		    .R = b->R,
		    .pages = (int)width,
		    .pos = i32(&b->pos, 0),
		    .origin = b->S ? i32(&b->seg_origin, 0) : -1};
	atomic_fetch_add(&t->count, 1);
}

static void fill_logits(const toy *t, const tensor *row, double h, double keys, int64_t pos, int32_t id)
{
	for (int v = 0; v < TOY_VOCAB; v++) {
		double l = fmod(h * 31 + v * 7919.0 + keys * 17, 1009) / 100;
		if (t->script && pos + 1 < t->script_len && t->script[pos + 1] == v) l += 50;
		if (pos == t->nan_at || (t->nan_id && id == t->nan_id)) l = NAN;
		if (t->cycle && v == 3 + (id + 1) % t->cycle && (int64_t)fmod(h, 7) != 0) l += 50;
		num_store(row->dtype, row->data, (size_t)v, l);
	}
}

/* The state of one number lies at the end of a slot's two tensors. */
static double run_row(toy *t, const step_batch *b, const model_state *s, int r, double h)
{
	const tensor *k = &s->kv[0].k;
	const int32_t *line = (const int32_t *)b->page_table.data + i32(&b->row_seq, r) * b->page_table.shape[1];
	tensor stored = tensor_nd(k->data, k->dtype, 2, (const int64_t[]){k->shape[0] * PAGES_TOKENS, k->shape[2] * k->shape[3]});
	int64_t pos = i32(&b->pos, r);
	set(&stored, i64(&b->kv_slot, r), i32(&b->ids, r));
	double keys = 0;
	for (int64_t p = 0; p <= pos; p++)
		keys += get(&stored, (int64_t)line[p / PAGES_TOKENS] * PAGES_TOKENS + p % PAGES_TOKENS) * (double)(p % 5 + 1);
	t->state[r] = fmod(h * 31 + i32(&b->ids, r) + (r < b->D ? 500 : 1), 100003);
	t->keys[r] = keys;
	return t->state[r];
}

static void forward(const model *m, exec *x, const step_batch *b, const model_state *s, const model_tap *tap, tensor *logits)
{
	toy *t = (toy *)(uintptr_t)m;
	x->layer = -1;
	size_t mark = arena_mark(x->scratch);
	exec_scratch(x, NUM_F64, b->T, 100); /* a hidden state that nobody needs */
	arena_rewind(x->scratch, mark);
	tensor hidden = exec_scratch(x, x->types.act, b->T, 1);
	*logits = exec_scratch(x, x->types.act, b->R, TOY_VOCAB);
	model_hidden *want = tap->hidden;
	if (want && want->count) want->out = exec_scratch(x, x->types.act, want->count, m->shape.hidden);
	if (!x->backend || x->status != NH_OK) return; /* dry */
	check_batch(t, b);
	if (atomic_load(&t->sleep_us)) usleep((useconds_t)atomic_load(&t->sleep_us));
	while (atomic_load(&t->hold)) usleep(1000);
	const tensor *ssm = &s->mamba[0].ssm;
	double h = 0;
	int out = 0, seg = -1;
	for (int r = 0; r < b->T; r++) {
		int64_t pos = i32(&b->pos, r);
		if (r < b->D) h = get(ssm, i32(&b->slot_in, r));
		else if (seg + 1 < b->S && i32(&b->seg_row, seg + 1) == r) h = i32(&b->seg_in, ++seg) < 0 ? 1 : get(ssm, i32(&b->seg_in, seg));
		h = run_row(t, b, s, r, h);
		set(ssm, r < b->D ? i32(&b->slot_out, r) : i32(&b->seg_out, seg), h);
		set(&hidden, r, h);
		if (pos == t->fail_at) {
			exec_fail(x, OP_linear, NH_ERR_BACKEND, "broken on purpose");
			return;
		}
		if (out >= b->R || i32(&b->out_rows, out) != r) continue;
		tensor row = tensor_rows(logits, out++, 1);
		fill_logits(t, &row, h, t->keys[r], pos, i32(&b->ids, r));
	}
	PROMISE(out == b->R, "out_rows");
	for (int k = 0; want && k < want->count; k++)
		for (int64_t j = 0; j < m->shape.hidden; j++) {
			tensor row = tensor_rows(&want->out, k, 1);
			num_store(row.dtype, row.data, (size_t)j, t->state[i32(&want->rows, k)] + (double)j);
		}
	if (tap->fn) {
		tap->fn(tap->user, "embedding", &hidden);
		if (b->R) tap->fn(tap->user, "logits", logits);
	}
}

static void close_nothing(model *m) { (void)m; }
static const model_family FAMILY = {.name = "toy", .close = close_nothing, .forward = forward};
static const model_mamba_shape MAMBA[] = {{.layer = 0, .taps = 2, .channels = 3, .heads = 1, .head_dim = 1, .state = 1}};
static const model_kv_shape KV[] = {{.layer = 1, .kv_heads = 1, .head_dim = 2, .k_scale = 2, .v_scale = 3}};
static const int32_t END[] = {2};

void toy_open(toy *t, const char *profile, bool host_memory)
{
	memset(t, 0, sizeof *t);
	const backend *ref = backend_find("ref");
	nh_error e = {0};
	t->arm = *ref;
	t->arm.host_memory = host_memory;
	assert_int_equal(ref->open(&t->base, &(backend_options){.num = num_profile(profile)}, &e), NH_OK);
	t->m = (model){.family = &FAMILY,
	    .shape = {.layers = 2,
	        .hidden = 4,
	        .vocab = TOY_VOCAB,
	        .chunk = TOY_CHUNK,
	        .max_positions = 1024,
	        .pattern = "M*",
	        .mamba_layers = 1,
	        .attn_layers = 1,
	        .mamba = MAMBA,
	        .kv = KV,
	        .ssm_dtype = NUM_F32}};
	t->parts.arm = &t->arm;
	t->parts.base = t->parts.x = t->base;
	t->parts.m = &t->m;
	t->parts.kv = t->base->types.kv;
	t->parts.end = END;
	t->parts.end_count = 1;
	t->nan_at = t->fail_at = -1;
}

void toy_close(toy *t)
{
	if (atomic_load(&t->complaints)) fail_msg("%d broken promises, the first: %s", atomic_load(&t->complaints), t->complaint);
	backend_find("ref")->close(t->base);
}

engine_spec toy_spec(const int32_t *prompt, size_t count, int64_t max_tokens)
{
	return (engine_spec){.prompt = prompt, .prompt_tokens = count, .max_tokens = max_tokens, .top_p = 1, .repetition_penalty = 1};
}

int32_t *toy_prompt(size_t count, unsigned seed)
{
	int32_t *p = mem_array(count, sizeof *p);
	for (size_t i = 0; i < count; i++) {
		seed = seed * 1103515245u + 12345u;
		p[i] = (int32_t)(3 + (seed >> 16) % (TOY_VOCAB - 3)); /* no end token */
	}
	return p;
}

static void *copy(const void *p, size_t bytes)
{
	if (!bytes) return NULL;
	void *to = mem_alloc(bytes);
	memcpy(to, p, bytes);
	return to;
}

void toy_collect(toy_run *out, engine_request *r) { toy_collect_session(out, r, NULL); }

void toy_collect_session(toy_run *out, engine_request *r, engine_session **kept)
{
	memset(out, 0, sizeof *out);
	out->event = mem_array(4096, sizeof *out->event);
	out->token = mem_array(4096, sizeof *out->token);
	engine_event v;
	nh_status s;
	bool over = false;
	while ((s = engine_request_next(r, &v, 60000000)) == NH_OK) {
		assert_true(out->count < 4096);
		assert_false(over); /* nothing after the last */
		over = v.last;
		strncat(out->reasoning, v.reasoning, sizeof out->reasoning - strlen(out->reasoning) - 1);
		strncat(out->content, v.content, sizeof out->content - strlen(out->content) - 1);
		assert_int_equal(strlen(v.content), v.content_bytes);
		assert_int_equal(strlen(v.reasoning), v.reasoning_bytes);
		if (v.type == NH_EVENT_TOKEN && v.choice == 0) out->token[out->tokens++] = v.token;
		if (v.type == NH_EVENT_DONE || v.type == NH_EVENT_ERROR) {
			out->finish = v.finish;
			out->stop_index = v.stop_index;
			out->stats = v.stats;
			if (v.type == NH_EVENT_ERROR) out->error = *v.error;
		}
		engine_event *to = &out->event[out->count++];
		*to = v;
		to->top = copy(v.top, v.top_count * sizeof *v.top);
		to->want = copy(v.want, v.want_count * sizeof *v.want);
		to->content = to->reasoning = NULL;
		to->error = NULL;
	}
	assert_int_equal(s, NH_ERR_STATE);
	assert_true(over);
	nh_error e = {0};
	if (kept && engine_session_take(r, kept, &e) != NH_OK) fail_msg("%s", e.text);
	engine_request_release(r);
}

void toy_run_free(toy_run *r)
{
	for (size_t i = 0; i < r->count; i++) {
		mem_free(r->event[i].top);
		mem_free(r->event[i].want);
	}
	mem_free(r->event);
	mem_free(r->token);
	memset(r, 0, sizeof *r);
}

void toy_do(toy_run *out, engine *g, const engine_spec *spec)
{
	nh_error e = {0};
	engine_request *r = NULL;
	nh_status s = engine_submit(g, spec, &r, &e);
	if (s != NH_OK) fail_msg("submit: %s", e.text);
	toy_collect(out, r);
}

void toy_same_events(const toy_run *a, const toy_run *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->finish, b->finish);
	for (size_t i = 0; i < a->count; i++) {
		const engine_event *x = &a->event[i], *y = &b->event[i];
		assert_int_equal(x->type, y->type);
		assert_int_equal(x->token, y->token);
		assert_int_equal(x->position, y->position);
		assert_int_equal(x->best_id, y->best_id);
		assert_int_equal(x->rank, y->rank);
		assert_memory_equal(&x->logprob, &y->logprob, sizeof x->logprob);
		assert_memory_equal(&x->margin, &y->margin, sizeof x->margin);
		assert_int_equal(x->top_count, y->top_count);
		assert_int_equal(x->want_count, y->want_count);
		if (x->top_count) assert_memory_equal(x->top, y->top, x->top_count * sizeof *x->top);
		if (x->want_count) assert_memory_equal(x->want, y->want, x->want_count * sizeof *x->want);
	}
}
