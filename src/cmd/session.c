/* SPDX-License-Identifier: Apache-2.0
 * session.c: what is in a session file. Knows the public interface only; needs neither model nor engine.
 * The invariant that breaks first: nothing is shown of a file whose checksum is wrong.
 */
#include <inttypes.h>
#include <time.h>

#include "cmd/cmd.h"
#include "nh/nh_session.h"

static void utc_text(int64_t seconds, char out[32])
{
	time_t t = (time_t)seconds;
	struct tm parts;
	if (!gmtime_r(&t, &parts) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) snprintf(out, 32, "?");
}

static void show_text(const nh_session_info *s)
{
	char bytes[32], created[32];
	cmd_bytes_text(s->bytes, bytes);
	utc_text(s->created, created);
	cmd_outf("model       %s\n"
	         "identity    %s\n"
	         "made by     arm %s, profile %s, keys and values in %s\n"
	         "history     %" PRId64 " tokens: %" PRId64 " given, %" PRId64 " generated\n"
	         "state       covers %" PRId64 " tokens; %" PRId64 " pending; %s\n"
	         "created     %s\n"
	         "format      version %" PRIu32 ", checksum right\n",
	    s->model, s->identity, s->arm, s->numerics, s->kv_dtype, s->tokens, s->tokens - s->generated, s->generated, s->computed,
	    s->tokens - s->computed, bytes, created, s->version);
}

static void show_json(const nh_session_info *s)
{
	char created[32];
	utc_text(s->created, created);
	cmd_out_json(
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I}", "model", s->model, "identity", s->identity, "arm", s->arm,
	        "numerics", s->numerics, "kv_dtype", s->kv_dtype, "tokens", (json_int_t)s->tokens, "computed", (json_int_t)s->computed,
	        "generated", (json_int_t)s->generated, "bytes", (json_int_t)s->bytes, "created", created, "version", (json_int_t)s->version),
	    2);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	nh_session_info info;
	nh_status s = nh_session_read_info(cmd_operand(a, 0), &info, sizeof info, &e);
	if (s != NH_OK) return cmd_fail_error(a, s, &e);
	if (cmd_flag(a, "json")) show_json(&info);
	else show_text(&info);
	return CMD_OK;
}

static const cmd_option options[] = {CMD_OPTION_JSON, CMD_OPTION_QUIET, CMD_OPTION_END};

const cmd_def cmd_session = {
    .name = "session",
    .summary = "what is in a session file",
    .usage = "FILE",
    .about = "Session files are written by `run --save-session` and by `chat`. They hold token ids and state, no text:\n"
             "they continue exactly, with the same model and profile, and nothing is computed again.",
    .examples = "nemotron session dog.nhs\n"
                "nemotron session --json dog.nhs\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
