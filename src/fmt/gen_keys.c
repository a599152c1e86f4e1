/* SPDX-License-Identifier: Apache-2.0
 * gen_keys.c: the keys of generation_config.json that ask for something which is not done here, so that they can be named. Knows no request: how a
 * text is drawn is the engine's. The invariant that breaks first: a key that is in no list here is named, whatever it says.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_json.h"
#include "fmt/config.h"

/* Read by generation_read, or about what is not the text: how it is computed or reported. */
static const char *const FINE[] = {"eos_token_id", "bos_token_id", "pad_token_id", "do_sample", "temperature", "top_p", "top_k", "min_p",
    "repetition_penalty", "max_new_tokens", "transformers_version", "use_cache", "cache_implementation", "cache_config",
    "return_legacy_cache", "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
    "disable_compile", "compile_config", "low_memory", "trust_remote_code", "decoder_start_token_id", "is_assistant",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold", "prompt_lookup_num_tokens",
    "max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "prefill_chunk_size"};

/* Change the text unless they say this (as JSON); what is null says nothing. */
static const struct {
	const char *key, *neutral;
} NEUTRAL[] = {{"num_beams", "1"}, {"num_beam_groups", "1"}, {"early_stopping", "false"}, {"length_penalty", "1"},
    {"diversity_penalty", "0"}, {"num_return_sequences", "1"}, {"no_repeat_ngram_size", "0"}, {"encoder_no_repeat_ngram_size", "0"},
    {"encoder_repetition_penalty", "1"}, {"typical_p", "1"}, {"epsilon_cutoff", "0"}, {"eta_cutoff", "0"}, {"top_h", "1"},
    {"min_length", "0"}, {"min_new_tokens", "0"}, {"max_length", "20"}, {"penalty_alpha", "0"}, {"guidance_scale", "1"},
    {"renormalize_logits", "false"}, {"remove_invalid_values", "false"}, {"token_healing", "false"}, {"bad_words_ids", "[]"},
    {"force_words_ids", "[]"}, {"suppress_tokens", "[]"}, {"begin_suppress_tokens", "[]"}, {"stop_strings", "[]"}};

static bool says_nothing(const char *key, const json_t *v)
{
	if (json_is_null(v) || key[0] == '_') return true; /* transformers' own notes begin with _ */
	for (size_t i = 0; i < sizeof FINE / sizeof *FINE; i++)
		if (strcmp(key, FINE[i]) == 0) return true;
	for (size_t i = 0; i < sizeof NEUTRAL / sizeof *NEUTRAL; i++) {
		if (strcmp(key, NEUTRAL[i].key) != 0) continue;
		json_t *n = json_loads(NEUTRAL[i].neutral, JSON_DECODE_ANY, NULL);
		bool equal = json_is_number(v) && json_is_number(n) ? json_number_value(v) == json_number_value(n) : json_equal(v, n);
		json_decref(n);
		return equal;
	}
	return false;
}

void generation_unserved(const json_t *gen_config, char *names, size_t size)
{
	size_t len = 0;
	names[0] = 0;
	for (void *at = json_object_iter((json_t *)(uintptr_t)gen_config); at;
	     at = json_object_iter_next((json_t *)(uintptr_t)gen_config, at)) {
		const char *key = json_object_iter_key(at);
		if (says_nothing(key, json_object_iter_value(at))) continue;
		char shown[64];
		size_t n = 0; /* a key may hold anything, a line of a log may not */
		for (; key[n] && n < sizeof shown - 1; n++) shown[n] = (uint8_t)key[n] < ' ' ? '?' : key[n];
		shown[n] = 0;
		size_t more = n + (len ? 2 : 0);
		if (len + more + sizeof ", ..." > size) { /* the dots have room: the names before left it */
			snprintf(names + len, size - len, "%s...", len ? ", " : "");
			return;
		}
		snprintf(names + len, size - len, "%s%s", len ? ", " : "", shown);
		len += more;
	}
}
