/* SPDX-License-Identifier: Apache-2.0
 * seqfile.c: a head of a fixed size written field by field, token ids, contents, checksum. One pass either way. Sizes are checked against the
 * size of the file before anything is allocated; what was read is handed out after the checksum over it agreed.
 * Ids and contents are stored as they lie in memory; numbers are little-endian, and so is every machine that this builds for.
 */
#include "cache/seqfile_impl.h"

#include <string.h>
#include <xxhash.h>

#include "base/base_file.h"
#include "base/base_mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids and contents would have to be swapped");

static const char MAGIC[8] = {'N', 'H', 'S', 'E', 'Q'};

/* The head, front to back; each visit names a field once, so that reading and writing cannot differ. */
typedef struct seqfile_cursor {
	unsigned char *at; /* in the head's bytes */
	bool writing, bad; /* bad: a text without an end, or with something behind it */
} seqfile_cursor;

static void visit_number(seqfile_cursor *c, void *value, size_t bytes)
{
	uint64_t v = 0;
	if (c->writing) memcpy(&v, value, bytes);
	for (size_t i = 0; i < bytes; i++) {
		if (c->writing) c->at[i] = (unsigned char)(v >> 8 * i);
		else v |= (uint64_t)c->at[i] << 8 * i;
	}
	if (!c->writing) memcpy(value, &v, bytes);
	c->at += bytes;
}

static void visit_text(seqfile_cursor *c, char *text, size_t bytes)
{
	if (c->writing) {
		memset(c->at, 0, bytes);
		memcpy(c->at, text, strnlen(text, bytes - 1));
	} else {
		memcpy(text, c->at, bytes);
		size_t n = strnlen(text, bytes);
		for (size_t i = n; i < bytes; i++) c->bad |= text[i] != 0;
		c->bad |= n == bytes;
		text[bytes - 1] = 0;
	}
	c->at += bytes;
}

static void visit_head(seqfile_cursor *c, seqfile_head *h)
{
	uint32_t zero = 0;
	visit_number(c, &h->version, sizeof h->version);
	visit_number(c, &zero, sizeof zero);
	c->bad |= zero != 0;
	visit_text(c, h->identity, sizeof h->identity);
	visit_text(c, h->model, sizeof h->model);
	visit_text(c, h->arm, sizeof h->arm);
	visit_text(c, h->tier, sizeof h->tier);
	visit_text(c, h->numerics, sizeof h->numerics);
	visit_text(c, h->kv_dtype, sizeof h->kv_dtype);
	visit_number(c, &h->tokens, sizeof h->tokens);
	visit_number(c, &h->computed, sizeof h->computed);
	visit_number(c, &h->generated, sizeof h->generated);
	visit_number(c, &h->segment, sizeof h->segment);
	visit_number(c, &h->created, sizeof h->created);
	visit_number(c, &h->content_bytes, sizeof h->content_bytes);
}

static nh_status check_counts(const seqfile_head *h, const char *name, nh_error *e)
{
	const int64_t most = (int64_t)(SEQFILE_LIMIT / sizeof(int32_t));
	if (h->tokens < 0 || h->tokens > most)
		return ERR(e, NH_ERR_FORMAT, "%s: tokens: %lld, expected 0 to %lld", name, (long long)h->tokens, (long long)most);
	if (h->computed < 0 || h->computed > h->tokens)
		return ERR(
		    e, NH_ERR_FORMAT, "%s: computed: %lld, expected 0 to the %lld tokens", name, (long long)h->computed, (long long)h->tokens);
	if (h->generated < 0 || h->generated > h->tokens)
		return ERR(
		    e, NH_ERR_FORMAT, "%s: generated: %lld, expected 0 to the %lld tokens", name, (long long)h->generated, (long long)h->tokens);
	if (h->segment < 0 || h->segment > h->computed)
		return ERR(e, NH_ERR_FORMAT, "%s: segment: %lld, expected 0 to the %lld computed tokens", name, (long long)h->segment,
		    (long long)h->computed);
	if (h->content_bytes > SEQFILE_LIMIT)
		return ERR(e, NH_ERR_FORMAT, "%s: contents: %llu bytes, expected at most %llu", name, (unsigned long long)h->content_bytes,
		    (unsigned long long)SEQFILE_LIMIT);
	return NH_OK;
}

static nh_status check_ids(const int32_t *ids, int64_t n, const char *name, nh_error *e)
{
	for (int64_t i = 0; i < n; i++)
		if (ids[i] < 0) return ERR(e, NH_ERR_FORMAT, "%s: token %lld: %d, expected no negative id", name, (long long)i, (int)ids[i]);
	return NH_OK;
}

static nh_status put(file_writer *w, XXH3_state_t *sum, const void *data, size_t bytes, nh_error *e)
{
	file_writer_put(w, data, bytes);
	if (bytes && XXH3_64bits_update(sum, data, bytes) != XXH_OK) return ERR_NOMEM(e);
	return NH_OK;
}

nh_status seqfile_write(const char *path, const seqfile_head *head, const int32_t *ids, const swapped *state, nh_error *e)
{
	unsigned char bytes[SEQFILE_HEAD_BYTES], end[SEQFILE_SUM_BYTES];
	seqfile_head h = *head;
	h.version = SEQFILE_VERSION;
	h.content_bytes = swap_bytes(state);
	TRY(check_counts(&h, path, e));
	TRY(check_ids(ids, h.tokens, path, e));
	if (h.computed != swap_length(state))
		return ERR(e, NH_ERR_ARG, "%s: computed: %lld, the state has %lld", path, (long long)h.computed, (long long)swap_length(state));
	memcpy(bytes, MAGIC, sizeof MAGIC);
	seqfile_cursor c = {bytes + sizeof MAGIC, true, false};
	visit_head(&c, &h);

	file_writer w = {0};
	XXH3_state_t *sum = XXH3_createState();
	nh_status s = sum && XXH3_64bits_reset(sum) == XXH_OK ? NH_OK : ERR_NOMEM(e);
	if (s == NH_OK) s = file_writer_open(&w, path, e);
	if (s == NH_OK) s = put(&w, sum, bytes, sizeof bytes, e);
	if (s == NH_OK) s = put(&w, sum, ids, (size_t)h.tokens * sizeof *ids, e);
	if (s == NH_OK) s = put(&w, sum, swap_content(state), swap_bytes(state), e);
	if (s == NH_OK) {
		uint64_t digest = XXH3_64bits_digest(sum);
		c = (seqfile_cursor){end, true, false};
		visit_number(&c, &digest, sizeof digest);
		file_writer_put(&w, end, sizeof end);
		s = file_writer_commit(&w, e);
	}
	file_writer_abort(&w);
	XXH3_freeState(sum);
	return s;
}

/* Reads into `to`, or past it where it is NULL; in pieces, because what is only summed up has no memory of its own. */
static nh_status get(FILE *f, XXH3_state_t *sum, void *to, uint64_t bytes, const char *name, nh_error *e)
{
	unsigned char piece[16384];
	for (uint64_t done = 0; done < bytes;) {
		size_t n = bytes - done < sizeof piece ? (size_t)(bytes - done) : sizeof piece;
		unsigned char *at = to ? (unsigned char *)to + done : piece;
		if (!file_get(f, at, n)) return ERR(e, NH_ERR_IO, "%s: cannot read all of it", name);
		if (XXH3_64bits_update(sum, at, n) != XXH_OK) return ERR_NOMEM(e);
		done += n;
	}
	return NH_OK;
}

static nh_status read_head(FILE *f, XXH3_state_t *sum, uint64_t size, const char *name, seqfile_head *h, nh_error *e)
{
	unsigned char bytes[SEQFILE_HEAD_BYTES];
	const uint64_t least = SEQFILE_HEAD_BYTES + SEQFILE_SUM_BYTES;
	if (size > SEQFILE_LIMIT)
		return ERR(
		    e, NH_ERR_LIMIT, "%s: %llu bytes, expected at most %llu", name, (unsigned long long)size, (unsigned long long)SEQFILE_LIMIT);
	if (size < least)
		return ERR(e, NH_ERR_FORMAT, "%s: %llu bytes, a sequence file has at least %llu", name, (unsigned long long)size,
		    (unsigned long long)least);
	TRY(get(f, sum, bytes, sizeof bytes, name, e));
	if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0) return ERR(e, NH_ERR_FORMAT, "%s: not a sequence file", name);
	seqfile_cursor c = {bytes + sizeof MAGIC, false, false};
	visit_head(&c, h);
	if (h->version != SEQFILE_VERSION)
		return ERR(e, NH_ERR_UNSUPPORTED, "%s: version %u, expected %u", name, h->version, (unsigned)SEQFILE_VERSION);
	if (c.bad) return ERR(e, NH_ERR_FORMAT, "%s: the head is damaged", name);
	TRY(check_counts(h, name, e));
	const uint64_t whole = least + (uint64_t)h->tokens * sizeof(int32_t) + h->content_bytes;
	if (size != whole)
		return ERR(e, NH_ERR_FORMAT, "%s: %llu bytes, its head says %llu", name, (unsigned long long)size, (unsigned long long)whole);
	return NH_OK;
}

nh_status seqfile_read_stream(FILE *f, uint64_t size, const char *name, seqfile_head *head, int32_t **ids, const states *s, const pages *p,
    swapped **state, nh_error *e)
{
	seqfile_head h;
	int32_t *id = NULL;
	swapped *copy = NULL;
	unsigned char end[SEQFILE_SUM_BYTES];
	XXH3_state_t *sum = XXH3_createState();
	nh_status r = sum && XXH3_64bits_reset(sum) == XXH_OK ? NH_OK : ERR_NOMEM(e);
	if (r != NH_OK) goto out;
	TRY_GOTO(r, read_head(f, sum, size, name, &h, e), out);
	if (state && h.content_bytes != swap_content_bytes(s, p, h.computed)) {
		r = ERR(e, NH_ERR_FORMAT, "%s: contents: %llu bytes, this model makes %zu of %lld tokens", name,
		    (unsigned long long)h.content_bytes, swap_content_bytes(s, p, h.computed), (long long)h.computed);
		goto out;
	}
	if (ids && !(id = mem_array((size_t)h.tokens, sizeof *id))) r = ERR_NOMEM(e);
	if (r != NH_OK) goto out;
	if (state) TRY_GOTO(r, swap_blank(&copy, s, p, h.computed, e), out);
	TRY_GOTO(r, get(f, sum, id, (uint64_t)h.tokens * sizeof *id, name, e), out);
	TRY_GOTO(r, get(f, sum, copy ? swap_fill(copy) : NULL, h.content_bytes, name, e), out);
	const uint64_t digest = XXH3_64bits_digest(sum);
	uint64_t told;
	TRY_GOTO(r, get(f, sum, end, sizeof end, name, e), out);
	visit_number(&(seqfile_cursor){end, false, false}, &told, sizeof told);
	if (told != digest) {
		r = ERR(e, NH_ERR_FORMAT, "%s: damaged: checksum %016llx, expected %016llx", name, (unsigned long long)digest,
		    (unsigned long long)told);
		goto out;
	}
	if (id) TRY_GOTO(r, check_ids(id, h.tokens, name, e), out);
	*head = h;
	if (ids) *ids = id;
	if (state) *state = copy;
	id = NULL;
	copy = NULL;
out:
	mem_free(id);
	swap_free(copy);
	XXH3_freeState(sum);
	return r;
}

static nh_status read_file(
    const char *path, seqfile_head *head, int32_t **ids, const states *s, const pages *p, swapped **state, nh_error *e)
{
	FILE *f;
	size_t size;
	TRY(file_open(&f, &size, path, e));
	nh_status r = seqfile_read_stream(f, size, path, head, ids, s, p, state, e);
	fclose(f);
	return r;
}

nh_status seqfile_head_read(const char *path, seqfile_head *head, nh_error *e) { return read_file(path, head, NULL, NULL, NULL, NULL, e); }

nh_status seqfile_read(const char *path, seqfile_head *head, int32_t **ids, const states *s, const pages *p, swapped **state, nh_error *e)
{
	*ids = NULL;
	*state = NULL;
	return read_file(path, head, ids, s, p, state, e);
}
