/* SPDX-License-Identifier: Apache-2.0
 * fuzz_seqfile.c: any bytes as a file of a sequence: as they are, and with the checksum put right, since no fuzzer guesses that. What is
 * accepted has the state's size, and can be brought into the pools.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/base_mem.h"
#include "cache/seqfile_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *host_alloc(exec *x, size_t bytes) { return (void)x, mem_alloc(bytes); }
static void host_free(exec *x, void *p) { (void)x, mem_free(p); }
static nh_status host_move(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	return NH_OK;
}
static const backend ARM = {
    .name = "toy", .host_memory = true, .alloc = host_alloc, .free = host_free, .upload = host_move, .download = host_move};

static void bring_in(const swapped *state, states *s, pages *p)
{
	seqmem m;
	if (seqmem_init(&m, s, p, 256, NULL) != NH_OK) abort();
	nh_status r = swap_in(state, &m, NULL);
	if (r == NH_OK ? m.length != swap_length(state) : r != NH_ERR_LIMIT) abort();
	seqmem_deinit(&m);
}

static void one(const uint8_t *data, size_t size, states *s, pages *p)
{
	seqfile_head head;
	int32_t *ids = NULL;
	swapped *state = NULL;
	nh_error e;
	uint8_t nothing = 0;
	FILE *f = fmemopen((void *)(uintptr_t)(size ? data : &nothing), size ? size : 1, "rb");
	if (!f) abort();
	nh_status whole = seqfile_read_stream(f, size, "fuzz", &head, &ids, s, p, &state, &e);
	if (whole == NH_OK) {
		for (int64_t i = 0; i < head.tokens; i++)
			if (ids[i] < 0) abort();
		if (head.computed > head.tokens || swap_length(state) != head.computed || swap_bytes(state) != head.content_bytes) abort();
		if (memchr(head.tier, 0, sizeof head.tier) == NULL) abort();
		bring_in(state, s, p);
	}
	mem_free(ids);
	swap_free(state);
	rewind(f);
	/* The head alone asks no less of the file. */
	if (seqfile_read_stream(f, size, "fuzz", &head, NULL, NULL, NULL, NULL, &e) != NH_OK && whole == NH_OK) abort();
	fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	exec x = {.types = {.conv_state = NUM_BF16, .ssm_state = NUM_F32}, .layer = -1, .arm = "toy"};
	const states_layer mamba = {2, 3, 1, 2, 2};
	const pages_layer kv = {1, 2, 1, 1};
	const size_t live = mem_live();
	states s;
	pages p;
	if (states_open(&s, &ARM, &x, &mamba, 1, 2, NULL) != NH_OK || pages_open(&p, &ARM, &x, &kv, 1, NUM_BF16, 3, NULL) != NH_OK) abort();
	one(data, size, &s, &p);
	if (size >= SEQFILE_SUM_BYTES) {
		uint8_t *right = mem_alloc(size);
		if (!right) abort();
		memcpy(right, data, size);
		uint64_t sum = XXH3_64bits(right, size - SEQFILE_SUM_BYTES);
		memcpy(right + size - SEQFILE_SUM_BYTES, &sum, sizeof sum);
		one(right, size, &s, &p);
		mem_free(right);
	}
	states_close(&s);
	pages_close(&p);
	if (mem_live() != live) abort();
	return 0;
}
