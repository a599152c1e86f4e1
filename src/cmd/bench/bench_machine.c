/* SPDX-License-Identifier: Apache-2.0
 * bench_machine.c: what a record says of the machine, from /proc and /sys, and of the source that the program was made from.
 * The invariant that breaks first: two records are of the same silicon exactly when their "cpu" and "flags" are equal, so nothing that changes
 * from boot to boot belongs there.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/base_buf.h"
#include "base/base_jobs.h"
#include "cmd/bench/bench.h"

#ifndef BENCH_COMMIT
#define BENCH_COMMIT "unknown"
#endif

const char *bench_commit(void) { return BENCH_COMMIT; }

/* The flags that decide which kernels a processor can run. */
static const char *const FLAGS[] = {"sse4_2", "avx", "f16c", "fma", "bmi2", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512dq",
    "avx512vl", "avx512_vbmi", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "bf16",
    "i8mm", "sve"};

/* The value of "key : value" in a line, or NULL. The newline is cut off. */
static char *value_of(char *line, const char *key)
{
	size_t n = strlen(key);
	if (strncmp(line, key, n) != 0 || (line[n] != ' ' && line[n] != '\t' && line[n] != ':')) return NULL;
	char *colon = strchr(line, ':');
	if (!colon) return NULL;
	colon += 1 + strspn(colon + 1, " \t");
	colon[strcspn(colon, "\n")] = 0;
	return colon;
}

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = text; (at = strstr(at, word)) != NULL; at += n) {
		if ((at == text || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
	}
	return false;
}

static void processor(json_t *o)
{
	char line[8192], *v;
	buf flags = {0};
	FILE *f = fopen("/proc/cpuinfo", "r");
	bool named = false, flagged = false;
	while (f && fgets(line, sizeof line, f) && !(named && flagged)) {
		if (!named && ((v = value_of(line, "model name")) != NULL || (v = value_of(line, "CPU part")) != NULL)) {
			json_object_set_new(o, "cpu", json_string(v));
			named = true;
		} else if (!flagged && ((v = value_of(line, "flags")) != NULL || (v = value_of(line, "Features")) != NULL)) {
			for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
				if (has_word(v, FLAGS[i])) buf_printf(&flags, "%s%s", flags.len ? " " : "", FLAGS[i]);
			}
			flagged = true;
		}
	}
	if (f) fclose(f);
	if (!named) json_object_set_new(o, "cpu", json_string("unknown"));
	json_object_set_new(o, "flags", json_string(flags.len && !flags.failed ? flags.data : ""));
	buf_deinit(&flags);
}

/* "always [madvise] never" gives "madvise". */
static void huge_pages(json_t *o)
{
	char line[256] = "", *open, *close;
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	if (f && !fgets(line, sizeof line, f)) line[0] = 0;
	if (f) fclose(f);
	open = strchr(line, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close) *close = 0;
	json_object_set_new(o, "huge_pages", json_string(close ? open + 1 : "unknown"));
}

json_t *bench_machine(void)
{
	struct utsname u;
	json_t *o = json_object();
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	processor(o);
	json_object_set_new(o, "processors", json_integer(jobs_processors()));
	json_object_set_new(o, "kernel", json_string(uname(&u) == 0 ? u.release : "unknown"));
	huge_pages(o);
	json_object_set_new(o, "memory_bytes", json_integer((json_int_t)pages * page));
	return o;
}
