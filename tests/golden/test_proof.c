/* SPDX-License-Identifier: Apache-2.0
 * test_proof.c: the whole proof, through the program's own `verify`: every golden, under every profile that may be judged by it. The built-in model's goldens
 * are in this tree; those of the other checkpoints are read where they are published and are NOT RUN without.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static const char *const MODELS[] = {"tiny-bf16", "tiny-fp8", "tiny-nvfp4", "tiny-nvfp4-w4a4"};

typedef struct {
	char model[512], golden[512];
} place;

static bool is_builtin(const char *model) { return strcmp(model, "tiny-nvfp4") == 0; }

/* Where a model and one of its goldens lie; false: not there. */
static bool find(place *p, const char *model, const char *golden)
{
	snprintf(
	    p->model, sizeof p->model, "%s/models/%s", is_builtin(model) ? NH_SOURCE_DIR : NH_SHARED_DIR, is_builtin(model) ? "tiny" : model);
	snprintf(p->golden, sizeof p->golden, "%s/tests/golden/data/%s.%s", NH_SOURCE_DIR, model, golden);
	if (!file_exists(p->golden)) snprintf(p->golden, sizeof p->golden, "%s/goldens/%s.%s", NH_SHARED_DIR, model, golden);
	return file_exists(p->model) && file_exists(p->golden);
}

/* Runs verify; returns its exit status and shows its last line. */
static int verify(const place *p, const char *options, bool trace)
{
	char command[2048], line[1024] = "", last[1024] = "";
	snprintf(command, sizeof command, "'%s/nemotron' verify '%s' %s '%s' %s 2>&1", NH_BINARY_DIR, p->model, trace ? "--trace" : "",
	    p->golden, options);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		if (line[0] == ' ') printf("%s", line);
		snprintf(last, sizeof last, "%s", line);
	}
	int status = pclose(f);
	printf("PROOF %s %s: %s", path_base(p->golden), options, last);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int ran;

static void expect(const char *model, const char *golden, const char *options, bool trace, int status)
{
	place p;
	if (!find(&p, model, golden)) {
		printf("NOT RUN: %s.%s is not there\n", model, golden);
		return;
	}
	ran++;
	int got = verify(&p, options, trace);
	if (got != status) fail_msg("verify %s.%s %s: exit status %d, expected %d", model, golden, options, got, status);
}

static void begin(void **state)
{
	(void)state;
	ran = 0;
}

static void end(int expected)
{
	if (ran == 0) skip();
	printf("%d of %d verifications ran\n", ran, expected);
	if (ran > 1 && file_exists(NH_SHARED_DIR "/goldens")) assert_int_equal(ran, expected);
}

static void exact(void **state)
{
	begin(state);
	for (size_t i = 0; i < ARRAY_LEN(MODELS); i++) {
		expect(MODELS[i], "f64-exact.json", "", false, 0);
		expect(MODELS[i], "f64-exact.teacher.json", "", false, 0);
	}
	expect("tiny-nvfp4-w4a4", "f64-exact-weight-only.json", "", false, 0);
	expect("tiny-nvfp4-w4a4", "f64-exact-weight-only.teacher.json", "", false, 0);
	end(10);
}

static void strict(void **state)
{
	begin(state);
	for (size_t i = 0; i < ARRAY_LEN(MODELS); i++) {
		expect(MODELS[i], "vllm.strict.json", "--numerics portable", false, 0);
		expect(MODELS[i], "vllm.strict.json", "--numerics hopper", false, 0);
		expect(MODELS[i], "vllm.strict.json", "--numerics exact-wo", false, 0);
	}
	end(12);
}

static void distance(void **state)
{
	begin(state);
	for (size_t i = 0; i < ARRAY_LEN(MODELS); i++) {
		char noise[700];
		snprintf(noise, sizeof noise, "--noise '%s/goldens/%s.vllm-compiled.json' --numerics hopper", NH_SHARED_DIR, MODELS[i]);
		expect(MODELS[i], "vllm-eager.json", noise, false, 0);
		snprintf(noise, sizeof noise, "--noise '%s/goldens/%s.vllm-compiled.json' --numerics portable", NH_SHARED_DIR, MODELS[i]);
		expect(MODELS[i], "vllm-eager.json", noise, false, 0);
	}
	end(8);
}

static void traces(void **state)
{
	begin(state);
	expect("tiny-bf16", "f64-exact.trace.safetensors", "", true, 0);
	expect("tiny-nvfp4", "f64-exact.trace.safetensors", "", true, 0);
	for (size_t i = 0; i < ARRAY_LEN(MODELS); i++) expect(MODELS[i], "vllm-eager.layers.safetensors", "", true, 0);
	end(6);
}

/* What must not be judged is refused, with exit status 3, before any verdict. */
static void refusals(void **state)
{
	begin(state);
	expect("tiny-nvfp4", "f64-exact.json", "--numerics portable", false, 3);
	expect("tiny-nvfp4-w4a4", "vllm.strict.json", "--numerics exact", false, 3);
	expect("tiny-nvfp4-w4a4", "vllm-eager.json", "--numerics exact", false, 3);
	expect("tiny-nvfp4", "vllm-eager.json", "", false, 3); /* no --noise */
	place p;
	if (find(&p, "tiny-nvfp4", "f64-exact.json") && find(&p, "tiny-bf16", "f64-exact.json")) { /* another checkpoint */
		snprintf(p.model, sizeof p.model, "%s/models/tiny", NH_SOURCE_DIR);
		assert_int_equal(verify(&p, "", false), 3);
		ran++;
	}
	end(5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exact), cmocka_unit_test(strict), cmocka_unit_test(distance),
	    cmocka_unit_test(traces), cmocka_unit_test(refusals)};
	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
