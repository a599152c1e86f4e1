/* SPDX-License-Identifier: Apache-2.0
 * test_quantize.c: nemotron quantize through the built program: the published layout to the letter, results that load and run, weights and input scales
 * against the source. Codes of single matrices are test_qz_codes.c's business, runs that are stopped and refusals test_quantize_stop.c's.
 */
#include "helper_cmd.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "fmt/st_set.h"
#include "nh/nh.h"
#include "num/num_conv.h"
#include "tensor/weight.h"

#define TEXT                                                                                              \
	"A dog is an animal that barks. In the beginning was a word, and the word was small.\nHe has 12 red " \
	"apples; she has none, but 3 green pears!\n"

static st_set *opened(const char *path)
{
	st_set *s;
	nh_error e = {0};
	if (st_set_open(&s, path, NULL, &e) != NH_OK) fail_msg("%s", e.text);
	return s;
}

static json_t *document(const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	json_t *v = NULL;
	nh_error e = {0};
	if (jsn_load_path(&v, path, JSON_LIMIT_CONFIG, &e) != NH_OK) fail_msg("%s", e.text);
	mem_free(path);
	return v;
}

static void same_layout(const char *ours, const char *published)
{
	json_t *a = document(ours, "hf_quant_config.json"), *b = document(published, "hf_quant_config.json");
	json_object_del(a, "producer");
	json_object_del(b, "producer");
	assert_true(json_equal(a, b));
	json_decref(a);
	json_decref(b);
	a = document(ours, "config.json");
	b = document(published, "config.json");
	json_t *qa = json_object_get(a, "quantization_config"), *qb = json_object_get(b, "quantization_config");
	json_object_del(qa, "producer");
	json_object_del(qb, "producer");
	assert_true(json_equal(qa, qb));
	json_decref(a);
	json_decref(b);
	st_set *x = opened(ours), *y = opened(published);
	size_t parameters = 0;
	assert_int_equal(st_set_count(x), st_set_count(y));
	for (size_t i = 0; i < st_set_count(x); i++) {
		const st_tensor *s = st_set_at(x, i), *t = st_set_at(y, i);
		assert_string_equal(s->name, t->name);
		/* Routers and state parameters keep the source's type; releases differ there. */
		bool parameter = s->dtype != t->dtype && s->dtype == NUM_BF16 && t->dtype == NUM_F32;
		parameters += parameter;
		if (!parameter && (s->dtype != t->dtype || s->rank != t->rank))
			fail_msg("%s: %s of rank %d, published %s of rank %d", s->name, num_dtype_name(s->dtype), s->rank, num_dtype_name(t->dtype),
			    t->rank);
		for (int d = 0; d < s->rank && d < t->rank; d++) assert_int_equal(s->shape[d], t->shape[d]);
	}
	print_message("%zu tensors alike, %zu parameters in the source's type\n", st_set_count(x), parameters);
	st_set_close(x);
	st_set_close(y);
}

static void the_layout_is_the_published_one(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"fp8", "tiny-fp8"}, {"nvfp4", "tiny-nvfp4-w4a4"}, {"mixed", "tiny-nvfp4"}};
	if (!file_exists(NH_SHARED_DIR "/models/tiny-bf16/config.json")) NOT_RUN("the shared models are not there");
	dir_put("text", TEXT);
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		char published[512];
		outcome o = run_program(NULL, 0,
		    "$N quantize -q -f %s --calibration $D/text --calibration-tokens 24 " NH_SHARED_DIR "/models/tiny-bf16 $D/%s", pairs[i][0],
		    pairs[i][0]);
		assert_int_equal(o.status, 0);
		outcome_free(&o);
		snprintf(published, sizeof published, "%s/models/%s", NH_SHARED_DIR, pairs[i][1]);
		same_layout(dir_path(pairs[i][0]), published);
	}
}

static void every_shape_loads_and_runs(void **state)
{
	(void)state;
	static const char *const formats[] = {
	    "nvfp4", "nvfp4 --calibration $D/text", "fp8 --calibration $D/text", "mixed --calibration $D/text --kv-cache bf16"};
	static const char *const shapes[] = {"", "--latent --mtp --list-form --shards 3", "--puzzle --f32-params",
	    "-p ME*ME-M* -c n_group=2 -c use_bias=true -c mlp_bias=true", "-p MM*-M -c moe_intermediate_size=24",
	    "-p ME -c moe_intermediate_size=24"};
	size_t runs = 0;
	dir_put("text", TEXT);
	for (size_t k = 0; k < ARRAY_LEN(shapes); k++) {
		outcome o = run_program(NULL, 0, "$N mkmodel -q --force -c vocab_size=600 %s $D/m", shapes[k]);
		outcome_free(&o);
		for (size_t f = 0; f < ARRAY_LEN(formats); f++, runs++) {
			o = run_program(NULL, 0,
			    "rm -rf $D/q && $N quantize -q $D/m $D/q -f %s && $N run --check --ids -t 0 -n 3 $D/q '20 30 40 50' && $N inspect $D/q | "
			    "grep "
			    "'each used once' && test ! -e $D/q/quantize.state.json",
			    formats[f]);
			if (o.status != 0) fail_msg("%s of %s", formats[f], shapes[k]);
			outcome_free(&o);
		}
	}
	print_message("%zu results ran\n", runs);
	assert_int_equal(runs, 24);
	/* 24 columns: FP4 leaves both matrices of each expert alone, in the lists too. */
	has(NULL, "rm -rf $D/q && $N quantize -q $D/m $D/q -f nvfp4", "left in BF16 because 16 does not divide");
	has(NULL, "grep -c 'experts.*_proj' $D/q/hf_quant_config.json", "16\n");
}

/* Decoded weights lie within half a step of the source's, but for values that a searched scale clips. */
static void weights_are_within_half_a_step(void **state)
{
	(void)state;
	has(NULL, "$N mkmodel -q $D/m && $N quantize -q -f mixed --calibration $D/m/tokenizer.json --calibration-tokens 40 $D/m $D/q",
	    "quantised");
	st_set *source = opened(dir_path("m")), *result = opened(dir_path("q"));
	size_t matrices = 0, copies = 0, clipped = 0, elements = 0;
	for (size_t i = 0; i < st_set_count(source); i++) {
		const st_tensor *s = st_set_at(source, i), *t = st_set_find(result, s->name), *blocks;
		char name[300];
		float scale;
		assert_non_null(t);
		if (t->dtype == s->dtype) {
			assert_int_equal(s->bytes, t->bytes);
			assert_memory_equal(s->data, t->data, s->bytes);
			copies++;
			continue;
		}
		bool fp8 = t->dtype == NUM_E4M3;
		int64_t n = s->shape[0], k = s->shape[1];
		snprintf(name, sizeof name, "%s%s", s->name, fp8 ? "_scale" : "_scale_2");
		memcpy(&scale, st_set_find(result, name)->data, sizeof scale);
		snprintf(name, sizeof name, "%s_scale", s->name);
		blocks = fp8 ? NULL : st_set_find(result, name);
		for (int64_t j = 0; j < n * k; j++, elements++) {
			double unit = (double)scale * (fp8 ? 1 : (double)num_e4m3_to_f32(blocks->data[j / 16]));
			double v = num_load(s->dtype, s->data, (size_t)j) / unit;
			double got = fp8 ? (double)num_e4m3_to_f32(t->data[j]) : num_load(NUM_E2M1X2, t->data, (size_t)j);
			double most = fp8 ? 448 : 6, step = fp8 ? exp2(fmax(floor(log2(fabs(v))), -6) - 3) : exp2(fmax(floor(log2(fabs(v))), 0) - 1);
			if (fabs(v) > most) {
				assert_true(fabs(got) == most);
				clipped++;
			} else if (!(fabs(got - v) <= step / 2 * (1 + 1e-9))) fail_msg("%s [%lld]: %g is stored as %g", s->name, (long long)j, v, got);
		}
		matrices++;
	}
	print_message("%zu matrices, %zu elements, %zu clipped; %zu tensors copied\n", matrices, elements, clipped, copies);
	assert_true(matrices > 20 && copies > 20 && clipped < elements / 20);
	st_set_close(source);
	st_set_close(result);
}

/* --- input scales --- */

typedef struct seen {
	double input, out, keys, values, hidden, input6, out6;
	size_t negative; /* ranges whose largest magnitude is a negative value's */
	const st_set *set;
	double rows[64 * 64];
	size_t width;
} seen;

static void largest(seen *s, double *to, const double *v, size_t n)
{
	double most = 0, least = 0;
	for (size_t i = 0; i < n; i++) {
		most = fmax(most, v[i]);
		least = fmin(least, v[i]);
	}
	*to = fmax(*to, fmax(most, -least)); /* the prompt is read in several steps */
	s->negative += -least == *to && most < *to;
}

static void watch(void *user, uint64_t step, const char *name, int64_t first, size_t rows, size_t columns, const double *values)
{
	seen *s = user;
	(void)step;
	(void)first;
	const struct {
		const char *name;
		double *to;
	} sites[] = {{"layer.0.input", &s->input}, {"layer.0.out_input", &s->out}, {"layer.6.input", &s->input6},
	    {"layer.6.out_input", &s->out6}, {"layer.3.keys", &s->keys}, {"layer.3.values", &s->values}};
	for (size_t i = 0; i < ARRAY_LEN(sites); i++)
		if (strcmp(name, sites[i].name) == 0) largest(s, sites[i].to, values, rows * columns);
	if (strcmp(name, "layer.1.experts_input") == 0) {
		memcpy(s->rows, values, rows * columns * sizeof *values);
		s->width = columns;
	}
	if (strcmp(name, "layer.1.experts_chosen") != 0) return;
	for (size_t i = 0; i < rows * columns; i++) {
		char up[100];
		snprintf(up, sizeof up, "backbone.layers.1.mixer.experts.%d.up_proj.weight", (int)values[i]);
		const st_tensor *t = st_set_find(s->set, up);
		for (int64_t f = 0; f < t->shape[0]; f++) {
			double sum = 0;
			for (size_t c = 0; c < s->width; c++)
				sum += num_load(t->dtype, t->data, (size_t)f * s->width + c) * s->rows[i / columns * s->width + c];
			sum = num_round_bf16(sum); /* as the op rounds: before the square and after it */
			if (sum > 0) s->hidden = fmax(s->hidden, num_round_bf16(sum * sum));
		}
	}
}

static double scalar(const st_set *s, const char *name)
{
	float v;
	const st_tensor *t = st_set_find(s, name);
	if (t == NULL) fail_msg("%s is not there", name);
	memcpy(&v, t->data, sizeof v);
	return (double)v;
}

static void input_scales_are_the_largest_seen(void **state)
{
	(void)state;
	dir_put("text", TEXT);
	has(NULL, "$N mkmodel -q -p MEM*E-M $D/m && $N quantize -q $D/m $D/q -f fp8 --calibration $D/text --calibration-tokens 50",
	    "quantised");
	seen *s = mem_alloc(sizeof *s);
	st_set *source = opened(dir_path("m")), *q = opened(dir_path("q"));
	nh_model *m;
	nh_engine *g;
	nh_request *r;
	nh_event ev;
	nh_request_options o;
	int32_t *ids;
	size_t count;
	s->set = source;
	assert_int_equal(nh_model_open(&m, dir_path("m"), NULL, NULL), NH_OK);
	assert_int_equal(nh_engine_open(&g, m, NULL, NULL), NH_OK);
	assert_int_equal(nh_tokenize(nh_model_tokenizer(m), TEXT, strlen(TEXT), NH_TOKENIZE_SPECIAL, &ids, &count, NULL), NH_OK);
	assert_true(count >= 50);
	nh_request_options_init(&o, sizeof o);
	o.prompt = ids;
	o.prompt_tokens = 50;
	o.max_tokens = 0;
	o.trace = watch;
	o.trace_user = s;
	assert_int_equal(nh_engine_submit(g, &o, &r, NULL), NH_OK);
	do assert_int_equal(nh_request_next(r, &ev, sizeof ev, -1), NH_OK);
	while (ev.type != NH_EVENT_DONE);
	nh_request_release(r);
	nh_engine_close(g);
	nh_model_close(m);
	nh_free(ids);
	const struct {
		const char *name;
		double amax;
	} wanted[] = {{"backbone.layers.0.mixer.in_proj.input_scale", s->input}, {"backbone.layers.0.mixer.out_proj.input_scale", s->out},
	    {"backbone.layers.3.mixer.k_proj.k_scale", s->keys}, {"backbone.layers.3.mixer.v_proj.v_scale", s->values},
	    {"backbone.layers.6.mixer.in_proj.input_scale", s->input6}, {"backbone.layers.6.mixer.out_proj.input_scale", s->out6},
	    {"backbone.layers.1.mixer.experts.0.down_proj.input_scale", s->hidden},
	    {"backbone.layers.1.mixer.experts.7.down_proj.input_scale", s->hidden}};
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		double got = scalar(q, wanted[i].name) * 448;
		print_message("%s: largest %.6f, ours %.6f\n", wanted[i].name, wanted[i].amax, got);
		assert_true(wanted[i].amax > 0 && fabs(got / wanted[i].amax - 1) <= 1e-6);
	}
	assert_true(s->negative > 0);
	st_set_close(source);
	st_set_close(q);
	mem_free(s);
}

static void the_report_tells_errors_and_divergence(void **state)
{
	(void)state;
	dir_put("text", TEXT);
	has(NULL, "$N mkmodel -q -c vocab_size=600 $D/m && $N quantize -q $D/m $D/q -f mixed --calibration $D/text --report $D/report", "KL");
	json_t *r = json_load_file(dir_path("report"), 0, NULL);
	assert_non_null(r);
	const json_t *w = json_object_get(r, "weights"), *q = json_object_get(r, "quality"), *roles = json_object_get(w, "roles");
	double fp8 = json_number_value(json_object_get(json_object_get(roles, "mamba"), "relative_error")),
	       fp4 = json_number_value(json_object_get(json_object_get(roles, "experts"), "relative_error"));
	print_message("relative errors: FP8 %.4f, FP4 %.4f\n", fp8, fp4);
	assert_true(fp8 > 0.01 && fp8 < 0.04 && fp4 > 0.04 && fp4 < 0.13);
	assert_int_equal(json_array_size(json_object_get(w, "layers")), 6); /* M E M E - and the head */
	double kl = json_number_value(json_object_get(json_object_get(q, "kl"), "mean"));
	assert_true(kl > 0 && json_is_true(json_object_get(q, "same_text_as_calibration")));
	/* Both log-losses are what perplexity says of the two models. */
	static const char *const sides[][2] = {{"m", "source"}, {"q", "result"}};
	for (size_t i = 0; i < 2; i++) {
		outcome o = run_program(NULL, 0, "$N perplexity --json $D/%s $D/text", sides[i][0]);
		json_t *p = json_loads(o.out.data, 0, NULL);
		double a = json_number_value(json_object_get(p, "nll_mean")),
		       b = json_number_value(json_object_get(json_object_get(q, sides[i][1]), "nll_mean"));
		assert_true(a > 0 && fabs(a - b) < 1e-6 * a);
		assert_int_equal(json_integer_value(json_object_get(p, "scored")), json_integer_value(json_object_get(q, "scored")));
		json_decref(p);
		outcome_free(&o);
	}
	json_decref(r);
}

int main(void)
{
	if (program_missing()) return 77;
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(the_layout_is_the_published_one), ONE(every_shape_loads_and_runs),
	    ONE(weights_are_within_half_a_step), ONE(input_scales_are_the_largest_seen), ONE(the_report_tells_errors_and_divergence)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
