/* SPDX-License-Identifier: Apache-2.0
 * fuzz_index.c: any bytes as model.safetensors.index.json. No shard name that is accepted may leave the folder.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "fmt/st_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	st_index *x;
	nh_error e;
	size_t live = mem_live();
	if (st_index_parse(&x, (const char *)data, size, "fuzz", &e) == NH_OK) {
		for (size_t i = 0; i < st_index_shards(x); i++)
			if (strchr(st_index_shard(x, i), '/') || strcmp(st_index_shard(x, i), "..") == 0) abort();
		for (size_t i = 0; i < st_index_count(x); i++) {
			const st_index_entry *t = st_index_at(x, i);
			if (t->shard >= st_index_shards(x) || st_index_find(x, t->tensor) != t) abort();
		}
		if (st_index_total_bytes(x) < -1) abort();
		st_index_close(x);
	}
	if (mem_live() != live) abort();
	return 0;
}
