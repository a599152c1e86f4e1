/* SPDX-License-Identifier: Apache-2.0
 * identity.c: the records of identity.h. The invariant: no two different checkpoints give one byte sequence, so every part is
 * preceded by its kind, name and length.
 */
#include "fmt/identity.h"

#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"

static void record(sha256 *h, const char *kind, const char *name, const void *data, size_t bytes)
{
	uint8_t length[8];
	for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
	sha256_update(h, kind, strlen(kind) + 1);
	sha256_update(h, name, strlen(name) + 1);
	sha256_update(h, length, sizeof length);
	sha256_update(h, data, bytes);
}

static nh_status record_file(sha256 *h, const char *name, const char *path, nh_error *e)
{
	file_map m;
	TRY(file_map_open(&m, path, e));
	record(h, "file", name, m.data, m.size);
	file_map_close(&m);
	return NH_OK;
}

static nh_status record_set(sha256 *h, const st_set *set, nh_progress_fn progress, void *user, nh_error *e)
{
	for (size_t i = 0; i < st_set_files(set); i++) {
		size_t bytes;
		const uint8_t *header = st_file_header(st_set_file(set, i), &bytes);
		record(h, "header", path_base(st_file_path(st_set_file(set, i))), header, bytes);
	}
	for (size_t i = 0; i < st_set_count(set); i++) {
		const st_tensor *t = st_set_at(set, i);
		record(h, "tensor", t->name, t->data, t->bytes < IDENTITY_TENSOR_BYTES ? t->bytes : IDENTITY_TENSOR_BYTES);
		if (progress && i % 64 == 63 && !progress(user, "tensors", i + 1, st_set_count(set)))
			return ERR(e, NH_ERR_CANCELLED, "identity of the checkpoint: cancelled");
	}
	return NH_OK;
}

nh_status identity_compute(
    const char *config, const char *tokenizer, const st_set *set, nh_progress_fn progress, void *user, char hex[65], nh_error *e)
{
	hex[0] = 0;
	sha256 *h = sha256_create();
	if (!h) return ERR_NOMEM(e);
	record(h, "version", "nemotron.c checkpoint identity", "1", 1);
	nh_status s = record_file(h, "config.json", config, e);
	if (s == NH_OK && tokenizer) s = record_file(h, "tokenizer.json", tokenizer, e);
	if (s == NH_OK && set) s = record_set(h, set, progress, user, e);
	sha256_finish(h, hex);
	if (s == NH_OK && !hex[0]) s = ERR(e, NH_ERR_INTERNAL, "%s: the digest library failed", config);
	if (s != NH_OK) hex[0] = 0;
	return s;
}
