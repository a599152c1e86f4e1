/* SPDX-License-Identifier: Apache-2.0
 * test_engine_spill.c: an engine whose evicted prefixes go to a folder: another engine finds them there, and says what it says cold. A full disk,
 * a damaged file, a file that was never renamed and a process that is killed while it writes cost the reuse and one notice, nothing else.
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "base/base_rng.h"
#include "common/model_bench.h"
#include "engine/engine.h"
#include "engine/open.h"

#define PROMPTS 6
#define LENGTH 200 /* snapshots at 64, 128 and 192 */
#define ANSWER 4

typedef struct answer {
	int32_t token[ANSWER];
	double logprob[ANSWER];
	uint64_t reused;
} answer;

static engine_model *m;
static int32_t prompt[PROMPTS][LENGTH];
static answer cold[PROMPTS];
static uint64_t slot_bytes, page_bytes;
static char folder[1024], model_path[1024];
static int notices; /* of the spill; read when no engine is open */

static void note(void *user, nh_log_level level, const char *text)
{
	(void)user;
	(void)level;
	notices += strncmp(text, "spill: ", 7) == 0;
}

static void open_model(void)
{
	nh_error e = {0};
	if (engine_model_open(&m, model_path, &(open_options){.log = {note, NULL, NH_LOG_NOTICE}}, &e) != NH_OK) fail_msg("%s", e.text);
}

/* Room for little more than one of the prompts and a few snapshots, so that each prompt evicts the one before. */
static engine *open_engine(bool spill)
{
	engine *g;
	nh_error e = {0};
	const engine_options o = {.max_context = 256,
	    .max_sequences = 1,
	    .no_prefix_cache = !spill,
	    .spill_dir = spill ? folder : NULL,
	    .memory_bytes = slot_bytes ? 6 * slot_bytes + 12 * page_bytes : 0};
	if (engine_open(&g, &m->parts, &o, &e) != NH_OK) fail_msg("%s", e.text);
	return g;
}

static answer ask(engine *g, int i)
{
	const engine_spec s = {.prompt = prompt[i],
	    .prompt_tokens = LENGTH,
	    .max_tokens = ANSWER,
	    .top_p = 1,
	    .repetition_penalty = 1,
	    .temperature = 1,
	    .seed = (uint64_t)i,
	    .top_logprobs = 1,
	    .ignore_end = true};
	engine_request *r;
	engine_event v;
	nh_error e = {0};
	answer a = {0};
	int n = 0;
	if (engine_submit(g, &s, &r, &e) != NH_OK) fail_msg("%s", e.text);
	while (engine_request_next(r, &v, -1) == NH_OK) {
		if (v.type == NH_EVENT_ERROR) fail_msg("%s", v.error->text);
		if (v.type == NH_EVENT_TOKEN) {
			a.token[n] = v.token;
			a.logprob[n++] = v.logprob;
		}
		if (v.type == NH_EVENT_DONE) a.reused = v.stats.reused_tokens;
	}
	engine_request_release(r);
	assert_int_equal(n, ANSWER);
	return a;
}

/* Each prompt once, on an engine of its own; returns the tokens that were reused. */
static uint64_t ask_all(engine_stats *s)
{
	engine *g = open_engine(true);
	uint64_t reused = 0;
	for (int i = 0; i < PROMPTS; i++) {
		answer a = ask(g, i);
		assert_memory_equal(a.token, cold[i].token, sizeof a.token);
		assert_memory_equal(a.logprob, cold[i].logprob, sizeof a.logprob);
		reused += a.reused;
	}
	engine_get_stats(g, s);
	engine_close(g);
	return reused;
}

/* Calls fn for each file of the folder; the count. */
static int each_file(void (*fn)(const char *path))
{
	file_list l;
	assert_int_equal(file_list_dir(&l, folder, NULL), NH_OK);
	int n = (int)l.count;
	for (int i = 0; i < n && fn; i++) {
		char path[1400];
		snprintf(path, sizeof path, "%s/%s", folder, l.names[i]);
		fn(path);
	}
	file_list_free(&l);
	return n;
}

static void delete_file(const char *path) { assert_int_equal(unlink(path), 0); }

static void damage(const char *path)
{
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, -100, SEEK_END), 0);
	int c = fgetc(f);
	assert_int_equal(fseek(f, -100, SEEK_END), 0);
	fputc(c ^ 1, f);
	fclose(f);
}

/* As a crash between the last write and the renaming leaves it. */
static void take_name(const char *path)
{
	char temp[1500];
	snprintf(temp, sizeof temp, "%s.tmp.77.1", path);
	assert_int_equal(rename(path, temp), 0);
}

static void empty_folder(void)
{
	if (mkdir(folder, 0777) != 0) each_file(delete_file);
	notices = 0;
}

static int set_up(void **state)
{
	(void)state;
	static const char *const CONFIG[] = {"hidden_size=32", "vocab_size=320", "chunk_size=8", "mamba_num_heads=2", "mamba_head_dim=16",
	    "ssm_state_size=16", "n_groups=1", "max_position_embeddings=4096"};
	const mk_options o = {.format = MK_MIXED, .seed = 5, .pattern = "M*EM-", .config = CONFIG, .config_count = ARRAY_LEN(CONFIG)};
	snprintf(model_path, sizeof model_path, "%s", bench_checkpoint("spill", &o));
	snprintf(folder, sizeof folder, "%s/tests/engine-spill", NH_BINARY_DIR);
	open_model();
	for (int i = 0; i < PROMPTS; i++)
		for (int k = 0; k < LENGTH; k++) prompt[i][k] = (int32_t)(rng_u64(4, (uint64_t)k, (uint64_t)i) % (uint64_t)m->m->shape.vocab);
	engine *g = open_engine(false);
	engine_stats s;
	for (int i = 0; i < PROMPTS; i++) cold[i] = ask(g, i);
	engine_get_stats(g, &s);
	slot_bytes = s.state_bytes / s.slots_total;
	page_bytes = s.kv_bytes / s.pages_total;
	engine_close(g);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	empty_folder();
	rmdir(folder);
	engine_model_close(m);
	return mem_live() == 0 ? 0 : -1;
}

static void another_engine_finds_them(void **state)
{
	(void)state;
	engine_stats s;
	empty_folder();
	assert_int_equal(ask_all(&s), 0); /* the first of each */
	assert_true(s.evictions > 0);
	int files = each_file(NULL);
	assert_true(files >= PROMPTS - 1);
	engine_model_close(m); /* as another process would */
	open_model();
	uint64_t reused = ask_all(&s);
	printf("%d files; opened again: %d of %d prompt tokens reused, %d read\n", files, (int)reused, PROMPTS * LENGTH, (int)s.spill_loads);
	assert_true(s.spill_loads >= PROMPTS - 1);
	assert_true(reused >= (PROMPTS - 1) * 128);
	/* Another profile has other bits, and finds nothing. */
	engine_model *was = m;
	nh_error e = {0};
	if (engine_model_open(&m, model_path, &(open_options){.arm = "ref", .numerics = "hopper"}, &e) != NH_OK) fail_msg("%s", e.text);
	engine *g = open_engine(true);
	assert_int_equal(ask(g, 0).reused, 0);
	engine_close(g);
	engine_model_close(m);
	m = was;
	assert_int_equal(notices, 0);
}

static void a_full_disk(void **state)
{
	(void)state;
	struct rlimit was, little;
	engine_stats s;
	empty_folder();
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	little = (struct rlimit){2000, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	uint64_t reused = ask_all(&s) + ask_all(&s);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_true(s.evictions > 0);
	assert_int_equal(each_file(NULL), 0);
	/* What is still on its way may serve a second time; from the disk nothing comes. */
	assert_true(reused == 0);
	assert_int_equal(notices, 2); /* one an engine */
}

static void damaged_files(void **state)
{
	(void)state;
	engine_stats s;
	empty_folder();
	ask_all(&s);
	int files = each_file(damage);
	notices = 0;
	assert_int_equal(ask_all(&s), 0);
	assert_int_equal(notices, files); /* each is told once, and gone */
	assert_true(ask_all(&s) > 0);     /* good ones were written instead */
	assert_int_equal(notices, files);
	/* A single one. */
	empty_folder();
	engine *g = open_engine(true);
	for (int i = 0; i < 2; i++) ask(g, i);
	engine_close(g);
	assert_true(each_file(damage) > 0);
	g = open_engine(true);
	answer a = ask(g, 0);
	engine_close(g);
	assert_int_equal(a.reused, 0);
	assert_memory_equal(a.token, cold[0].token, sizeof a.token);
	assert_memory_equal(a.logprob, cold[0].logprob, sizeof a.logprob);
	assert_true(notices >= 1);
}

static void a_crash_before_the_renaming(void **state)
{
	(void)state;
	engine_stats s;
	empty_folder();
	ask_all(&s);
	int files = each_file(take_name);
	assert_true(files > 0);
	assert_int_equal(ask_all(&s), 0);
	assert_int_equal(s.spill_loads, 0);
	assert_true(each_file(NULL) > files); /* the remains lie there, and do not disturb */
	assert_true(ask_all(&s) > 0);
	assert_int_equal(notices, 0);
}

/* Killed at some moment of its work, several times; what lies there then is whole or not used. */
static void killed_while_it_writes(void **state)
{
	(void)state;
	engine_stats s;
	int least = 1000, most = 0;
	for (int round = 0; round < 6; round++) {
		empty_folder();
		fflush(NULL);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			engine *g = open_engine(true);
			for (int i = 0;; i = (i + 1) % PROMPTS) ask(g, i);
		}
		for (int looks = 0; each_file(NULL) < 2 * round && looks < 20000; looks++) usleep(500);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, NULL, 0), child);
		int files = each_file(NULL);
		if (files < least) least = files;
		if (files > most) most = files;
		ask_all(&s);
		assert_int_equal(notices, 0);
	}
	printf("killed with %d to %d files\n", least, most);
	assert_true(most > least);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(another_engine_finds_them),
	    cmocka_unit_test(a_full_disk),
	    cmocka_unit_test(damaged_files),
	    cmocka_unit_test(a_crash_before_the_renaming),
	    cmocka_unit_test(killed_while_it_writes),
	};
	return cmocka_run_group_tests_name("engine_spill", tests, set_up, tear_down);
}
