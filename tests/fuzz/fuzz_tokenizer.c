/* SPDX-License-Identifier: Apache-2.0
 * fuzz_tokenizer.c: any bytes as a tokenizer.json: it is refused with one line that names it, or it opens, encodes texts into ids that exist,
 * and decodes them one by one into valid UTF-8.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "text/detok.h"
#include "text/tok.h"
#include "text/tok_uni.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const tokenizer *t, const char *text, unsigned flags)
{
	tok_ids ids = {0};
	nh_error e = {0};
	nh_status s = tok_encode(t, text, strlen(text), flags, &ids, &e);
	if (s != NH_OK && (s != NH_ERR_LIMIT || ids.count != 0 || !*e.text)) abort();
	buf out = {0};
	detok d;
	detok_init(&d, t, flags & 1);
	for (size_t i = 0; i < ids.count; i++) {
		size_t len;
		if (!tok_piece(t, ids.ids[i], &len)) abort();
		if (detok_push(&d, ids.ids[i], &out) != NH_OK) abort();
	}
	if (detok_flush(&d, &out) != NH_OK || (out.len > 0 && uni_valid_prefix(out.data, out.len) != out.len)) abort();
	buf_deinit(&out);
	tok_ids_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const TEXTS[] = {
	    "", "a", "abc aab  \n\nx1 <s><think>", "\xFF\xE1\x8E\xA0\xF0\x90\xB5\x90", "e\xCC\x81 \xCC\x81\xCC\x95", "aaaaaaaaaaaaaaaa"};
	tokenizer *t;
	nh_error e = {0};
	nh_status s = tok_open_text(&t, (const char *)data, size, "f", &e);
	if ((s == NH_OK) != (t != NULL)) abort();
	if (s != NH_OK && (e.code != s || !strstr(e.text, "f: ") || strchr(e.text, '\n'))) abort();
	for (size_t i = 0; t && i < ARRAY_LEN(TEXTS); i++)
		for (unsigned flags = 0; flags < 8; flags += 3) use(t, TEXTS[i], flags);
	tok_close(t);
	if (mem_live() != 0) abort();
	return 0;
}
