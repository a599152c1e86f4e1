/* SPDX-License-Identifier: Apache-2.0
 * helper_cmd.c: see the header. Output goes through files, so that no pipe can fill up.
 */
#include "helper_cmd.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static char g_dir[64];

int dir_setup(void **state)
{
	(void)state;
	snprintf(g_dir, sizeof g_dir, "/tmp/test_cmd.XXXXXX");
	return mkdtemp(g_dir) != NULL ? 0 : -1;
}

static void remove_tree(const char *path)
{
	file_list l = {0};
	if (!file_is_dir(path)) {
		unlink(path);
		return;
	}
	if (file_list_dir(&l, path, NULL) == NH_OK) {
		for (size_t i = 0; i < l.count; i++) {
			char *p = path_join(path, l.names[i]);
			if (p != NULL) remove_tree(p);
			mem_free(p);
		}
		file_list_free(&l);
	}
	rmdir(path);
}

int dir_teardown(void **state)
{
	(void)state;
	remove_tree(g_dir);
	return 0;
}

const char *dir_path(const char *name)
{
	static char path[4][512];
	static unsigned turn;
	char *p = path[turn++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", g_dir, name);
	return p;
}

void dir_put(const char *name, const char *text)
{
	FILE *f = fopen(dir_path(name), "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

outcome run_program(const char *in, int want, const char *format, ...)
{
	char command[4096], line[5120];
	outcome o = {0};
	va_list list;
	va_start(list, format);
	vsnprintf(command, sizeof command, format, list);
	va_end(list);
	dir_put(".in", in != NULL ? in : "");
	snprintf(line, sizeof line, "N='%s/nemotron'; D='%s'; { %s ; } < $D/.in > $D/.out 2> $D/.err", NH_BINARY_DIR, g_dir, command);
	int status = system(line);
	o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	nh_error e = {0};
	if (file_read(dir_path(".out"), 1 << 26, &o.out, &e) != NH_OK || file_read(dir_path(".err"), 1 << 26, &o.err, &e) != NH_OK)
		fail_msg("%s", e.text);
	buf_append(&o.out, "", 0);
	buf_append(&o.err, "", 0);
	if (want != o.status)
		fail_msg("%s\nstatus %d, expected %d\nout: %.2000s\nerr: %.2000s", command, o.status, want, o.out.data, o.err.data);
	return o;
}

void outcome_free(outcome *o)
{
	buf_deinit(&o->out);
	buf_deinit(&o->err);
}

void says(const char *in, int status, const char *command, const char *out, const char *err)
{
	outcome o = run_program(in, status, "%s", command);
	if (out != NULL && strcmp(o.out.data, out) != 0) fail_msg("%s: wrote \"%s\", expected \"%s\"", command, o.out.data, out);
	if (err != NULL && strstr(o.err.data, err) == NULL) fail_msg("%s: said \"%s\", expected \"%s\"", command, o.err.data, err);
	outcome_free(&o);
}

void has(const char *in, const char *command, const char *text)
{
	outcome o = run_program(in, 0, "%s", command);
	if (strstr(o.out.data, text) == NULL) fail_msg("%s: wrote \"%s\", without \"%s\"", command, o.out.data, text);
	outcome_free(&o);
}

int program_missing(void)
{
	if (file_exists(NH_BINARY_DIR "/nemotron")) return 0;
	printf("NOT RUN: the program is not built\n");
	return 77;
}
