/* SPDX-License-Identifier: Apache-2.0
 * test_torture_io.c: the nth read, write, start of a thread or allocation fails, alone or with all behind it, for n = 0, 1, 2 ... until nothing fails any
 * more: while a model and an engine open, and on the way of requests whose prefixes are spilled and found again, and of a session through a file. Each
 * time: a clear error or a right answer, nothing half-written, no leak; and then everything works as before. Through the public interface. n is printed.
 */
#include "helper_torture.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 3
#else
#define SLOW 1
#endif

#define PROMPTS 4
#define LONG 200 /* tokens: snapshots at 64, 128 and 192 */

static void check_error(const char *what, mem_fault kind, size_t n, nh_status s, const nh_error *e)
{
	bool fits = kind == MEM_FAULT_ALLOC    ? s == NH_ERR_NOMEM
	            : kind == MEM_FAULT_THREAD ? s == NH_ERR_NOMEM || s == NH_ERR_STATE
	                                       : s == NH_ERR_IO;
	if (!fits || !e->text[0]) fail_msg("%s: %s, n = %zu: %s: %s", what, torture_kind_name(kind), n, nh_status_name(s), e->text);
}

/* --- opening --- */

/* A model without a template is good for texts and ids: what is wrong with it is told to whoever renders. */
static size_t told_by_the_template(nh_model *m, mem_fault kind, size_t n)
{
	static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
	const nh_template *t = nh_model_template(m);
	nh_error e = {0};
	char *text = NULL;
	size_t bytes;
	nh_status s = t ? nh_template_render(t, chat, sizeof chat - 1, 0, -1, &text, &bytes, &e) : NH_OK;
	nh_free(text);
	if (s != NH_ERR_IO) fail_msg("opening: %s, n = %zu: the failure went unnoticed", torture_kind_name(kind), n);
	return 1;
}

static size_t opening_kind(mem_fault kind, const char *arm, bool all)
{
	size_t failures = 0, late = 0, before = mem_live();
	for (bool hit = true; hit;) {
		nh_model *m;
		nh_engine *g;
		nh_error e = {0};
		torture_arm(kind, failures, all);
		nh_status s = torture_open(arm, &m, &g, &e);
		hit = torture_disarm(kind) > 0;
		if (s == NH_OK && hit) late += told_by_the_template(m, kind, failures);
		if (s != NH_OK) check_error("opening", kind, failures, s, &e);
		nh_engine_close(g);
		nh_model_close(m);
		if (mem_live() != before)
			fail_msg("opening: %s, n = %zu: %zu allocations leaked", torture_kind_name(kind), failures, mem_live() - before);
		failures += hit;
		assert_true(failures < 2000);
	}
	printf("TORTURE opening%s%s: %s fail at n = 0 .. %zu, %s; %zu told by the template\n", arm ? " on " : "", arm ? arm : "",
	    torture_kind_name(kind), failures, all ? "and all behind it" : "each alone", late);
	return failures;
}

static void opening(void **state)
{
	(void)state;
	torture_checkpoint();
	for (int all = 0; all < 2; all++) {
		assert_true(opening_kind(MEM_FAULT_READ, NULL, all) >= 10);
		assert_true(opening_kind(MEM_FAULT_THREAD, "ref", all) >= 1);
		assert_true(opening_kind(MEM_FAULT_THREAD, "cpu", all) >= 3); /* two workers and the engine */
	}
}

/* --- requests, spilled prefixes, a session through a file --- */

typedef struct round_result {
	answer ask[PROMPTS + 2]; /* the prompts, then two of them again */
	answer first, on;        /* a request whose session is kept; what continues it */
	nh_status opened, saved, loaded;
	nh_error e_opened, e_saved, e_loaded;
	size_t spilled; /* files */
	nh_engine_stats stats;
} round_result;

static char folder[512], spill_folder[600], session_file[600];
static int32_t prompt[PROMPTS][LONG];
static uint64_t budget;

static void empty(const char *dir)
{
	file_list l;
	nh_error e;
	if (!file_is_dir(dir)) return;
	if (file_list_dir(&l, dir, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < l.count; i++) {
		char *p = path_join(dir, l.names[i]);
		if (!file_is_dir(p)) unlink(p);
		mem_free(p);
	}
	file_list_free(&l);
}

/* Nothing half-written stays: no file carries a temporary's name. */
static void no_remains(const char *dir, mem_fault kind, size_t n)
{
	file_list l;
	nh_error e;
	if (!file_is_dir(dir)) return;
	if (file_list_dir(&l, dir, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < l.count; i++)
		if (strstr(l.names[i], ".tmp.")) fail_msg("%s, n = %zu: %s/%s stays", torture_kind_name(kind), n, dir, l.names[i]);
	file_list_free(&l);
}

/* The session of `first`, out to a file and back in, and two more tokens. */
static void through_file(nh_engine *g, round_result *r)
{
	nh_session *kept = NULL, *back = NULL;
	r->saved = r->loaded = r->on.status = NH_ERR_STATE;
	r->first = torture_ask(g, 1, NULL, &kept);
	if (r->first.status == NH_OK && kept) {
		r->saved = nh_session_save(kept, session_file, &r->e_saved);
		r->loaded = nh_session_load(g, session_file, 0, &back, &r->e_loaded); /* what was there before, where it was not saved */
		if (r->loaded == NH_OK) r->on = torture_ask(g, 1, back, NULL);
	}
	nh_session_close(back);
	nh_session_close(kept);
}

/* Without base_file, whose reads may be failing. */
static size_t files_in(const char *dir)
{
	size_t n = 0;
	DIR *d = opendir(dir);
	for (const struct dirent *x; d && (x = readdir(d)) != NULL;) n += x->d_name[0] != '.';
	if (d) closedir(d);
	return n;
}

/* One engine spills, and writes it all before it is closed; another one finds what it wrote. */
static void round_run(nh_model *m, round_result *r)
{
	nh_engine *g;
	memset(r, 0, sizeof *r);
	r->opened = torture_engine(m, &g, spill_folder, budget, &r->e_opened);
	if (r->opened != NH_OK) return;
	for (int i = 0; i < PROMPTS; i++) r->ask[i] = torture_ask_long(g, prompt[i], LONG);
	nh_engine_close(g);
	r->spilled = files_in(spill_folder);
	r->opened = torture_engine(m, &g, spill_folder, budget, &r->e_opened);
	if (r->opened != NH_OK) return;
	for (int i = 0; i < 2; i++) r->ask[PROMPTS + i] = torture_ask_long(g, prompt[i], LONG);
	through_file(g, r);
	nh_engine_get_stats(g, &r->stats, sizeof r->stats);
	nh_engine_close(g);
}

/* Room for little more than one of the prompts and a few snapshots, so that each prompt evicts the one before. */
static uint64_t tight_budget(nh_model *m)
{
	nh_engine *g;
	nh_engine_stats s;
	nh_error e = {0};
	if (torture_engine(m, &g, NULL, 0, &e) != NH_OK) fail_msg("%s", e.text);
	nh_engine_get_stats(g, &s, sizeof s);
	nh_engine_close(g);
	assert_true(s.slots_total > 0 && s.pages_total > 0);
	return s.state_bytes / s.slots_total * 9 + s.kv_bytes / s.pages_total * 16;
}

/* An answer is right, or the request says what is missing. */
static void check_answer(const char *what, mem_fault kind, size_t n, const answer *want, const answer *got)
{
	const nh_error e = {.text = "event"};
	if (got->status == NH_OK || kind == MEM_FAULT_READ || kind == MEM_FAULT_WRITE) torture_expect(what, n, want, got);
	else check_error(what, kind, n, got->status, &e);
}

static void check_round(mem_fault kind, size_t n, const round_result *want, const round_result *r)
{
	if (r->opened != NH_OK) check_error("opening", kind, n, r->opened, &r->e_opened);
	else {
		for (int i = 0; i < PROMPTS + 2; i++) check_answer("a long request", kind, n, &want->ask[i], &r->ask[i]);
		/* Answered, but without memory for its session: whoever asks for that is told that there is none. */
		if (kind != MEM_FAULT_ALLOC || r->first.status != NH_ERR_STATE) check_answer("a request", kind, n, &want->first, &r->first);
		if (r->first.status == NH_OK && r->saved != NH_OK) check_error("saving", kind, n, r->saved, &r->e_saved);
		if (r->first.status == NH_OK && r->loaded != NH_OK) check_error("loading", kind, n, r->loaded, &r->e_loaded);
		if (r->loaded == NH_OK) check_answer("a continued request", kind, n, &want->on, &r->on);
	}
	no_remains(folder, kind, n);
	no_remains(spill_folder, kind, n);
}

/* Without faults: the saved file is whole, be it the old or the new one, and everything works. */
static void check_after(nh_model *m, mem_fault kind, size_t n, const round_result *want)
{
	nh_engine *g;
	nh_session *s;
	nh_error e = {0};
	if (torture_engine(m, &g, spill_folder, budget, &e) != NH_OK)
		fail_msg("%s, n = %zu: opening again: %s", torture_kind_name(kind), n, e.text);
	if (nh_session_load(g, session_file, 0, &s, &e) != NH_OK) fail_msg("%s, n = %zu: %s", torture_kind_name(kind), n, e.text);
	answer on = torture_ask(g, 1, s, NULL), again = torture_ask_long(g, prompt[0], LONG);
	nh_session_close(s);
	nh_engine_close(g);
	torture_expect("afterwards, a continued request", n, &want->on, &on);
	torture_expect("afterwards, a long request", n, &want->ask[0], &again);
}

static void requests_kind(nh_model *m, mem_fault kind, bool all, size_t step, const round_result *want)
{
	size_t n = 0, rounds = 0, fails[5] = {0}, before = mem_live();
	for (bool hit = true; hit; n += step, rounds++) {
		round_result r;
		empty(spill_folder);
		torture_arm(kind, n, all);
		round_run(m, &r);
		hit = torture_disarm(kind) > 0;
		check_round(kind, n, want, &r);
		if (mem_live() != before) fail_msg("%s, n = %zu: %zu allocations leaked", torture_kind_name(kind), n, mem_live() - before);
		fails[0] += r.opened != NH_OK;
		fails[1] += r.opened == NH_OK && r.saved == NH_ERR_IO;
		fails[2] += r.opened == NH_OK && r.loaded == NH_ERR_IO;
		fails[3] += r.spilled < want->spilled;
		fails[4] += r.opened == NH_OK && r.stats.reused_tokens < want->stats.reused_tokens;
		if (rounds % 4 == 0 || !hit) check_after(m, kind, n, want);
		assert_true(rounds < 2000);
	}
	printf("TORTURE requests and files: %s fail at n = 0 .. %zu in %zu rounds, %s: opening %zu, saving %zu, loading %zu, fewer spilled "
	       "%zu, less found "
	       "again %zu\n",
	    torture_kind_name(kind), n - step, rounds, all ? "and all behind it" : "each alone", fails[0], fails[1], fails[2], fails[3],
	    fails[4]);
	assert_true(fails[0] > 0);
	if (kind == MEM_FAULT_WRITE && !all) assert_true(fails[1] > 0 && fails[3] > 0);
	if (kind == MEM_FAULT_READ && !all) assert_true(fails[2] > 0 && fails[4] > 0);
}

static void requests(void **state)
{
	(void)state;
	nh_model *m;
	nh_engine *g;
	nh_error e = {0};
	round_result want, again;
	size_t before = mem_live();
	for (int i = 0; i < PROMPTS; i++)
		for (int k = 0; k < LONG; k++) prompt[i][k] = 3 + (i * 71 + k * (i + 3)) % 300;
	snprintf(folder, sizeof folder, "%s/../torture-files", torture_checkpoint());
	snprintf(spill_folder, sizeof spill_folder, "%s/spill", folder);
	snprintf(session_file, sizeof session_file, "%s/session", folder);
	mkdir(folder, 0777);
	empty(folder);
	if (torture_open(NULL, &m, &g, &e) != NH_OK) fail_msg("%s", e.text);
	nh_engine_close(g);
	budget = tight_budget(m);
	empty(spill_folder);
	round_run(m, &want);
	if (want.opened != NH_OK) fail_msg("%s", want.e_opened.text);
	for (int i = 0; i < PROMPTS + 2; i++) assert_int_equal(want.ask[i].status, NH_OK);
	if (want.loaded != NH_OK) fail_msg("%s %s", want.e_saved.text, want.e_loaded.text);
	assert_true(want.on.status == NH_OK && torture_same(&want.ask[0], &want.ask[PROMPTS]));
	printf("TORTURE a round spills %zu prefixes and finds %d again\n", want.spilled, (int)want.stats.spill_loads);
	assert_true(want.spilled > 2 && want.stats.spill_loads > 0);
	empty(spill_folder);
	round_run(m, &again);
	check_round(MEM_FAULT_READ, 0, &want, &again);
	requests_kind(m, MEM_FAULT_WRITE, false, SLOW, &want);
	requests_kind(m, MEM_FAULT_WRITE, true, 3 * SLOW, &want);
	requests_kind(m, MEM_FAULT_READ, false, SLOW, &want);
	requests_kind(m, MEM_FAULT_READ, true, 3 * SLOW, &want);
	requests_kind(m, MEM_FAULT_ALLOC, false, 7 * SLOW, &want);
	requests_kind(m, MEM_FAULT_ALLOC, true, 11 * SLOW, &want);
	requests_kind(m, MEM_FAULT_THREAD, false, 1, &want);
	nh_model_close(m);
	assert_int_equal(mem_live(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(opening), cmocka_unit_test(requests)};
	return cmocka_run_group_tests_name("torture_io", tests, NULL, NULL);
}
