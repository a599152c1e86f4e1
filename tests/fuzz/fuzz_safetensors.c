/* SPDX-License-Identifier: Apache-2.0
 * fuzz_safetensors.c: any bytes as a safetensors file. What is accepted must be readable to its last byte and findable by name.
 */
#include <stdint.h>
#include <stdlib.h>

#include <string.h>

#include "base/base_mem.h"
#include "fmt/safetensors.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same bytes as a file: no more and no less is accepted. */
static void as_file(const uint8_t *data, size_t size, nh_status want)
{
	char path[40];
	st_file *f;
	nh_error e;
	int fd = fuzz_file(path, data, size);
	if (st_file_open(&f, path, &e) != want) abort();
	if (want == NH_OK) {
		size_t bytes;
		const uint8_t *header = st_file_header(f, &bytes);
		if (strcmp(st_file_path(f), path) != 0 || memcmp(header, data + 8, bytes) != 0) abort();
		for (size_t i = 0; i < st_file_count(f); i++) {
			const st_tensor *t = st_file_at(f, i);
			if (!st_dtype_name(t->dtype)) abort();
			st_file_drop(f, t);
		}
		st_file_close(f);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	st_file *f;
	nh_error e;
	size_t live = mem_live(), bytes = 0;
	unsigned sum = 0;
	nh_status s = st_file_parse(&f, data, size, "fuzz", &e);
	as_file(data, size, s);
	if (s == NH_OK) {
		for (size_t i = 0; i < st_file_count(f); i++) {
			const st_tensor *t = st_file_at(f, i);
			for (size_t k = 0; k < t->bytes; k++) sum += t->data[k];
			bytes += t->bytes;
			if (st_file_find(f, t->name) != t) abort();
			if (t->bytes && (t->data < data || t->data + t->bytes > data + size)) abort();
		}
		if (bytes != st_file_data_bytes(f)) abort();
		st_file_metadata(f, "format");
		st_file_close(f);
	}
	if (mem_live() != live) abort();
	return sum == 0xFFFFFFFFu; /* keeps the reads */
}
