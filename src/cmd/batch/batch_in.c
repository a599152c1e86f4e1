/* SPDX-License-Identifier: Apache-2.0
 * batch_in.c: the input file, mapped and cut into lines, so that its size is no matter. Knows nothing of JSON.
 * Breaks first: numbers count all lines of the file, blank ones too, as an editor does.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "cmd/batch/batch.h"

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr(" \t\r", text[i]) == NULL || text[i] == '\0') return false;
	return true;
}

/* Calls for each line that is not blank; counts only where lines is NULL. */
static size_t cut(const file_map *m, batch_line *lines)
{
	const char *p = (const char *)m->data, *end = p + m->size;
	size_t count = 0;
	for (uint64_t number = 1; p < end; number++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		if (stop == NULL) stop = end;
		size_t len = (size_t)(stop - p);
		if (!is_blank(p, len)) {
			if (lines != NULL) lines[count] = (batch_line){.number = number, .text = p, .len = len};
			count++;
		}
		p = stop + 1;
	}
	return count;
}

nh_status batch_in_open(batch_in *in, const char *path, nh_error *e)
{
	*in = (batch_in){.path = path};
	TRY(file_map_open(&in->map, path, e));
	in->count = cut(&in->map, NULL);
	in->lines = mem_array(in->count + 1, sizeof *in->lines);
	if (in->lines == NULL) return ERR_NOMEM(e);
	cut(&in->map, in->lines);
	return NH_OK;
}

void batch_in_close(batch_in *in)
{
	file_map_close(&in->map);
	mem_free(in->lines);
	mem_free((void *)(uintptr_t)in->salt);
	*in = (batch_in){0};
}

nh_status batch_name(const batch_in *in, const batch_line *line, char out[BATCH_NAME_MAX], nh_error *e)
{
	char hex[65];
	sha256 *h = sha256_create();
	if (h == NULL) return ERR_NOMEM(e);
	if (in->salt != NULL) sha256_update(h, in->salt, strlen(in->salt));
	sha256_update(h, line->text, line->len);
	sha256_finish(h, hex);
	snprintf(out, BATCH_NAME_MAX, "%012" PRIu64 "_%.16s", line->number, hex);
	return NH_OK;
}

uint64_t batch_seed(const char *name)
{
	uint64_t seed = 0;
	for (; *name != '\0'; name++) seed = rng_mix(seed ^ (unsigned char)*name);
	return seed >> 1; /* fits the seed of a request, so that one line can be asked again alone */
}

static int by_number(const void *key, const void *line)
{
	uint64_t a = *(const uint64_t *)key, b = ((const batch_line *)line)->number;
	return (a > b) - (a < b);
}

batch_line *batch_line_at(const batch_in *in, uint64_t number)
{
	return bsearch(&number, in->lines, in->count, sizeof *in->lines, by_number);
}
