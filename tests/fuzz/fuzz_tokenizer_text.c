/* SPDX-License-Identifier: Apache-2.0
 * fuzz_tokenizer_text.c: any bytes as text, after one byte that picks the tokenizer and the flags: what goes in comes out of the streaming
 * decoder, repaired, where no normaliser and no split that removes is in the way.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "text/detok.h"
#include "text/tok.h"
#include "text/tok_uni.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FAMILY                                                                                                               \
	"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^" \
	"\\\\r\\\\n\\\\p{L}"                                                                                                     \
	"\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| "             \
	"?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r"                                                                                       \
	"\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const struct {
	const char *members;
	bool lossless;
} KINDS[] = {
    {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" FAMILY
     "\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
        true},
    {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"ab\"},\"behavior\":"
     "\"MergedWithNext\"},{"
     "\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
        true},
    {"\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
     "\"Regex\":\"\\\\w*\"},"
     "\"behavior\":\"Removed\"},{\"type\":\"ByteLevel\"}]}",
        false},
    {"\"normalizer\":{\"type\":\"NFD\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}", false},
};

static tokenizer *open_kind(size_t kind)
{
	buf b = {0};
	tokenizer *t;
	buf_printf(&b,
	    "{%s,\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},"
	    "{\"id\":301,\"content\":\"[w]\",\"single_word\":true,\"normalized\":false},{\"id\":302,\"content\":\"\xC3\xA9t\xC3\xA9!\"}],"
	    "\"model\":{\"merges\":[[\"a\",\"b\"],[\"b\",\"c\"],[\"a\",\"bc\"],[\"ab\",\"c\"],[\"a\",\"a\"]],\"vocab\":{\"ab\":256,\"bc\":257,"
	    "\"abc\":258,\"aa\":259",
	    KINDS[kind].members);
	for (unsigned i = 0; i < 256; i++) {
		uint32_t c = uni_byte_char((uint8_t)i);
		buf_str(&b, c == '"' || c == '\\' ? ",\"\\" : ",\"");
		buf_utf8(&b, c);
		buf_printf(&b, "\":%u", i);
	}
	buf_str(&b, "}}}");
	if (tok_open_text(&t, b.data, b.len, "fixed", NULL) != NH_OK) abort();
	buf_deinit(&b);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) return 0;
	const char *text = (const char *)data + 1;
	size_t len = size - 1, kind = data[0] % ARRAY_LEN(KINDS);
	tokenizer *t = open_kind(kind);
	tok_ids ids = {0};
	nh_error e = {0};
	buf out = {0}, want = {0};
	detok d;
	if (tok_encode(t, text, len, data[0] / ARRAY_LEN(KINDS) % 8, &ids, &e) != NH_OK) abort();
	detok_init(&d, t, false);
	for (size_t i = 0; i < ids.count; i++) {
		if (ids.ids[i] < 0 || (size_t)ids.ids[i] >= tok_vocab(t)) abort();
		/* this one has characters of the byte alphabet, so the reference decodes it as other bytes */
		size_t n;
		const char *piece = tok_piece(t, ids.ids[i], &n);
		if (tok_find(t, piece, n) < 0 || (tok_is_special(t, ids.ids[i]) && !tok_is_added(t, ids.ids[i]))) abort();
		if (ids.ids[i] == 302) buf_append(&out, piece, n);
		else if (detok_push(&d, ids.ids[i], &out) != NH_OK) abort();
	}
	if (detok_flush(&d, &out) != NH_OK) abort();
	uni_repair(&want, text, len);
	if (KINDS[kind].lossless && (want.len != out.len || (want.len > 0 && memcmp(want.data, out.data, want.len) != 0))) abort();
	buf_deinit(&out);
	buf_deinit(&want);
	tok_ids_deinit(&ids);
	tok_close(t);
	if (mem_live() != 0) abort();
	return 0;
}
