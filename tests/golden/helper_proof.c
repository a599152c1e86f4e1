/* SPDX-License-Identifier: Apache-2.0
 * helper_proof.c: see helper_proof.h.
 */
#include "helper_proof.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base_file.h"
#include "base/base_json.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

const char *const proof_models[PROOF_MODELS] = {"tiny-bf16", "tiny-fp8", "tiny-nvfp4", "tiny-nvfp4-w4a4"};

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

/* Proofs are of the definition, whatever the program prefers, unless the line names an arm. */
static const char *arm_of(const char *options) { return strstr(options, "--arm") ? "" : "--arm ref"; }

/* Runs verify; returns its exit status and shows its last line. */
static int verify(const place *p, const char *options, bool trace)
{
	char command[2048], line[1024] = "", last[1024] = "";
	snprintf(command, sizeof command, "'%s/nemotron' verify '%s' %s '%s' %s %s 2>&1", NH_BINARY_DIR, p->model, trace ? "--trace" : "",
	    p->golden, options, arm_of(options));
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

static int ran, left_out;

void proof_expect(const char *model, const char *golden, const char *options, proof_kind kind, bool quick, int status)
{
	place p;
	if (!find(&p, model, golden)) {
		printf("NOT RUN: %s.%s is not there\n", model, golden);
		left_out++;
		return;
	}
	if (SANITIZED && !quick) {
		printf("NOT RUN: verify %s.%s %s: too slow under sanitizers\n", model, golden, options);
		left_out++;
		return;
	}
	ran++;
	int got = verify(&p, options, kind == PROOF_TRACE);
	if (got != status) fail_msg("verify %s.%s %s: exit status %d, expected %d", model, golden, options, got, status);
}

bool proof_path(const char *model, const char *golden, char path[PROOF_PATH])
{
	place p;
	bool there = find(&p, model, golden);
	snprintf(path, PROOF_PATH, "%s", p.golden);
	return there;
}

json_t *proof_report(const char *model, const char *golden, const char *options)
{
	place p;
	char command[2048];
	json_error_t e;
	if (SANITIZED || !find(&p, model, golden)) {
		printf("NOT RUN: verify %s.%s %s: %s\n", model, golden, options, SANITIZED ? "too slow under sanitizers" : "it is not there");
		left_out++;
		return NULL;
	}
	snprintf(command, sizeof command, "'%s/nemotron' verify '%s' '%s' %s %s --json 2>/dev/null", NH_BINARY_DIR, p.model, p.golden, options,
	    arm_of(options));
	FILE *f = popen(command, "r");
	assert_non_null(f);
	json_t *report = json_loadf(f, 0, &e);
	pclose(f);
	if (!report) fail_msg("%s: %s", command, e.text);
	ran++;
	return report;
}

void proof_begin(void) { ran = left_out = 0; }

void proof_end(int expected)
{
	printf("%d of %d verifications ran\n", ran, expected);
	assert_int_equal(ran + left_out, expected);
	if (ran == 0) skip();
}

void proof_wrong_checkpoint(void)
{
	place p;
	if (SANITIZED || !find(&p, "tiny-bf16", "f64-exact.json")) {
		printf("NOT RUN: no golden of another checkpoint\n");
		left_out++;
		return;
	}
	snprintf(p.model, sizeof p.model, "%s/models/tiny", NH_SOURCE_DIR);
	assert_int_equal(verify(&p, "", false), 3);
	ran++;
}
