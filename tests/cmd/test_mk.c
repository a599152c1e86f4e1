/* SPDX-License-Identifier: Apache-2.0
 * test_mk.c: random checkpoints: every shape and format of the published table balances in the loader's ledger, quantised codes decode to
 * the values that were meant, and the same options give the same bytes.
 */
#include "helper_cmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_json.h"
#include "base/base_mem.h"
#include "cmd/mkmodel/mk.h"
#include "exec/wrap.h"
#include "fmt/config.h"
#include "fmt/quant.h"
#include "fmt/st_set.h"
#include "load/loader.h"
#include "model/nemotron_h/nm_model.h"
#include "num/num_conv.h"

#define MK_EXPECTED \
	"8b88be64c86dba57ef8c47bb6f79e0467aaee852bc7617f534f43c15f806ff0b" /* SHA-256 of the file of same_options_give_the_same_bytes */

/* An arm that takes everything, and remembers it. */
static struct {
	const weight *w[200];
	size_t count, uploads;
	uint64_t hash; /* of what was uploaded, in order */
} met;

static nh_status take_any(exec *x, weight *w, nh_error *e)
{
	(void)x, (void)e;
	if (met.count < ARRAY_LEN(met.w)) met.w[met.count] = w;
	met.count++;
	return NH_OK;
}
static void release_any(exec *x, weight *w) { (void)x, (void)w; }
static void *alloc_any(exec *x, size_t bytes)
{
	(void)x;
	return mem_alloc(bytes);
}
static void free_any(exec *x, void *p)
{
	(void)x;
	mem_free(p);
}
static nh_status copy_any(exec *x, void *to, const void *from, size_t bytes, nh_error *e)
{
	(void)x, (void)e;
	memcpy(to, from, bytes);
	for (size_t i = 0; i < bytes; i++) met.hash = (met.hash ^ ((const uint8_t *)from)[i]) * 0x100000001B3u;
	met.uploads++;
	return NH_OK;
}
static const backend any_arm = {
    .name = "any", .import = take_any, .release = release_any, .alloc = alloc_any, .free = free_any, .upload = copy_any};

typedef struct opened {
	json_t *config;
	quant_config *quant;
	st_set *set;
	exec *x;
	loader *l;
	model *m;
} opened;

static void close_all(opened *o)
{
	if (o->m != NULL) nm_family.close(o->m);
	loader_close(o->l);
	dry_destroy(o->x);
	st_set_close(o->set);
	quant_close(o->quant);
	json_decref(o->config);
}

static opened open_how(const char *dir, bool drawn, uint64_t seed)
{
	opened o = {0};
	nh_error e = {0};
	char config[600], hf[600];
	snprintf(config, sizeof config, "%s/config.json", dir);
	snprintf(hf, sizeof hf, "%s/hf_quant_config.json", dir);
	o.x = dry_create(num_profile("portable"), NUM_F64);
	assert_non_null(o.x);
	nh_status s = config_load(&o.config, config, &e);
	if (s == NH_OK) s = quant_load(&o.quant, o.config, config, hf, &e);
	if (s == NH_OK && !drawn) s = st_set_open(&o.set, dir, NULL, &e);
	memset(&met, 0, sizeof met);
	loader_options lo = {
	    .set = o.set, .dummy = drawn, .seed = seed, .threads = 1, .quant = o.quant, .x = o.x, .arm = &any_arm, .files_name = dir};
	if (s == NH_OK) s = loader_open(&o.l, &lo, &e);
	if (s == NH_OK) s = nm_family.open(&o.m, o.config, config, o.l, &e);
	if (s == NH_OK) s = loader_finish(o.l, &e);
	if (s != NH_OK) fail_msg("%s: %s", dir, e.text);
	return o;
}

/* Opens a folder as the library does; fails the test where the ledger does not balance. */
static opened open_all(const char *dir) { return open_how(dir, false, 0); }

static void write_model(const char *name, const mk_options *o)
{
	nh_error e = {0};
	if (mk_write(dir_path(name), o, &e) != NH_OK) fail_msg("%s: %s", name, e.text);
}

/* --- */

static void every_format_and_shape_balances(void **state)
{
	(void)state;
	static const char *const patterns[] = {NULL, "M-M*-", "ME*ME*-MM"};
	int count = 0;
	for (int format = 0; format < MK_FORMAT_COUNT; format++) {
		for (size_t p = 0; p < ARRAY_LEN(patterns); p++) {
			for (int variant = 0; variant < 6; variant++) {
				mk_options o = {.format = (mk_format)format,
				    .pattern = patterns[p],
				    .list_form = variant & 1,
				    .latent = variant == 2 || variant == 5,
				    .mtp = variant == 1 || variant == 4,
				    .puzzle = variant >= 4,
				    .shards = variant == 3 ? 3 : 1,
				    .f32_params = variant == 3,
				    .kv_fp8 = variant == 0,
				    .kv_bf16 = variant == 2};
				char name[64];
				snprintf(name, sizeof name, "m%d", count++);
				write_model(name, &o);
				opened m = open_all(dir_path(name));
				assert_int_equal(m.m->shape.fp8_kv, variant == 0 || (variant != 2 && format != MK_BF16));
				assert_int_equal(file_exists(dir_path("x")), 0);
				close_all(&m);
			}
		}
	}
	print_message("%d checkpoints balance\n", count);
	assert_int_equal(count, MK_FORMAT_COUNT * 3 * 6);
}

static void biases_and_tied_heads_balance(void **state)
{
	(void)state;
	static const char *const keys[] = {"use_bias=true", "mlp_bias=true", "tie_word_embeddings=true", "use_conv_bias=false",
	    "moe_latent_size=32", "n_shared_experts=2", "vocab_size=300"};
	mk_options o = {.format = MK_MIXED, .config = keys, .config_count = ARRAY_LEN(keys), .mtp = true};
	write_model("m", &o);
	opened m = open_all(dir_path("m"));
	assert_null(st_set_find(m.set, "lm_head.weight"));
	assert_non_null(st_set_find(m.set, "backbone.layers.0.mixer.in_proj.bias"));
	assert_non_null(st_set_find(m.set, "backbone.layers.1.mixer.fc2_latent_proj.bias"));
	assert_null(st_set_find(m.set, "backbone.layers.0.mixer.conv1d.bias"));
	close_all(&m);
	const char *const no_shared[] = {"n_shared_experts=null", "n_group=2", "topk_group=1", "num_key_value_heads=null"};
	o = (mk_options){.config = no_shared, .config_count = ARRAY_LEN(no_shared)};
	write_model("n", &o);
	m = open_all(dir_path("n"));
	assert_null(st_set_find(m.set, "backbone.layers.1.mixer.shared_experts.up_proj.weight"));
	close_all(&m);
}

/* Every row of the table of published models, at small dimensions. */
static void published_rows_can_be_written(void **state)
{
	(void)state;
	static const char *const small[] = {"hidden_size=64", "vocab_size=320", "mamba_num_heads=8", "mamba_head_dim=16", "ssm_state_size=16",
	    "n_groups=2", "num_attention_heads=4", "num_key_value_heads=2", "head_dim=16", "attention_head_dim=null", "intermediate_size=96",
	    "n_routed_experts=4", "num_experts_per_tok=2", "moe_intermediate_size=32", "moe_shared_expert_intermediate_size=48",
	    "moe_latent_size=32"};
	file_list l = {0};
	nh_error e = {0};
	const char *folder = NH_SOURCE_DIR "/tests/data/configs";
	if (file_list_dir(&l, folder, &e) != NH_OK) fail_msg("%s", e.text);
	int count = 0;
	for (size_t i = 0; i < l.count; i++) {
		const char *file = l.names[i];
		if (strstr(file, ".json") == NULL) continue;
		char from[600];
		snprintf(from, sizeof from, "%s/%s", folder, file);
		bool latent = strncmp(file, "super", 5) == 0 || strncmp(file, "ultra", 5) == 0;
		bool fp4 = strstr(file, "nvfp4") != NULL;
		mk_options o = {.from = from, .config = small, .config_count = ARRAY_LEN(small) - !latent};
		if (strstr(file, "-fp8") != NULL) o.format = MK_FP8;
		if (fp4) o.format = latent ? MK_SUPER : strncmp(file, "lightning", 9) == 0 ? MK_MIXED : MK_NVFP4;
		write_model(file, &o);
		opened m = open_all(dir_path(file));
		count++;
		close_all(&m);
	}
	file_list_free(&l);
	print_message("%d published shapes\n", count);
	assert_true(count >= 20);
}

/* --- values --- */

static double code_error(const st_set *set, const mk_source *s, double *worst)
{
	char name[256];
	snprintf(name, sizeof name, "%s.weight", s->name);
	const st_tensor *w = st_set_find(set, name);
	snprintf(name, sizeof name, "%s.weight_scale", s->name);
	const st_tensor *scale = st_set_find(set, name);
	snprintf(name, sizeof name, "%s.weight_scale_2", s->name);
	const st_tensor *second = st_set_find(set, name);
	assert_non_null(w);
	assert_non_null(scale);
	double square = 0, error = 0;
	*worst = 0;
	for (int64_t i = 0; i < s->n * s->k; i++) {
		double v = mk_value(s, (uint64_t)i), got, step;
		if (second == NULL) {
			float f;
			memcpy(&f, scale->data, sizeof f);
			got = (double)num_e4m3_to_f32(w->data[i]) * (double)f;
			step = fmax(fabs(v) / 16, (double)f / 1024);
		} else {
			float f;
			memcpy(&f, second->data, sizeof f);
			double block = (double)num_e4m3_to_f32(scale->data[i / 16]) * (double)f;
			uint8_t byte = w->data[i / 2];
			got = (double)num_e2m1_value[i % 2 ? byte >> 4 : byte & 15] * block;
			step = fabs(v) > 4 * block ? 1.01 * block : fabs(v) > 2 * block ? 0.5 * block : 0.25 * block;
		}
		*worst = fmax(*worst, fabs(got - v) / step);
		square += v * v;
		error += (got - v) * (got - v);
	}
	return sqrt(error / square);
}

static void codes_decode_to_the_values(void **state)
{
	(void)state;
	mk_options o = {.format = MK_SUPER, .seed = 7};
	write_model("m", &o);
	st_set *set = NULL;
	nh_error e = {0};
	if (st_set_open(&set, dir_path("m"), NULL, &e) != NH_OK) fail_msg("%s", e.text);
	const struct {
		const char *name;
		int64_t n, k;
		double gain, most;
	} rows[] = {{"backbone.layers.0.mixer.in_proj", 328, 64, 1, 0.03}, {"backbone.layers.5.mixer.down_proj", 64, 96, 0.7, 0.03},
	    {"backbone.layers.1.mixer.experts.3.up_proj", 32, 64, 1, 0.12}, {"backbone.layers.4.mixer.experts.7.down_proj", 64, 32, 0.5, 0.12}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		mk_source s = {
		    .name = rows[i].name, .fill = MK_MATRIX, .n = rows[i].n, .k = rows[i].k, .std = rows[i].gain / sqrt((double)rows[i].k)};
		s.seed = mk_seed(7, rows[i].name);
		double worst, relative = code_error(set, &s, &worst);
		print_message("%s: relative error %.4f, worst %.3f of the bound\n", rows[i].name, relative, worst);
		assert_true(relative > 0.001 && relative < rows[i].most);
		assert_true(worst <= 1.0);
	}
	st_set_close(set);
}

static void f32_parameters_are_no_bf16_values(void **state)
{
	(void)state;
	mk_options o = {.f32_params = true};
	write_model("m", &o);
	st_set *set = NULL;
	nh_error e = {0};
	if (st_set_open(&set, dir_path("m"), NULL, &e) != NH_OK) fail_msg("%s", e.text);
	size_t values = 0, tensors = 0;
	for (size_t i = 0; i < st_set_count(set); i++) {
		const st_tensor *t = st_set_at(set, i);
		if (t->dtype != NUM_F32) continue;
		tensors++;
		for (size_t j = 0; j < t->bytes / 4; j++, values++) {
			uint32_t bits;
			memcpy(&bits, t->data + 4 * j, 4);
			assert_int_not_equal(bits & 0xFFFF, 0);
			assert_true(isfinite(num_f32_bits(bits)));
		}
	}
	st_set_close(set);
	print_message("%zu values in %zu tensors\n", values, tensors);
	assert_int_equal(tensors, 2 * 3 + 2 * 2); /* two Mamba layers; two routers and their biases */
}

/* Decays and time steps have the range of a trained model. */
static void parameters_are_plausible(void **state)
{
	(void)state;
	mk_source a = {.fill = MK_A_LOG, .seed = mk_seed(1, "a"), .n = 1000, .k = 1}, d = {.fill = MK_DT_BIAS, .seed = mk_seed(1, "b")};
	mk_source w = {.fill = MK_MATRIX, .std = 1, .seed = mk_seed(1, "w")};
	double lo = 1e9, hi = 0, low_dt = 1e9, high_dt = 0, sum = 0, square = 0;
	for (uint64_t i = 0; i < 4000; i++) {
		double rate = exp(mk_value(&a, i)), dt = log1p(exp(mk_value(&d, i))), v = mk_value(&w, i);
		lo = fmin(lo, rate), hi = fmax(hi, rate);
		low_dt = fmin(low_dt, dt), high_dt = fmax(high_dt, dt);
		sum += v, square += v * v;
	}
	assert_true(lo >= 0.99 && lo < 1.1 && hi > 15 && hi <= 16.2);
	assert_true(low_dt > 0.00095 && low_dt < 0.0015 && high_dt < 0.105 && high_dt > 0.09);
	assert_true(fabs(sum / 4000) < 0.05 && fabs(square / 4000 - 1) < 0.06);
}

/* --- bytes --- */

static void same_files(const char *a, const char *b, bool same)
{
	static const char *const names[] = {
	    "model.safetensors", "config.json", "tokenizer.json", "hf_quant_config.json", "generation_config.json"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char x[65], y[65], path[600];
		nh_error e = {0};
		snprintf(path, sizeof path, "%s/%s", dir_path(a), names[i]);
		if (file_sha256(path, x, NULL, NULL, &e) != NH_OK) fail_msg("%s", e.text);
		snprintf(path, sizeof path, "%s/%s", dir_path(b), names[i]);
		if (file_sha256(path, y, NULL, NULL, &e) != NH_OK) fail_msg("%s", e.text);
		if (same || i > 0) assert_string_equal(x, y);
		else assert_string_not_equal(x, y);
	}
}

static void same_options_give_the_same_bytes(void **state)
{
	(void)state;
	mk_options o = {.format = MK_MIXED, .mtp = true, .seed = 3};
	write_model("a", &o);
	write_model("b", &o);
	same_files("a", "b", true);
	/* The bytes themselves, so that a change of the generator on another machine or day is seen. */
	char hex[65];
	nh_error e = {0};
	assert_int_equal(file_sha256(dir_path("a/model.safetensors"), hex, NULL, NULL, &e), NH_OK);
	assert_string_equal(hex, MK_EXPECTED);
	o.seed = 4;
	write_model("c", &o);
	same_files("a", "c", false);
}

static void shards_change_no_value(void **state)
{
	(void)state;
	mk_options o = {.format = MK_NVFP4};
	write_model("one", &o);
	o.shards = 5;
	write_model("five", &o);
	st_set *a = NULL, *b = NULL;
	nh_error e = {0};
	if (st_set_open(&a, dir_path("one"), NULL, &e) != NH_OK || st_set_open(&b, dir_path("five"), NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(st_set_files(a), 1);
	assert_int_equal(st_set_files(b), 5);
	assert_int_equal(st_set_count(a), st_set_count(b));
	for (size_t i = 0; i < st_set_count(a); i++) {
		const st_tensor *x = st_set_at(a, i), *y = st_set_at(b, i);
		assert_string_equal(x->name, y->name);
		assert_memory_equal(x->data, y->data, x->bytes);
		assert_true(x->aligned && y->aligned);
	}
	st_set_close(a);
	st_set_close(b);
}

/* --- like a published shape --- */

static const char *const thin[] = {"hidden_size=64", "vocab_size=320", "mamba_num_heads=8", "mamba_head_dim=16", "ssm_state_size=16",
    "n_groups=2", "num_attention_heads=4", "num_key_value_heads=2", "head_dim=16", "n_routed_experts=4", "num_experts_per_tok=2",
    "moe_intermediate_size=32", "moe_shared_expert_intermediate_size=48"};

static size_t code_bytes(const weight *w)
{
	const size_t values = (size_t)w->n * (size_t)w->k;
	return w->dtype == NUM_E2M1X2 ? values / 2 : values * num_bytes(w->dtype);
}

/* A file of a published shape holds what is drawn when the shape runs without one, to the bit. */
static void like_writes_what_loading_draws(void **state)
{
	(void)state;
	const mk_format formats[] = {MK_MIXED, MK_BF16, MK_FP8, MK_NVFP4};
	size_t codes = 0;
	for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
		mk_options o = {.like = "lightning-30b", .layers = 8, .format = formats[f], .seed = 5 + f, .force = true};
		o.config = thin;
		o.config_count = ARRAY_LEN(thin);
		write_model("like", &o);
		opened file = open_how(dir_path("like"), false, 0);
		const size_t count = met.count, uploads = met.uploads;
		const uint64_t hash = met.hash;
		const weight *w[ARRAY_LEN(met.w)];
		memcpy(w, met.w, sizeof w);
		assert_in_range(count, 20, ARRAY_LEN(met.w));
		opened drawn = open_how(dir_path("like"), true, 5 + f);
		assert_int_equal(met.count, count);
		for (size_t i = 0; i < count; i++) {
			const weight *v = met.w[i];
			assert_string_equal(w[i]->name, v->name);
			if (w[i]->dtype != v->dtype || memcmp(w[i]->data, v->data, code_bytes(v)) != 0) fail_msg("%s: other codes", v->name);
			if (v->block_scale && memcmp(w[i]->block_scale, v->block_scale, (size_t)(v->n * v->k / 16)) != 0)
				fail_msg("%s: other block scales", v->name);
			if (w[i]->scale != v->scale || w[i]->input_scale != v->input_scale) fail_msg("%s: other scales", v->name);
			codes += code_bytes(v);
		}
		assert_int_equal(met.uploads, uploads);
		assert_true(met.hash == hash);
		close_all(&drawn);
		close_all(&file);
	}
	print_message("%zu bytes of codes compared\n", codes);
	assert_true(codes > 100000);
}

/* No file has more data than asked for; together they hold every tensor once. */
static void shards_keep_a_size(void **state)
{
	(void)state;
	const uint64_t most = 40000;
	mk_options o = {.like = "lightning-30b", .layers = 8, .format = MK_MIXED, .config = thin, .config_count = ARRAY_LEN(thin)};
	write_model("one", &o);
	o.shard_bytes = most;
	write_model("many", &o);
	st_set *a = NULL, *b = NULL;
	nh_error e = {0};
	if (st_set_open(&a, dir_path("one"), NULL, &e) != NH_OK || st_set_open(&b, dir_path("many"), NULL, &e) != NH_OK) fail_msg("%s", e.text);
	assert_int_equal(st_set_files(a), 1);
	assert_int_equal(st_set_count(a), st_set_count(b));
	const size_t files = st_set_files(b);
	uint64_t sum[100] = {0};
	size_t tensors[100] = {0};
	assert_in_range(files, 3, 100);
	for (size_t i = 0; i < st_set_count(a); i++) {
		const st_tensor *x = st_set_at(a, i), *y = st_set_find(b, x->name);
		assert_non_null(y);
		assert_memory_equal(x->data, y->data, x->bytes);
	}
	json_t *index;
	assert_int_equal(jsn_load_path(&index, dir_path("many/model.safetensors.index.json"), 1 << 20, &e), NH_OK);
	const char *name;
	json_t *file;
	json_object_foreach(json_object_get(index, "weight_map"), name, file)
	{
		int shard = 0;
		assert_int_equal(sscanf(json_string_value(file), "model-%5d-of-", &shard), 1);
		assert_in_range(shard, 1, files);
		sum[shard - 1] += st_set_find(b, name)->bytes;
		tensors[shard - 1]++;
	}
	json_decref(index);
	for (size_t i = 0; i < files; i++) assert_true(tensors[i] == 1 || (tensors[i] > 1 && sum[i] <= most));
	print_message("%zu files of at most %llu bytes\n", files, (unsigned long long)most);
	st_set_close(a);
	st_set_close(b);
}

/* --- the folder --- */

static void refused(const mk_options *o, const char *name, const char *text)
{
	nh_error e = {0};
	assert_int_not_equal(mk_write(dir_path(name), o, &e), NH_OK);
	if (strstr(e.text, text) == NULL) fail_msg("\"%s\" is not in: %s", text, e.text);
}

static bool stop_at_once(void *user, const char *what, uint64_t done, uint64_t total)
{
	(void)user, (void)what, (void)done, (void)total;
	return false;
}

static void refusals_name_the_reason(void **state)
{
	(void)state;
	file_list l = {0};
	refused(&(mk_options){.pattern = "MXM"}, "m", "letters");
	refused(&(mk_options){.config = (const char *[]){"hidden_size"}, .config_count = 1}, "m", "KEY=VALUE");
	refused(&(mk_options){.config = (const char *[]){"hidden_size=-3"}, .config_count = 1}, "m", "hidden_size");
	refused(&(mk_options){.config = (const char *[]){"eos_token_id=512"}, .config_count = 1}, "m", "eos_token_id");
	refused(&(mk_options){.config = (const char *[]){"\xff=1"}, .config_count = 1}, "m", "not UTF-8");
	char many[NM_MAX_LAYERS + 2];
	memset(many, 'M', sizeof many - 1);
	many[sizeof many - 1] = '\0';
	refused(&(mk_options){.pattern = many}, "m", "has 4097 layers, the limit is 4096");
	refused(&(mk_options){.config = (const char *[]){"use_rope=true"}, .config_count = 1, .from = dir_path("none.json")}, "m", "none.json");
	refused(&(mk_options){.format = MK_NVFP4, .config = (const char *[]){"moe_intermediate_size=24"}, .config_count = 1}, "m",
	    "multiple of 16");
	refused(&(mk_options){.shards = 5000}, "m", "shards");
	refused(&(mk_options){.tokenizer = dir_path("absent.json")}, "m", "absent.json");
	refused(&(mk_options){.progress = stop_at_once}, "m", "cancelled");
	assert_int_equal(file_list_dir(&l, dir_path("."), NULL), NH_OK);
	assert_int_equal(l.count, 0); /* nothing is left behind */
	file_list_free(&l);
}

static void a_folder_with_files_needs_force(void **state)
{
	(void)state;
	mk_options o = {.shards = 3};
	write_model("m", &o);
	dir_put("m/notes.txt", "mine");
	o = (mk_options){.format = MK_FP8};
	refused(&o, "m", "--force");
	o.force = true;
	write_model("m/", &o);
	opened m = open_all(dir_path("m"));
	assert_int_equal(st_set_files(m.set), 1); /* no shard of the old model is left */
	close_all(&m);
	assert_true(file_exists(dir_path("m/notes.txt")));
	assert_false(file_exists(dir_path("m/model.safetensors.index.json")));
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, dir_setup, dir_teardown)
	const struct CMUnitTest tests[] = {ONE(every_format_and_shape_balances), ONE(biases_and_tied_heads_balance),
	    ONE(published_rows_can_be_written), ONE(codes_decode_to_the_values), ONE(f32_parameters_are_no_bf16_values),
	    ONE(parameters_are_plausible), ONE(same_options_give_the_same_bytes), ONE(shards_change_no_value),
	    ONE(like_writes_what_loading_draws), ONE(shards_keep_a_size), ONE(refusals_name_the_reason), ONE(a_folder_with_files_needs_force)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
