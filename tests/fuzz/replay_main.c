/* SPDX-License-Identifier: Apache-2.0
 * replay_main.c: runs a fuzz target over the files of corpus folders, without libFuzzer and with any compiler. Each file is also
 * tried cut short and with bytes changed, always in the same way, so that a parser meets more than the inputs somebody thought of.
 * Each input lies in a block of exactly its size: a sanitizer sees one byte too far. No input at all is a failure. --plain first: the files as they
 * are and nothing else, which is what scripts/check_fuzz_reach counts.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUTS = 16, CHANGES = 16, VARIED_BYTES = 1 << 16 };

static unsigned g_files, g_runs;
static int g_plain;

static void try_one(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	if (!exact) abort();
	if (size) memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	g_runs++;
}

static uint32_t next(uint32_t *x) { return *x = *x * 1664525u + 1013904223u; }

static void vary(uint8_t *data, size_t size)
{
	static const uint8_t values[] = {0, '"', '{', '[', '\\', '%', '9', '-', 0x7F, 0x80, 0xC3, 0xFF};
	uint32_t x = 1;
	if (size == 0 || size > VARIED_BYTES) return;
	for (int i = 0; i < CUTS; i++) try_one(data, (next(&x) >> 8) % size);
	for (int i = 0; i < CHANGES; i++) {
		size_t at = (next(&x) >> 8) % size;
		uint8_t old = data[at];
		data[at] = i % 2 ? (uint8_t)(old ^ (1u << (next(&x) >> 29))) : values[(next(&x) >> 8) % sizeof values];
		try_one(data, size);
		data[at] = old;
	}
}

static int replay(const char *path)
{
	FILE *f = fopen(path, "rb");
	long size = -1;
	if (f && fseek(f, 0, SEEK_END) == 0) size = ftell(f);
	uint8_t *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
	if (!data || fseek(f, 0, SEEK_SET) != 0 || fread(data, 1, (size_t)size, f) != (size_t)size) {
		fprintf(stderr, "cannot read %s\n", path);
		if (f) fclose(f);
		free(data);
		return 1;
	}
	fclose(f);
	/* When the target dies, the last line says on what. */
	printf("%s\n", path);
	fflush(stdout);
	try_one(data, (size_t)size);
	if (!g_plain) vary(data, (size_t)size);
	free(data);
	g_files++;
	return 0;
}

int main(int argc, char **argv)
{
	int bad = 0;
	g_plain = argc > 1 && strcmp(argv[1], "--plain") == 0;
	try_one((const uint8_t *)"", 0);
	for (int i = 1 + g_plain; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		if (!d) {
			bad |= replay(argv[i]); /* a single file: what a fuzzer found */
			continue;
		}
		for (struct dirent *x; (x = readdir(d)) != NULL;) {
			char path[4096];
			if (x->d_name[0] == '.') continue;
			snprintf(path, sizeof path, "%s/%s", argv[i], x->d_name);
			bad |= replay(path);
		}
		closedir(d);
	}
	printf("%u files, %u inputs\n", g_files, g_runs);
	return bad || g_files == 0;
}
