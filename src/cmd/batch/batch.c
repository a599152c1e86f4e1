/* SPDX-License-Identifier: Apache-2.0
 * batch.c: a file of OpenAI batch requests to a file of answers: options, opening, what an earlier start has answered, and the counts at the
 * end. Breaks first: nothing is written before all files and the model are known to be right.
 */
#include <inttypes.h>
#include <string.h>

#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/batch/batch.h"
#include "cmd/cmd_open.h"

/* Whose answer a line of the partial file is. */
static nh_status owner(void *user, const char *text, size_t len, uint64_t *number, nh_error *e)
{
	batch_job *j = user;
	json_t *answer;
	char name[BATCH_NAME_MAX], id[BATCH_NAME_MAX + 12];
	TRY(jsn_load_text(&answer, text, len, "answer", e));
	const char *told = json_string_value(json_object_get(answer, "id")), *custom = json_string_value(json_object_get(answer, "custom_id"));
	int64_t status = (int64_t)json_integer_value(json_object_get(json_object_get(answer, "response"), "status_code"));
	uint64_t n = 0;
	size_t at = told != NULL && strncmp(told, "batch_req_", 10) == 0 ? 10 : 0;
	for (size_t i = at; at > 0 && i < at + 12 && told[i] >= '0' && told[i] <= '9'; i++) n = n * 10 + (uint64_t)(told[i] - '0');
	batch_line *line = batch_line_at(&j->in, n);
	nh_status s = line != NULL ? batch_name(&j->in, line, name, e) : NH_OK;
	if (s == NH_OK) {
		snprintf(id, sizeof id, "batch_req_%s", line != NULL ? name : "");
		if (line == NULL || told == NULL || line->answered || strcmp(id, told) != 0)
			s = ERR(e, NH_ERR_STATE,
			    "answers no line of %s on this model with these options; --restart begins anew, or name another output", j->in.path);
	}
	if (s == NH_OK && custom != NULL) {
		const json_t *first = json_object_get(j->ids, custom);
		if (first == NULL || (uint64_t)json_integer_value(first) > n) json_object_set_new(j->ids, custom, json_integer((json_int_t)n));
	}
	json_decref(answer);
	if (s != NH_OK) return s;
	line->answered = true;
	j->counts.kept++;
	j->counts.failed += status != 200;
	*number = n;
	return NH_OK;
}

static nh_status open_model(batch_job *j, const char *model, nh_error *e)
{
	TRY(cmd_open(j->a, model, NULL, NULL, &j->model, NULL, e));
	nh_model_get_info(j->model, &j->info, sizeof j->info);
	/* Without it the lines would get other names and seeds than in a run in which its files can be read. */
	if (j->info.identity[0] == '\0') return ERR(e, NH_ERR_IO, "%s: its identity cannot be computed from its files", j->info.name);
	buf salt = {0};
	const char *chat = cmd_string(j->a, "chat-template", "");
	buf_printf(&salt, "%s %s %s %s\n", j->info.identity, j->info.numerics, j->info.kv_dtype, chat);
	j->in.salt = buf_take(&salt);
	return j->in.salt != NULL ? NH_OK : ERR_NOMEM(e);
}

static nh_status open_engine(batch_job *j, nh_error *e)
{
	nh_engine_options eo;
	nh_engine_options_init(&eo, sizeof eo);
	eo.max_context = cmd_int(j->a, "context", 0);
	eo.memory_bytes = cmd_bytes(j->a, "memory", 0);
	return nh_engine_open(&j->engine, j->model, &eo, e);
}

/* What can be refused before a model is read. */
static nh_status check_files(const cmd_args *a, nh_error *e)
{
	const char *in = cmd_operand(a, 1), *out = cmd_operand(a, 2);
	if (strcmp(in, out) == 0) return ERR(e, NH_ERR_ARG, "%s: is both input and output", in);
	if (!cmd_flag(a, "overwrite") && file_exists(out) && !file_is_dir(out))
		return ERR(e, NH_ERR_STATE, "%s: exists already; --overwrite replaces it", out);
	return NH_OK;
}

static nh_status work(batch_job *j, nh_error *e)
{
	const cmd_args *a = j->a;
	const char *model = cmd_operand(a, 0);
	TRY(check_files(a, e));
	TRY(batch_in_open(&j->in, cmd_operand(a, 1), e));
	TRY(open_model(j, model, e));
	TRY(batch_out_open(&j->out, cmd_operand(a, 2), cmd_flag(a, "overwrite"), cmd_flag(a, "restart"), owner, j, e));
	if (j->counts.kept > 0) cmd_note(a, "%zu of %zu lines are answered in %s already", j->counts.kept, j->in.count, j->out.partial);
	if (j->counts.kept < j->in.count) {
		TRY(open_engine(j, e));
		TRY(batch_run(j, e));
	}
	return batch_out_finish(&j->out, !cmd_flag(a, "as-completed"), e);
}

static void tell(const batch_job *j)
{
	const batch_counts *c = &j->counts;
	double seconds = (double)c->elapsed_us / 1e6;
	cmd_note(j->a,
	    "%zu lines: %zu answered, %zu failed (%zu of the lines before this start); %" PRIu64 " prompt tokens (%" PRIu64
	    " reused) + %" PRIu64 " generated in %.1f s, %.0f tokens/s; arm %s (%s), profile %s",
	    j->in.count, j->in.count - c->failed, c->failed, c->kept, c->prompt_tokens, c->reused_tokens, c->generated_tokens, seconds,
	    seconds > 0 ? (double)c->generated_tokens / seconds : 0, j->info.arm, j->info.tier, j->info.numerics);
}

static int run(const cmd_args *a)
{
	nh_error e = {0};
	batch_job j = {
	    .a = a, .out = {.fd = -1}, .ids = json_object(), .noted = json_object(), .concurrency = (int32_t)cmd_int(a, "concurrency", 128)};
	cmd_progress_init(&j.progress, a);
	cmd_on_interrupt(NULL, NULL);
	nh_status s = work(&j, &e);
	int status = s == NH_OK && j.counts.failed == 0 ? CMD_OK : CMD_FAILED;
	if (s == NH_OK) tell(&j);
	else if (s != NH_ERR_CANCELLED) cmd_fail_error(a, s, &e);
	else if (j.out.fd >= 0)
		cmd_fail(a, "stopped: %zu of %zu lines are answered; the same command goes on from %s", j.out.count, j.in.count, j.out.partial);
	nh_engine_close(j.engine);
	batch_out_close(&j.out);
	batch_in_close(&j.in);
	nh_model_close(j.model);
	json_decref(j.ids);
	json_decref(j.noted);
	return status;
}

static const cmd_option options[] = {
    {"as-completed", 0, CMD_FLAG, NULL, "answers in the order in which they are ready (default: the input's)", 0, 0},
    {"concurrency", 'j', CMD_INT, "N", "requests given to the engine at once (default 128)", 1, 1024},
    {"overwrite", 0, CMD_FLAG, NULL, "replace OUT where it exists", 0, 0},
    {"restart", 0, CMD_FLAG, NULL, "forget what an interrupted batch has answered", 0, 0},
    {"memory", 0, CMD_BYTES, "SIZE", "for states, keys and values (default: half of what is free)", 0, 0},
    {"context", 0, CMD_INT, "N", "tokens a sequence may have", 1, 1e9},
    CMD_OPTION_NUMERICS,
    CMD_OPTION_KV,
    CMD_OPTION_ARM,
    {"chat-template", 0, CMD_STRING, "FILE", "instead of the model's own", 0, 0},
    {"allow-control-text", 0, CMD_FLAG, NULL,
        "a control token's text in a message, such as <|im_end|>, is that token\n(default: ordinary text)", 0, 0},
    CMD_OPTION_CACHE,
    CMD_OPTION_QUIET,
    CMD_OPTION_END,
};

const cmd_def cmd_batch = {
    .name = "batch",
    .summary = "answer a file of OpenAI batch requests",
    .usage = "MODEL IN.jsonl OUT.jsonl",
    .about =
        "IN has one request a line, as OpenAI's batch files: {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": "
        "\"/v1/chat/completions\", "
        "\"body\":\n"
        "{...}}, or with \"/v1/completions\". OUT gets one line for each: {\"id\", \"custom_id\", \"response\": {\"status_code\", "
        "\"request_id\", \"body\"}, \"error\"}.\n"
        "A line that cannot be answered gets status 400 and an error that names the member; the others go on, and the exit status is 1.\n"
        "Answers gather in OUT.partial. After Ctrl-C, a crash or a full disk the same command goes on where it stopped. OUT appears when "
        "all "
        "lines are\n"
        "answered. A request without a seed gets one made from its line and the model, so running a batch twice gives the same answers.",
    .examples =
        "nemotron batch org/name requests.jsonl answers.jsonl\n"
        "nemotron batch ./models/tiny requests.jsonl answers.jsonl --as-completed -j 16\n"
        "echo '{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\","
        "\"content\":\"What is a dog?\"}],\"max_tokens\":50}}' > requests.jsonl\n",
    .options = options,
    .min_operands = 3,
    .max_operands = 3,
    .run = run,
};
