/* SPDX-License-Identifier: Apache-2.0
 * embeddings.c: which line of a text is nearest to a question? Each line becomes a vector of length 1 (the mean of the last layer's output
 * over its tokens), and near means a large inner product.
 *
 *     cc -std=c11 embeddings.c $(pkg-config --cflags --libs nemotron) -o embeddings && ./embeddings MODEL_FOLDER "a question" <lines.txt
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nh/nh.h>

static nh_error e;

static void must(nh_status s)
{
	if (s == NH_OK) return;
	fprintf(stderr, "embeddings: %s\n", e.text);
	exit(1);
}

/* A fresh vector; its length goes to *size. */
static float *embed(nh_model *model, nh_engine *engine, const char *text, size_t *size)
{
	int32_t *ids;
	float *vector = NULL;
	nh_request *r;
	nh_event ev;
	nh_request_options o;
	nh_request_options_init(&o, sizeof o);
	must(nh_tokenize(nh_model_tokenizer(model), text, strlen(text), NH_TOKENIZE_SPECIAL, &ids, &o.prompt_tokens, &e));
	o.prompt = ids;
	o.max_tokens = 0;
	o.embed = NH_EMBED_MEAN;
	o.embed_normalise = true;
	must(nh_engine_submit(engine, &o, &r, &e));
	while (nh_request_next(r, &ev, sizeof ev, -1) == NH_OK) {
		e = ev.error;
		must(ev.type == NH_EVENT_ERROR ? (nh_status)e.code : NH_OK);
		if (ev.type != NH_EVENT_EMBEDDING) continue;
		vector = malloc(ev.embedding_size * sizeof *vector);
		if (!vector) exit(1);
		memcpy(vector, ev.embedding, ev.embedding_size * sizeof *vector); /* the event's own lives until the next call */
		*size = ev.embedding_size;
	}
	nh_request_release(r);
	nh_free(ids);
	return vector;
}

int main(int argc, char **argv)
{
	nh_model *model;
	nh_engine *engine;
	char line[8192];
	size_t size = 0;
	if (argc < 3) return fprintf(stderr, "usage: embeddings MODEL QUESTION <LINES\n"), 2;
	must(nh_model_open(&model, argv[1], NULL, &e));
	must(nh_engine_open(&engine, model, NULL, &e));
	float *question = embed(model, engine, argv[2], &size);
	while (question && fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!*line) continue;
		float *v = embed(model, engine, line, &size);
		double near = 0;
		for (size_t i = 0; v && i < size; i++) near += (double)v[i] * (double)question[i];
		printf("%+.4f  %s\n", near, line);
		free(v);
	}
	free(question);
	nh_engine_close(engine);
	nh_model_close(model);
	return 0;
}
