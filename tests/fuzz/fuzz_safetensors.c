/* SPDX-License-Identifier: Apache-2.0
 * fuzz_safetensors.c: any bytes as a safetensors file. What is accepted must be readable to its last byte and findable by name.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/base_mem.h"
#include "fmt/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	st_file *f;
	nh_error e;
	size_t live = mem_live(), bytes = 0;
	unsigned sum = 0;
	if (st_file_parse(&f, data, size, "fuzz", &e) == NH_OK) {
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
