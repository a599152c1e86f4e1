/* SPDX-License-Identifier: Apache-2.0
 * helper_fmt.c: see helper_fmt.h.
 */
#include "helper_fmt.h"

#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"

static int drop(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path);
}

const char *fmt_dir(const char *name)
{
	static char path[1024];
	mkdir(FMT_SCRATCH, 0777);
	snprintf(path, sizeof path, "%s/%s.%ld", FMT_SCRATCH, name, (long)getpid());
	nftw(path, drop, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(mkdir(path, 0777), 0);
	return path;
}

char *fmt_path(const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	assert_non_null(path);
	return path;
}

void fmt_write(const char *dir, const char *name, const void *data, size_t len)
{
	char *path = fmt_path(dir, name);
	for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = 0;
		mkdir(path, 0777);
		*p = '/';
	}
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	mem_free(path);
}

void fmt_text(const char *dir, const char *name, const char *text) { fmt_write(dir, name, text, strlen(text)); }

void fmt_st(buf *out, const char *header, size_t data)
{
	size_t n = strlen(header);
	for (int i = 0; i < 8; i++) buf_char(out, (char)(n >> (8 * i)));
	buf_append(out, header, n);
	for (size_t i = 0; i < data; i++) buf_char(out, (char)i);
	assert_false(out->failed);
}

void fmt_write_st(const char *dir, const char *name, const char *header, size_t data)
{
	buf b = {0};
	fmt_st(&b, header, data);
	fmt_write(dir, name, b.data, b.len);
	buf_deinit(&b);
}

json_t *fmt_json(const char *text)
{
	json_t *v;
	nh_error e = {0};
	if (jsn_load_text(&v, text, strlen(text), "test", &e) != NH_OK) fail_msg("%s: %s", e.text, text);
	return v;
}

static void keep(void *user, nh_log_level level, const char *text)
{
	(void)level;
	buf_printf(user, "%s\n", text);
}

logger fmt_logger(buf *lines) { return (logger){.fn = keep, .user = lines, .level = NH_LOG_DEBUG}; }
