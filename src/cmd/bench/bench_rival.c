/* SPDX-License-Identifier: Apache-2.0
 * bench_rival.c: another program that prints a figure, run between our passes, so that both meet the same machine. Knows nothing of what it
 * measures: the last number on its standard output counts, or the one that a pattern finds.
 * The invariant that breaks first: a rival that fails or prints no number is an error, never a missing column.
 */
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_buf.h"
#include "cmd/bench/bench.h"

#define OUTPUT_LIMIT ((size_t)1 << 20)

/* Standard output of `sh -c command` and its exit status. */
static nh_status output_of(const char *command, buf *out, int *status, nh_error *e)
{
	int ends[2];
	pid_t pid;
	posix_spawn_file_actions_t actions;
	char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)command, NULL};
	if (pipe(ends) != 0) return ERR(e, NH_ERR_IO, "--rival: no pipe: %s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	int failed = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	char part[4096];
	ssize_t n = 0;
	while (!failed && ((n = read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0 && out->len < OUTPUT_LIMIT) buf_append(out, part, (size_t)n);
	close(ends[0]);
	if (failed) return ERR(e, NH_ERR_IO, "--rival: sh does not start: %s", strerror(failed));
	while (waitpid(pid, status, 0) < 0 && errno == EINTR) continue;
	buf_char(out, 0);
	return out->failed ? ERR_NOMEM(e) : NH_OK;
}

static bool last_number(const char *text, double *out)
{
	bool found = false;
	for (const char *at = text; *at;) {
		char *end = NULL;
		bool begins = strchr("0123456789.", *at) != NULL && (at == text || strchr(" \t\n:=([,", at[-1]) != NULL);
		double v = begins ? strtod(at, &end) : 0;
		if (!begins || end == at) {
			at++;
			continue;
		}
		*out = v;
		found = true;
		at = end;
	}
	return found;
}

static nh_status matched(const char *text, const char *pattern, double *out, nh_error *e)
{
	regex_t re;
	regmatch_t m[2];
	bool found = false;
	const bool reads = regcomp(&re, pattern, REG_EXTENDED | REG_NEWLINE) == 0;
	if (!reads || re.re_nsub < 1) {
		if (reads) regfree(&re);
		return ERR(e, NH_ERR_ARG, "--rival-pattern: is %.100s, expected an extended regular expression with a group", pattern);
	}
	for (const char *at = text; regexec(&re, at, 2, m, 0) == 0 && m[0].rm_eo > 0; at += m[0].rm_eo) {
		if (m[1].rm_so < 0) continue;
		*out = strtod(at + m[1].rm_so, NULL);
		found = true;
	}
	regfree(&re);
	return found ? NH_OK : ERR(e, NH_ERR_NOTFOUND, "--rival: its output has nothing that --rival-pattern finds");
}

nh_status bench_rival(const cmd_args *a, double *out, nh_error *e)
{
	const char *pattern = cmd_string(a, "rival-pattern", NULL);
	buf text = {0};
	int status = 0;
	nh_status s = output_of(cmd_string(a, "rival", "true"), &text, &status, e);
	if (s == NH_OK && status != 0)
		s = ERR(e, NH_ERR_STATE, "--rival: ended with %s %d", WIFEXITED(status) ? "status" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	if (s == NH_OK && pattern) s = matched(text.data, pattern, out, e);
	else if (s == NH_OK && !last_number(text.data, out)) s = ERR(e, NH_ERR_NOTFOUND, "--rival: its output has no number");
	if (s == NH_OK && !(isfinite(*out) && *out > 0)) s = ERR(e, NH_ERR_ARG, "--rival: printed %g, expected more than 0", *out);
	buf_deinit(&text);
	return s;
}
