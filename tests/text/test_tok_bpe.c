/* SPDX-License-Identifier: Apache-2.0
 * test_tok_bpe.c: words of random vocabularies against merging as it is defined: of all pairs the lowest rank, of equal ones the leftmost, one at a time.
 * Words lie around the length where the method changes, come back often enough to be remembered, and have bytes that the vocabulary lacks.
 */
#include "test.h"

#include <string.h>

#include "base/base_mem.h"
#include "base/base_rng.h"
#include "helper_text.h"

#define LETTERS 6 /* "a" to "e" and the space */
#define MERGES 160
#define WORDS 400
#define SPECIAL 0 /* the id of the special token "ab", which merges may give */
#define UNK 1
#define FIRST 2

/* What the test knows: pieces by id, and the rank and result of each pair. */
typedef struct world {
	char piece[FIRST + LETTERS + MERGES][96];
	int count, rank[FIRST + LETTERS + MERGES][FIRST + LETTERS + MERGES], gives[MERGES];
	bool lacks_e, has_unk, fuse_unk, whole_first; /* whole_first: ignore_merges */
} world;

static int piece_find(const world *w, const char *text, size_t len)
{
	for (int i = 0; i < w->count; i++)
		if (strlen(w->piece[i]) == len && memcmp(w->piece[i], text, len) == 0) return i;
	return -1;
}

static tokenizer *make(world *w, uint64_t seed)
{
	buf merges = {0}, json = {0};
	uint64_t draws = 0;
	memset(w->rank, 0xFF, sizeof w->rank);
	strcpy(w->piece[SPECIAL], "ab");
	strcpy(w->piece[UNK], "<unk>");
	for (int i = 0; i < LETTERS; i++) snprintf(w->piece[FIRST + i], 8, "%c", i == LETTERS - 1 ? ' ' : 'a' + i);
	w->count = FIRST + LETTERS;
	for (int n = 0; n < MERGES;) {
		int a = (int)(rng_u64(seed, draws++, 0) % (uint64_t)w->count), b = (int)(rng_u64(seed, draws++, 0) % (uint64_t)w->count);
		char text[200];
		snprintf(text, sizeof text, "%s%s", w->piece[a], w->piece[b]);
		if (a == UNK || b == UNK || strchr(text, ' ') || strlen(text) > 90) continue;
		if (w->lacks_e && strchr(text, 'e')) continue;
		int whole = piece_find(w, text, strlen(text));
		if (whole < 0) strcpy(w->piece[whole = w->count++], text);
		w->rank[a][b] = n; /* a pair that comes again gets the later rank */
		w->gives[n] = whole;
		buf_printf(&merges, "%s[\"%s\",\"%s\"]", n ? "," : "", w->piece[a], w->piece[b]);
		n++;
	}
	buf_printf(&json,
	    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
	    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
	    "\"added_tokens\":[{\"id\":0,\"content\":\"ab\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,",
	    w->whole_first ? "true" : "false");
	if (w->has_unk) buf_printf(&json, "\"unk_token\":\"<unk>\",\"fuse_unk\":%s,", w->fuse_unk ? "true" : "false");
	buf_str(&json, "\"vocab\":{");
	for (int i = 0; i < w->count; i++)
		if (!(w->lacks_e && strcmp(w->piece[i], "e") == 0))
			buf_printf(&json, "%s\"%s\":%d", i ? "," : "", w->piece[i][0] == ' ' ? "\xC4\xA0" : w->piece[i], i);
	buf_printf(&json, "},\"merges\":[%s]}", merges.data);
	tokenizer *t = text_open_small(json.data);
	buf_deinit(&merges);
	buf_deinit(&json);
	return t;
}

static int symbol_of(const world *w, char c)
{
	int id = c == ' ' ? FIRST + LETTERS - 1 : c >= 'a' && c < 'a' + LETTERS - 1 ? FIRST + c - 'a' : -1;
	if (id < 0 || (w->lacks_e && c == 'e')) return w->has_unk ? UNK : -1;
	return id;
}

/* Merging as it is defined; appends to out, returns the new count. */
static size_t define(const world *w, const char *word, size_t len, bool plain, int32_t *out, size_t count)
{
	int ids[512];
	size_t n = 0;
	int whole = w->whole_first ? piece_find(w, word, len) : -1;
	if (whole >= 0 && !(w->lacks_e && strcmp(w->piece[whole], "e") == 0) && !(plain && whole == SPECIAL)) {
		out[count] = whole;
		return count + 1;
	}
	for (size_t i = 0; i < len; i++) {
		int id = symbol_of(w, word[i]);
		bool again = i > 0 && id == UNK && w->fuse_unk && symbol_of(w, word[i - 1]) == UNK;
		if (id >= 0 && !again) ids[n++] = id;
	}
	for (;;) {
		int best = MERGES;
		size_t at = 0;
		for (size_t i = 0; i + 1 < n; i++) {
			int rank = w->rank[ids[i]][ids[i + 1]];
			if (rank < 0 || rank >= best || (plain && w->gives[rank] == SPECIAL)) continue;
			best = rank;
			at = i;
		}
		if (best == MERGES) break;
		ids[at] = w->gives[best];
		n--;
		memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
	}
	for (size_t i = 0; i < n; i++) out[count++] = ids[i];
	return count;
}

static void compare(const world *w, const tokenizer *t, uint64_t seed, unsigned flags)
{
	static int32_t want[WORDS * 130];
	char text[WORDS * 130], *words[WORDS];
	size_t lens[WORDS], len = 0, count = 0;
	bool plain = flags != 0;
	for (uint64_t n = 0; n < WORDS; n++) {
		uint64_t r = rng_u64(seed, n, 1);
		char *word = text + len;
		words[n] = word;
		if (n > 0 && r % 3 == 0) { /* one that was there before */
			size_t k = (size_t)(r >> 8) % n;
			memcpy(word, words[k], lens[n] = lens[k]);
		} else {
			lens[n] = r % 5 == 0 ? 28 + (r >> 8) % 10 : r % 7 == 0 ? 100 : 1 + (r >> 8) % 24;
			for (size_t i = 0; i < lens[n]; i++)
				word[i] = (char)('a' + rng_u64(seed, n * 128 + i, 2) % (w->has_unk ? LETTERS : LETTERS - 1));
		}
		len += lens[n];
		count = define(w, word, lens[n], plain, want, count);
		text[len++] = ' ';
		count = define(w, " ", 1, plain, want, count);
	}
	tok_ids got = {0};
	nh_error e = {0};
	if (tok_encode(t, text, len, flags, &got, &e) != NH_OK) fail_msg("%s", e.text);
	for (size_t i = 0; i < count && i < got.count; i++)
		if (got.ids[i] != want[i])
			fail_msg("seed %llu, flags %u: id %zu is %d, want %d", (unsigned long long)seed, flags, i, got.ids[i], want[i]);
	assert_int_equal(got.count, count);
	tok_ids_deinit(&got);
}

static void as_defined(void **state)
{
	(void)state;
	static world w;
	for (uint64_t seed = 0; seed < 48; seed++) {
		w.lacks_e = seed % 2;
		w.has_unk = seed / 2 % 2;
		w.fuse_unk = seed / 4 % 2;
		w.whole_first = seed / 8 % 2;
		tokenizer *t = make(&w, seed);
		compare(&w, t, seed, TOK_PLAIN_ADDED);
		compare(&w, t, seed + 1000, TOK_PLAIN_ADDED);
		tok_close(t);
	}
	assert_int_equal(mem_live(), 0);
}

/* The special token's text cut out beforehand, merges may still give it where the caller allows: never by TOK_PLAIN_SPECIAL. */
static void special_by_merging(void **state)
{
	(void)state;
	static world w;
	size_t made = 0;
	for (uint64_t seed = 100; seed < 132; seed++) {
		w.lacks_e = w.has_unk = false;
		w.whole_first = seed % 2;
		tokenizer *t = make(&w, seed);
		tok_ids got = {0};
		nh_error e = {0};
		char text[] = "abab cabd ab";
		assert_int_equal(tok_encode(t, text, strlen(text), TOK_PLAIN_SPECIAL, &got, &e), NH_OK);
		for (size_t i = 0; i < got.count; i++) assert_int_not_equal(got.ids[i], SPECIAL);
		made += w.rank[FIRST][FIRST + 1] >= 0;
		tok_ids_deinit(&got);
		tok_close(t);
	}
	assert_true(made > 0); /* some vocabulary had the merge */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_defined), cmocka_unit_test(special_by_merging)};
	return cmocka_run_group_tests_name("tok_bpe", tests, NULL, NULL);
}
