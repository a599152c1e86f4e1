/* SPDX-License-Identifier: Apache-2.0
 * helper_conf.c: what a case stands on: memory on both sides, seeded values, outputs.
 */
#include "conf.h"

#include "common/bands.h"

bool conf_mutant(conf *c, const char *name)
{
	int i = 0;
	while (i < c->mutants && strcmp(c->names[i], name) != 0) i++;
	assert_true(i < CONF_MUTANTS);
	if (i == c->mutants) c->names[c->mutants++] = name;
	return c->active && strcmp(c->active, name) == 0;
}

double conf_rand(conf *c)
{
	uint64_t n = c->drawn++;
	return rng_unit(c->seed, n, 0) + rng_unit(c->seed, n, 1) - 1.0;
}

int64_t conf_below(conf *c, int64_t n) { return (int64_t)(rng_u64(c->seed, c->drawn++, 2) % (uint64_t)n); }

tensor conf_host(conf *c, num_dtype type, int rank, int64_t a, int64_t b, int64_t d, int64_t e)
{
	const int64_t shape[4] = {a, b, d, e};
	size_t bytes = 0;
	assert_true(tensor_size(type, rank, shape, &bytes));
	void *p = arena_alloc(&c->mem, bytes + 1);
	assert_non_null(p);
	memset(p, 0, bytes + 1);
	return tensor_nd(p, type, rank, shape);
}

double conf_get(const tensor *t, int64_t i)
{
	switch (t->dtype) {
	case NUM_I32: return (double)((const int32_t *)t->data)[i];
	case NUM_U8: return (double)((const uint8_t *)t->data)[i];
	default: return num_load(t->dtype, t->data, (size_t)i);
	}
}

void conf_set(const tensor *t, int64_t i, double v)
{
	if (t->dtype == NUM_I32) ((int32_t *)t->data)[i] = (int32_t)v;
	else num_store(t->dtype, t->data, (size_t)i, v);
}

tensor conf_random(conf *c, num_dtype type, int64_t rows, int64_t cols, double middle, double scale)
{
	tensor t = cols ? conf_host(c, type, 2, rows, cols, 1, 1) : conf_host(c, type, 1, rows, 1, 1, 1);
	for (int64_t i = 0; i < tensor_count(&t); i++) conf_set(&t, i, middle + scale * conf_rand(c));
	return t;
}

tensor conf_ints(conf *c, int64_t n, const int32_t *v)
{
	tensor t = conf_host(c, NUM_I32, 1, n, 1, 1, 1);
	memcpy(t.data, v, (size_t)n * sizeof *v);
	return t;
}

void *conf_put_bytes(conf *c, const void *p, size_t bytes)
{
	void *to = c->arm->alloc(c->x, bytes + 1);
	assert_non_null(to);
	assert_true((size_t)c->devices < sizeof c->device / sizeof *c->device);
	c->device[c->devices++] = to;
	assert_int_equal(c->arm->upload(c->x, to, p, bytes, NULL), NH_OK);
	return to;
}

tensor conf_put(conf *c, const tensor *host)
{
	tensor t = *host;
	t.data = conf_put_bytes(c, host->data, tensor_bytes(host));
	return t;
}

tensor conf_back(conf *c, const tensor *on_arm)
{
	tensor t = *on_arm;
	t.data = arena_alloc(&c->mem, tensor_bytes(on_arm) + 1);
	assert_int_equal(c->arm->download(c->x, t.data, on_arm->data, tensor_bytes(on_arm), NULL), NH_OK);
	return t;
}

weight conf_weight(conf *c, num_scheme scheme, int64_t n, int64_t k)
{
	const num_dtype type = scheme == NUM_SCHEME_NONE ? NUM_BF16 : scheme == NUM_SCHEME_FP8 ? NUM_E4M3 : NUM_E2M1X2;
	const bool fp4 = type == NUM_E2M1X2;
	weight w = {.name = "w", .scheme = scheme, .dtype = type, .n = n, .k = k, .scale = 1.0f};
	uint8_t *p = arena_alloc(&c->mem, (size_t)(n * k) * 2);
	for (int64_t i = 0; !fp4 && i < n * k; i++) num_store(type, p, (size_t)i, type == NUM_E4M3 ? 300.0 * conf_rand(c) : conf_rand(c));
	for (int64_t i = 0; fp4 && i < n * k / 2; i++) p[i] = (uint8_t)conf_below(c, 256);
	w.data = p;
	if (fp4) {
		uint8_t *s = arena_alloc(&c->mem, (size_t)(n * k / 16));
		for (int64_t i = 0; i < n * k / 16; i++) s[i] = num_f64_to_e4m3(200.0 + 190.0 * conf_rand(c));
		w.block_scale = s;
	}
	if (scheme != NUM_SCHEME_NONE) w.scale = (float)(0.003 * (1.2 + conf_rand(c)));
	if (scheme == NUM_SCHEME_FP8 || scheme == NUM_SCHEME_NVFP4) w.input_scale = (float)(0.004 * (1.2 + conf_rand(c)));
	return w;
}

void conf_import(conf *c, weight *w)
{
	nh_error e = {0};
	if (c->arm->import(c->x, w, &e) != NH_OK) fail_msg("%s", e.text);
	assert_true((size_t)c->imported < sizeof c->weights / sizeof *c->weights);
	c->weights[c->imported++] = *w;
}

void conf_out_host(conf *c, const tensor *host)
{
	assert_true(c->outputs < CONF_OUTPUTS);
	const int64_t n = tensor_count(host), width = host->rank > 1 ? host->shape[host->rank - 1] : 1;
	double *v = arena_array(&c->mem, (size_t)n, sizeof *v);
	for (int64_t i = 0; i < n; i++) v[i] = conf_get(host, i);
	c->out[c->outputs++] = (conf_output){v, width ? n / width : 0, width, host->dtype == NUM_I32 || host->dtype == NUM_U8};
}

void conf_out(conf *c, const tensor *on_arm)
{
	nh_error e = {0};
	if (exec_status(c->x, &e) != NH_OK) fail_msg("%s: %s", c->arm->name, e.text);
	tensor t = conf_back(c, on_arm);
	conf_out_host(c, &t);
}

void conf_run(conf *c, const conf_case *k, const backend *arm, const char *isa, const char *profile, int variant, const char *mutant)
{
	*c = (conf){.arm = arm, .variant = variant, .active = mutant, .seed = rng_u64(CONF_SEED, k->op, (uint64_t)variant)};
	arena_init(&c->mem);
	nh_error e = {0};
	if (arm->open(&c->x, &(backend_options){.num = num_profile(profile), .isa = isa, .threads = 2}, &e) != NH_OK)
		fail_msg("%s: %s", arm->name, e.text);
	k->run(c);
	if (exec_status(c->x, &e) != NH_OK) fail_msg("%s: %s: %s", arm->name, op_name(k->op), e.text);
	assert_true(c->x->counters.op[k->op].calls > 0); /* the case calls what it says */
	assert_true(c->outputs > 0);
}

void conf_done(conf *c)
{
	for (int i = 0; i < c->imported; i++) c->arm->release(c->x, &c->weights[i]);
	for (int i = 0; i < c->devices; i++) c->arm->free(c->x, c->device[i]);
	c->arm->close(c->x);
	arena_deinit(&c->mem);
}

double conf_compare(const conf *a, const conf *ref, uint64_t *elements)
{
	double worst = 0;
	assert_int_equal(a->outputs, ref->outputs);
	for (int o = 0; o < ref->outputs; o++) {
		const conf_output *x = &a->out[o], *y = &ref->out[o];
		double all = 0;
		assert_true(x->rows == y->rows && x->width == y->width && x->rows * x->width > 0);
		for (int64_t i = 0; i < y->rows * y->width; i++)
			if (isfinite(y->v[i])) all += y->v[i] * y->v[i];
		for (int64_t r = 0; r < y->rows; r++) {
			double far = 0, size = 1e-6 * all / (double)y->rows;
			for (int64_t i = r * y->width; i < (r + 1) * y->width; i++) {
				*elements += 1;
				if (x->v[i] == y->v[i] || (isnan(x->v[i]) && isnan(y->v[i]))) { /* infinities too */
					size += isfinite(y->v[i]) ? y->v[i] * y->v[i] : 0;
					continue;
				}
				double d = y->exact || !isfinite(x->v[i]) || !isfinite(y->v[i]) ? INFINITY : x->v[i] - y->v[i];
				far += d * d, size += isfinite(y->v[i]) ? y->v[i] * y->v[i] : 0;
			}
			double e = far == 0 ? 0 : isinf(far) || size == 0 ? 1 : sqrt(far / size);
			worst = e > worst ? e : worst;
		}
	}
	return worst;
}

int conf_kind(const char *profile) { return num_profile(profile)->rounding == NUM_ROUND_EAGER ? CONF_EAGER : CONF_PLAIN; }

double conf_band(op_id op, int kind) { return band_of(op, kind == CONF_EAGER); }
