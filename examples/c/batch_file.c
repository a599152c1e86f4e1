/* SPDX-License-Identifier: Apache-2.0
 * batch_file.c: continues each line of a file by some tokens, many at once, and writes them in the order of the file. Requests run side by
 * side, and none of them sees the others: each answer is what it would be alone.
 *
 *     cc -std=c11 batch_file.c $(pkg-config --cflags --libs nemotron) -o batch_file && ./batch_file MODEL_FOLDER lines.txt 32
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nh/nh.h>

#define AT_ONCE 64 /* handed to the engine; it runs as many as its memory holds and lets the others wait */

typedef struct job {
	nh_request *request; /* NULL: not submitted, or over */
	char *answer;
	size_t bytes;
} job;

static nh_error e;

static void must(nh_status s)
{
	if (s == NH_OK) return;
	fprintf(stderr, "batch_file: %s\n", e.text);
	exit(1);
}

static void submit(nh_engine *engine, nh_model *model, const char *line, int64_t tokens, job *j)
{
	int32_t *ids;
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	must(nh_tokenize(nh_model_tokenizer(model), line, strlen(line), NH_TOKENIZE_SPECIAL, &ids, &o.prompt_tokens, &e));
	o.prompt = ids;
	o.max_tokens = tokens;
	o.text = o.skip_special = true;
	must(nh_engine_submit(engine, &o, &j->request, &e));
	nh_free(ids);
	j->bytes = 0;
	j->answer = NULL;
}

/* Takes what a request has told so far; true when that was all. */
static bool collect(job *j, int64_t timeout_us)
{
	nh_event ev;
	nh_status s;
	while ((s = nh_request_next(j->request, &ev, sizeof ev, timeout_us)) == NH_OK) {
		if (ev.type == NH_EVENT_ERROR) fprintf(stderr, "batch_file: %s\n", ev.error.text);
		char *more = realloc(j->answer, j->bytes + ev.content_bytes + 1);
		if (!more) exit(1);
		memcpy(more + j->bytes, ev.content, ev.content_bytes + 1);
		j->answer = more;
		j->bytes += ev.content_bytes;
	}
	if (s == NH_ERR_TIMEOUT) return false;
	nh_request_release(j->request);
	j->request = NULL;
	return true;
}

int main(int argc, char **argv)
{
	static job ring[AT_ONCE];
	size_t head = 0, count = 0, done = 0;
	nh_model *model;
	nh_engine *engine;
	char line[8192];
	bool more = true;
	if (argc < 3) return fprintf(stderr, "usage: batch_file MODEL FILE [TOKENS]\n"), 2;
	FILE *file = fopen(argv[2], "r");
	if (!file) return perror(argv[2]), 1;
	must(nh_model_open(&model, argv[1], NULL, &e));
	must(nh_engine_open(&engine, model, NULL, &e));
	while (more || count) {
		while (more && count < AT_ONCE && (more = fgets(line, sizeof line, file) != NULL)) {
			line[strcspn(line, "\n")] = 0;
			if (*line) submit(engine, model, line, argc > 3 ? strtol(argv[3], NULL, 10) : 32, &ring[(head + count++) % AT_ONCE]);
		}
		/* Everybody is listened to, so that nobody stands still with a full queue; only the oldest is waited for. */
		for (size_t i = 0; i < count; i++) {
			job *j = &ring[(head + i) % AT_ONCE];
			if (j->request) collect(j, i == 0 ? 2000 : 0);
		}
		for (; count && !ring[head].request; head = (head + 1) % AT_ONCE, count--, done++) {
			printf("%s\n", ring[head].answer);
			free(ring[head].answer);
		}
	}
	fprintf(stderr, "batch_file: %zu lines\n", done);
	fclose(file);
	nh_engine_close(engine);
	nh_model_close(model);
	return 0;
}
