/* SPDX-License-Identifier: Apache-2.0
 * chat.c: a chat: lines from standard input, answers to standard output as they are made. The whole conversation is rendered each time, as
 * the template wants it; the engine finds by itself what it has computed already, and the line on standard error says how much that was.
 *
 *     cc -std=c11 chat.c $(pkg-config --cflags --libs nemotron) -o chat && ./chat MODEL_FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nh/nh.h>

static nh_error e;
static char messages[1 << 20] = "{\"messages\": [", request[sizeof messages + 8]; /* JSON */

static void must(nh_status s)
{
	if (s == NH_OK) return;
	fprintf(stderr, "chat: %s\n", e.text);
	exit(1);
}

/* Appends text, escaped where it is part of a string. Room is left for the closing brackets; what does not fit is not said. */
static void json(const char *text, bool escape)
{
	size_t n = strlen(messages);
	for (; *text && n + 16 < sizeof messages; text++) {
		unsigned char c = (unsigned char)*text;
		if (escape && (c < 32 || c == '"' || c == '\\')) n += (size_t)sprintf(messages + n, "\\u%04x", c);
		else messages[n++] = *text;
	}
	messages[n] = 0;
}

int main(int argc, char **argv)
{
	nh_model *model;
	nh_engine *engine;
	nh_event ev;
	char line[8192];
	must(nh_model_open(&model, argc > 1 ? argv[1] : "models/tiny", NULL, &e));
	must(nh_engine_open(&engine, model, NULL, &e));
	for (bool first = true; fgets(line, sizeof line, stdin); first = false) {
		line[strcspn(line, "\n")] = 0;
		json(first ? "{\"role\": \"user\", \"content\": \"" : "\"}, {\"role\": \"user\", \"content\": \"", false);
		json(line, true);
		snprintf(request, sizeof request, "%s\"}]}", messages);
		char *text;
		int32_t *ids;
		size_t bytes;
		nh_request *r;
		nh_request_options o;
		nh_request_options_init(&o, sizeof o); /* greedy */
		/* marked, so that a line that says <|im_end|> ends no turn */
		must(nh_template_render_marked(nh_model_template(model), nh_model_tokenizer(model), request, strlen(request), NH_TEMPLATE_ADAPT,
		    time(NULL), &text, &bytes, &e));
		must(nh_tokenize(nh_model_tokenizer(model), text, bytes, NH_TOKENIZE_MARKED, &ids, &o.prompt_tokens, &e));
		o.prompt = ids;
		o.text = o.skip_special = o.split_reasoning = true; /* thoughts are not shown here */
		o.starts_in_reasoning = bytes > 8 && strstr(text + bytes - 8, "<think>");
		must(nh_engine_submit(engine, &o, &r, &e)); /* copies the ids */
		json("\"}, {\"role\": \"assistant\", \"content\": \"", false);
		while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
			e = ev.error;
			must(ev.type == NH_EVENT_ERROR ? (nh_status)e.code : NH_OK);
			fputs(ev.content, stdout);
			fflush(stdout);
			json(ev.content, true);
		}
		puts("");
		fprintf(stderr, "(%d tokens given, %d of them reused; %d answered)\n", (int)ev.stats.prompt_tokens, (int)ev.stats.reused_tokens,
		    (int)ev.stats.generated_tokens);
		nh_request_release(r);
		nh_free(ids);
		nh_free(text);
	}
	nh_engine_close(engine);
	nh_model_close(model);
	return 0;
}
