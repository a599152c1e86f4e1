/* SPDX-License-Identifier: Apache-2.0
 * fuzz_seqfile.c: any bytes as a file of a sequence: as they are, and with the checksum put right, since no fuzzer guesses that. What is
 * accepted has the state's size, and can be brought into the pools.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/base_file.h"
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

/* What was accepted, written and read again, is the same. */
static void there_and_back(const seqfile_head *head, const int32_t *ids, const swapped *state, const states *s, const pages *p)
{
	char folder[] = "/dev/shm/fuzz-seqfile.XXXXXX", path[64]; /* no disk that it would wait for */
	seqfile_head again, alone;
	int32_t *ids2 = NULL;
	swapped *state2 = NULL;
	nh_error e;
	if (!mkdtemp(folder)) return; /* not here */
	snprintf(path, sizeof path, "%s/f", folder);
	if (seqfile_write(path, head, ids, state, &e) != NH_OK) abort();
	if (seqfile_read(path, &again, &ids2, s, p, &state2, &e) != NH_OK || seqfile_head_read(path, &alone, &e) != NH_OK) abort();
	if (again.tokens != head->tokens || alone.computed != head->computed || memcmp(ids, ids2, (size_t)head->tokens * sizeof *ids) != 0)
		abort();
	if (memcmp(swap_content(state), swap_content(state2), swap_bytes(state)) != 0) abort();
	mem_free(ids2);
	swap_free(state2);
	if (unlink(path) != 0 || rmdir(folder) != 0) abort();
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
		there_and_back(&head, ids, state, s, p);
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
