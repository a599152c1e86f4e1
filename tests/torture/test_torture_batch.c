/* SPDX-License-Identifier: Apache-2.0
 * test_torture_batch.c: nemotron batch inside this process, while the nth allocation, read, write or start of a thread fails, alone or with all behind it,
 * for n = 0, 1, 2 ... until nothing fails any more. The command fails or answers; the answers appear whole or not at all; and the same command without
 * faults goes on from there and ends with what an undisturbed run writes. n is printed.
 */
#include "helper_torture.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "cmd/cmd.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 5
#else
#define SLOW 1
#endif

extern const cmd_def cmd_batch;

static char in[600], out[600], partial[620];

static const char REQUESTS[] = "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/"
                               "completions\",\"body\":{\"prompt\":[5,6,7,8],\"max_tokens\":3,\"logprobs\":1}}\n"
                               "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/chat/"
                               "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"}],"
                               "\"max_tokens\":2,\"seed\":3}}\n"
                               "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/"
                               "completions\",\"body\":{\"prompt\":\"abc\",\"max_tokens\":2,\"n\":2,\"stop\":[\"zz\"]}}\n";

static int batch(void)
{
	const char *words[] = {"-q", "--memory", "32M", "--context", "128", "-j", "3", torture_checkpoint(), in, out};
	char *argv[ARRAY_LEN(words)];
	for (size_t i = 0; i < ARRAY_LEN(words); i++) argv[i] = (char *)(uintptr_t)words[i];
	nh_error e = {0};
	cmd_args *a;
	bool help;
	if (cmd_args_parse(&a, &cmd_batch, (int)ARRAY_LEN(argv), argv, &help, &e) != NH_OK) return CMD_FAILED; /* out of memory */
	int status = cmd_batch.run(a);
	cmd_args_free(a);
	return status;
}

/* The answers without the times, one a line; every line must be whole. */
static char *answers(void)
{
	buf text = {0}, b = {0};
	nh_error e = {0};
	if (file_read(out, 1 << 20, &text, &e) != NH_OK) fail_msg("%s", e.text);
	for (char *p = text.data, *end; *p; p = end + 1) {
		end = strchr(p, '\n');
		json_t *line = end ? json_loadb(p, (size_t)(end - p), 0, NULL) : NULL;
		if (!line) fail_msg("no line: %.100s", p);
		json_object_del(json_object_get(json_object_get(line, "response"), "body"), "created");
		char *s = json_dumps(line, JSON_SORT_KEYS);
		buf_str(&b, s);
		buf_char(&b, '\n');
		free(s);
		json_decref(line);
	}
	buf_deinit(&text);
	return buf_take(&b);
}

static void same_answers(const char *want, const char *what, size_t n)
{
	char *got = answers();
	size_t at = 0;
	while (want[at] && want[at] == got[at]) at++;
	const size_t from = at > 120 ? at - 120 : 0;
	if (want[at] || got[at]) fail_msg("%s, n = %zu: ...%.240s... instead of ...%.240s...", what, n, got + from, want + from);
	mem_free(got);
}

static void forget(void)
{
	unlink(out);
	unlink(partial);
}

static void batch_kind(mem_fault kind, bool all, size_t step, const char *want)
{
	size_t n = 0, rounds = 0, failed = 0, whole = 0, resumed = 0, before = mem_live();
	for (bool hit = true; hit; n += step, rounds++) {
		forget();
		torture_arm(kind, n, all);
		int status = batch();
		hit = torture_disarm(kind) > 0;
		if (mem_live() != before) fail_msg("%s, n = %zu: %zu allocations leaked", torture_kind_name(kind), n, mem_live() - before);
		failed += status != CMD_OK;
		whole += file_exists(out);
		if (status == CMD_OK && !file_exists(out)) fail_msg("%s, n = %zu: no answers", torture_kind_name(kind), n);
		if (status == CMD_OK) same_answers(want, torture_kind_name(kind), n);
		if (!file_exists(out)) {
			struct stat st;
			resumed += stat(partial, &st) == 0 && st.st_size > 0;
			if (batch() != CMD_OK) fail_msg("%s, n = %zu: the batch does not go on", torture_kind_name(kind), n);
		}
		same_answers(want, "afterwards", n);
		assert_true(rounds < 3000);
	}
	printf("TORTURE batch: %s fail at n = 0 .. %zu in %zu rounds, %s: %zu failed, %zu whole at once, %zu resumed\n",
	    torture_kind_name(kind), n - step, rounds, all ? "and all behind it" : "each alone", failed, whole, resumed);
	assert_true(failed > 0);
}

static void batches(void **state)
{
	(void)state;
	const char *dir = torture_checkpoint();
	snprintf(in, sizeof in, "%s/../torture-in.jsonl", dir);
	snprintf(out, sizeof out, "%s/../torture-out.jsonl", dir);
	snprintf(partial, sizeof partial, "%s.partial", out);
	file_writer w;
	nh_error e = {0};
	if (file_writer_open(&w, in, &e) != NH_OK) fail_msg("%s", e.text);
	file_writer_put(&w, REQUESTS, sizeof REQUESTS - 1);
	assert_int_equal(file_writer_commit(&w, &e), NH_OK);
	forget();
	assert_int_equal(batch(), CMD_OK);
	char *want = answers();
	forget();
	for (int all = 0; all < 2; all++) {
		batch_kind(MEM_FAULT_READ, all, 1, want);
		batch_kind(MEM_FAULT_WRITE, all, 1, want);
		batch_kind(MEM_FAULT_THREAD, all, 1, want);
		batch_kind(MEM_FAULT_ALLOC, all, (all ? 7 : 3) * SLOW, want);
	}
	forget();
	unlink(in);
	mem_free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches)};
	return cmocka_run_group_tests_name("torture_batch", tests, NULL, NULL);
}
