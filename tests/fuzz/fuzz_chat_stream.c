/* SPDX-License-Identifier: Apache-2.0
 * fuzz_chat_stream.c: the reasoning split and the stop strings: any text, cut anywhere, gives what the whole text gives.
 * Input: one byte of flags, one seed byte for the cuts, then the text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "chat/reasoning.h"
#include "chat/stop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct result {
	buf thought, answer, stopped;
	int found;
} result;

static void receive(void *user, reasoning_kind kind, const char *text, size_t len)
{
	result *r = user;
	buf_append(kind == REASONING_THOUGHT ? &r->thought : &r->answer, text, len);
}

static void run(result *r, uint8_t flags, uint64_t seed, const char *text, size_t len)
{
	static const char *const STOPS[] = {"\n\n", "abab", "ab", "</think>", "\xC3\xA9"};
	reasoning_split split;
	stop_filter stop;
	nh_error e;
	reasoning_init(&split, flags & 1, "<think>", "</think>", receive, r);
	if (stop_init(&stop, STOPS + (flags >> 2 & 3), (flags >> 4 & 1) + 1, flags & 2, &e) != NH_OK) abort();
	for (size_t at = 0; at < len;) {
		size_t n = seed ? 1 + (size_t)(rng_unit(seed, at, 0) * 5) : len;
		if (n > len - at) n = len - at;
		reasoning_push(&split, text + at, n, &e);
		stop_push(&stop, text + at, n, &r->stopped, &e);
		at += n;
	}
	reasoning_finish(&split, &e);
	stop_finish(&stop, &r->stopped, &e);
	r->found = stop.found;
	reasoning_deinit(&split);
	stop_deinit(&stop);
}

static bool same(const buf *a, const buf *b) { return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2) return 0;
	result r[2] = {{.found = -1}, {.found = -1}};
	for (int i = 0; i < 2; i++) run(&r[i], data[0], i ? data[1] + 1u : 0, (const char *)data + 2, size - 2);
	if (!same(&r[0].thought, &r[1].thought) || !same(&r[0].answer, &r[1].answer) || !same(&r[0].stopped, &r[1].stopped)) abort();
	if (r[0].found != r[1].found) abort();
	for (int i = 0; i < 2; i++) {
		buf_deinit(&r[i].thought);
		buf_deinit(&r[i].answer);
		buf_deinit(&r[i].stopped);
	}
	if (mem_live() != 0) abort();
	return 0;
}
