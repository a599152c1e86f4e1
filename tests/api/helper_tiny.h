/* SPDX-License-Identifier: Apache-2.0
 * helper_tiny.h: the built-in model through the public interface.
 */
#ifndef HELPER_TINY_H
#define HELPER_TINY_H

#include "nh/nh.h"

#define TINY NH_SOURCE_DIR "/models/tiny"

nh_model *tiny_open(const char *numerics); /* asserts */
nh_engine *tiny_engine(nh_model *m, int32_t step_tokens);

/* All that a request told. */
typedef struct tiny_run {
	int32_t token[512];
	double logprob[512], prompt_logprob[512];
	size_t tokens, prompts;
	char reasoning[8192], content[8192];
	nh_finish finish;
	int stop_index;
	nh_request_stats stats;
	nh_error error;
} tiny_run;
void tiny_collect(tiny_run *out, nh_request *r); /* reads to the end and releases */
void tiny_do(tiny_run *out, nh_engine *g, const nh_request_options *o);
nh_request_options tiny_request(const int32_t *prompt, size_t count, int64_t max_tokens);
int32_t *tiny_chat(const nh_model *m, const char *user, size_t *count); /* nh_free */

#endif
