/* SPDX-License-Identifier: Apache-2.0
 * mk_text.c: the small files beside the weights: tokenizer.json, tokenizer_config.json, chat template, generation_config.json.
 * The tokenizer made here knows the control tokens at their published ids, all 256 bytes, and pairs of letters for what is left of the
 * vocabulary. Breaks first: every id below vocab_size has a token, and every text can be encoded.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"

#define TOKENIZER_LIMIT ((size_t)512 << 20)
#define FIRST_BYTE 18 /* the ids before it are control tokens */

static const char *const control[FIRST_BYTE] = {"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<tool_response>", "</tool_response>"};

static const char chat_template[] = "{%- set think = enable_thinking if enable_thinking is defined else false -%}\n"
                                    "{%- for message in messages -%}\n"
                                    "    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' -}}\n"
                                    "{%- endfor -%}\n"
                                    "{%- if add_generation_prompt -%}\n"
                                    "    {{- '<|im_start|>assistant\\n' ~ ('<think>\\n' if think else '<think></think>') -}}\n"
                                    "{%- endif -%}\n";

static const char split_regex[] = " ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+";

static nh_status put_file(const char *dir, const char *name, const void *data, size_t len, nh_error *e)
{
	char *path = path_join(dir, name);
	if (path == NULL) return ERR_NOMEM(e);
	file_writer w = {0};
	nh_status s = file_writer_open(&w, path, e);
	if (s == NH_OK) {
		file_writer_put(&w, data, len);
		s = file_writer_commit(&w, e);
	}
	mem_free(path);
	return s;
}

static int append(const char *data, size_t len, void *user)
{
	buf_append(user, data, len);
	return ((buf *)user)->failed ? -1 : 0;
}

nh_status mk_put_json(const char *dir, const char *name, const json_t *v, nh_error *e)
{
	buf out = {0};
	nh_status s = v == NULL || json_dump_callback(v, append, &out, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) != 0 ? ERR_NOMEM(e) : NH_OK;
	buf_char(&out, '\n');
	if (s == NH_OK) s = out.failed ? ERR_NOMEM(e) : put_file(dir, name, out.data, out.len, e);
	buf_deinit(&out);
	return s;
}

/* The printable stand-in of a byte in byte-level vocabularies: itself where it is printable Latin-1, else U+0100 + n for the n-th other. */
static void byte_letter(int byte, buf *out)
{
	int others = 0;
	for (int b = 0; b <= byte; b++) {
		bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
		if (b == byte) buf_utf8(out, printable ? (unsigned)b : 256u + (unsigned)others);
		others += !printable;
	}
}

/* Pairs over space and the small letters, the likeliest to be met: with merges. What remains are tokens that no text makes. */
static void add_pairs(json_t *vocab, json_t *merges, int64_t from, int64_t vocab_size)
{
	int64_t id = from;
	for (int a = 0; a < 27 && id < vocab_size; a++) {
		for (int b = 1; b < 27 && id < vocab_size; b++) {
			buf left = {0}, right = {0};
			byte_letter(a == 0 ? ' ' : 'a' + a - 1, &left);
			byte_letter('a' + b - 1, &right);
			json_array_append_new(merges, json_pack("[s,s]", left.data, right.data));
			buf_str(&left, right.data);
			json_object_set_new(vocab, left.data, json_integer(id++));
			buf_deinit(&left);
			buf_deinit(&right);
		}
	}
	for (; id < vocab_size; id++) {
		char text[32];
		snprintf(text, sizeof text, "<|%lld|>", (long long)id);
		json_object_set_new(vocab, text, json_integer(id));
	}
}

static json_t *make_tokenizer(int64_t vocab_size)
{
	json_t *added = json_array(), *vocab = json_object(), *merges = json_array();
	for (int i = 0; i < FIRST_BYTE; i++) {
		bool special = i < 12; /* thoughts and tool calls are text that a reader sees */
		json_object_set_new(vocab, control[i], json_integer(i));
		json_array_append_new(added, json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", i, "content", control[i], "single_word", 0, "lstrip",
		                                 0, "rstrip", 0, "normalized", 0, "special", special));
	}
	for (int b = 0; b < 256; b++) {
		buf letter = {0};
		byte_letter(b, &letter);
		json_object_set_new(vocab, letter.failed ? "" : letter.data, json_integer(FIRST_BYTE + b));
		buf_deinit(&letter);
	}
	add_pairs(vocab, merges, FIRST_BYTE + 256, vocab_size);
	json_t *split =
	    json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", split_regex, "behavior", "Isolated", "invert", 0);
	json_t *bytes = json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
	json_t *model =
	    json_pack("{s:s,s:n,s:n,s:n,s:n,s:b,s:b,s:b,s:o,s:o}", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
	        "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
	return json_pack("{s:s,s:n,s:n,s:o,s:n,s:{s:s,s:[o,O]},s:n,s:o,s:o}", "version", "1.0", "truncation", "padding", "added_tokens", added,
	    "normalizer", "pre_tokenizer", "type", "Sequence", "pretokenizers", split, bytes, "post_processor", "decoder", bytes, "model",
	    model);
}

static nh_status write_tokenizer(const char *dir, const nm_config *c, const mk_options *o, nh_error *e)
{
	if (o->tokenizer != NULL) {
		buf text = {0};
		nh_status s = file_read(o->tokenizer, TOKENIZER_LIMIT, &text, e);
		if (s == NH_OK) s = put_file(dir, "tokenizer.json", text.data, text.len, e);
		buf_deinit(&text);
		return s;
	}
	if (c->vocab < FIRST_BYTE + 256) {
		log_line(o->log, NH_LOG_NOTICE, "vocab_size %lld has no room for %d control tokens and 256 bytes: no tokenizer.json is written",
		    (long long)c->vocab, FIRST_BYTE);
		return NH_OK;
	}
	json_t *t = make_tokenizer(c->vocab);
	nh_status s = mk_put_json(dir, "tokenizer.json", t, e);
	json_decref(t);
	return s;
}

nh_status mk_text_files(const char *dir, const nm_config *c, const mk_options *o, nh_error *e)
{
	TRY(write_tokenizer(dir, c, o, e));
	json_t *t = json_pack("{s:s,s:s,s:s,s:s,s:b,s:b,s:b,s:I}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token", "<s>",
	    "eos_token", "<|im_end|>", "unk_token", "<unk>", "add_bos_token", 0, "add_eos_token", 0, "clean_up_tokenization_spaces", 0,
	    "model_max_length", (json_int_t)c->max_positions);
	nh_status s = mk_put_json(dir, "tokenizer_config.json", t, e);
	json_decref(t);
	if (s != NH_OK) return s;
	TRY(put_file(dir, "chat_template.jinja", chat_template, sizeof chat_template - 1, e));
	/* End tokens as published: config.json's and <|im_end|>, where the vocabulary has them (model.md 11.4). Greedy. */
	json_t *g = json_pack(
	    "{s:b,s:i,s:[i],s:i,s:b}", "_from_model_config", 0, "bos_token_id", 1, "eos_token_id", 2, "pad_token_id", 0, "do_sample", 0);
	if (c->vocab > 11) json_array_append_new(json_object_get(g, "eos_token_id"), json_integer(11));
	s = mk_put_json(dir, "generation_config.json", g, e);
	json_decref(g);
	return s;
}
