/* SPDX-License-Identifier: Apache-2.0
 * test_tok_uni.c: the whole code space: category and white space of every code point, and how the family's split pattern cuts around it, as
 * PCRE2 sees them through the stand-ins, against what the reference's engine said (data/unicode16.txt). And UTF-8 itself.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "helper_text.h"
#include "text/tok_impl.h"

#define FAMILY                                                                                                                            \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{" \
	"Lm}\\p{Lo}"                                                                                                                          \
	"\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define POINTS 0x110000u
#define MAX_CLASS 64

typedef struct frozen {
	char names[MAX_CLASS][16]; /* category, with * for white space */
	unsigned name_count;
	char ways[16][64];
	uint8_t name_of[POINTS], way_of[POINTS]; /* 0xFF: surrogate */
} frozen;

static uint8_t name_index(frozen *f, const char *name)
{
	for (unsigned i = 0; i < f->name_count; i++)
		if (strcmp(f->names[i], name) == 0) return (uint8_t)i;
	assert_true(f->name_count < MAX_CLASS);
	snprintf(f->names[f->name_count], sizeof f->names[0], "%.14s", name);
	return (uint8_t)f->name_count++;
}

static frozen *load_frozen(void)
{
	frozen *f = mem_alloc(sizeof *f);
	FILE *in = fopen(NH_SOURCE_DIR "/tests/text/data/unicode16.txt", "r");
	char line[256], name[2][16], way[64];
	unsigned first, last, ways[2], n;
	assert_non_null(f);
	assert_non_null(in);
	memset(f->name_of, 0xFF, sizeof f->name_of);
	while (fgets(line, sizeof line, in)) {
		if (*line == '#') continue;
		if (sscanf(line, "s %u %63s", &n, way) == 2) {
			assert_true(n < 16);
			snprintf(f->ways[n], sizeof f->ways[n], "%.63s", way);
			continue;
		}
		int fields = sscanf(line, "%x %x %7s %u %7s %u", &first, &last, name[0], &ways[0], name[1], &ways[1]);
		assert_true((fields == 4 || fields == 6) && last < POINTS);
		for (unsigned c = first; c <= last; c++) {
			unsigned which = fields == 6 ? (c - first) & 1 : 0;
			f->name_of[c] = name_index(f, name[which]);
			f->way_of[c] = (uint8_t)ways[which];
		}
	}
	fclose(in);
	return f;
}

static tokenizer *open_regex(const char *regex)
{
	json_t *v = json_pack("{s:s,s:[{s:s,s:{s:s},s:s},{s:s,s:b,s:b}]}", "type", "Sequence", "pretokenizers", "type", "Split", "pattern",
	    "Regex", regex, "behavior", "Isolated", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
	char *text = json_dumps(v, 0);
	buf b = {0};
	buf_printf(&b, "\"pre_tokenizer\":%s", text);
	tokenizer *t = text_open_small(b.data);
	free(text);
	json_decref(v);
	buf_deinit(&b);
	return t;
}

static bool wanted(const char *name, uint32_t cp, const char *category, bool space, bool word)
{
	if (space) return strchr(name, '*') != NULL;
	if (!word) return strncmp(name, category, 2) == 0;
	/* the engine's word characters by its own rule: alphabetic, marks, digits, connectors, Latin-1's numbers */
	return strchr("LM", *name) || strncmp(name, "Nd", 2) == 0 || strncmp(name, "Nl", 2) == 0 || strncmp(name, "Pc", 2) == 0 ||
	       (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
	       (cp >= 0x1F170 && cp <= 0x1F189) || (cp < 0x100 && *name == 'N');
}

/* One text of all code points in order; each class is asked for its matches, which must be its members, none missing, none else. */
static void categories(void **state)
{
	(void)state;
	frozen *f = load_frozen();
	buf all = {0};
	size_t checked = 0, yes = 0;
	for (uint32_t cp = 0; cp < POINTS; cp++)
		if (f->name_of[cp] != 0xFF) buf_utf8(&all, cp);
	for (unsigned n = 0; n < f->name_count + 2; n++) { /* each category, then white space, then word characters */
		bool space = n == f->name_count, word = n == f->name_count + 1, found = false;
		const char *category = space || word ? "" : f->names[n];
		char pattern[16];
		if (strcmp(category, "Cc*") == 0) continue; /* asked as Cc */
		snprintf(pattern, sizeof pattern, space ? "\\s" : word ? "\\w" : "\\p{%.2s}", category);
		tokenizer *t = open_regex(pattern);
		tok_ids none = {0};
		tok_call c;
		nh_error e = {0};
		size_t at = 0, start = 0, end = 0;
		assert_int_equal(tok_call_init(&c, t, 0, &none, &e), NH_OK);
		const char *subject = uni_subject(&c.subject, all.data, all.len);
		assert_ptr_not_equal(subject, all.data);
		for (uint32_t cp = 0; cp < POINTS; cp++) {
			if (f->name_of[cp] == 0xFF) continue;
			const char *name = f->names[f->name_of[cp]];
			bool want = wanted(name, cp, category, space, word);
			if (at == 0 || (found && start < at))
				assert_int_equal(tok_regex_next(&c, &t->steps[0].regex, subject, all.len, at, &found, &start, &end), NH_OK);
			bool got = found && start == at;
			if (got != want) fail_msg("U+%04X is %s, but %s says %d", cp, name, pattern, got);
			if (space) assert_int_equal(uni_is_space(cp), want);
			char text[4];
			at += uni_encode(cp, text);
			if (got) assert_int_equal(end, at);
			checked++;
			yes += want;
		}
		assert_int_equal(at, all.len);
		tok_call_deinit(&c);
		tok_close(t);
	}
	printf("%zu questions, %zu times yes\n", checked, yes);
	assert_true(checked == 31u * 1112064u && yes > 1112064u);
	buf_deinit(&all);
	mem_free(f);
}

static char *g_cuts; /* what split_end writes to */

static nh_status split_end(tok_call *c, const char *text, size_t len)
{
	size_t points = 0;
	for (size_t i = 0; i < len; i++) points += ((uint8_t)text[i] & 0xC0) != 0x80;
	c->flags += (unsigned)points; /* the test's counter of code points so far */
	g_cuts += snprintf(g_cuts, 4, "%u", c->flags);
	return NH_OK;
}

static void cuts(void **state)
{
	(void)state;
	static const char *const CONTEXTS[] = {"a\1b", " \1", "\0011", "A\1B", "\1 x", "\n\1\n"};
	frozen *f = load_frozen();
	tokenizer *t = open_regex(FAMILY);
	tok_ids none = {0};
	tok_call c;
	nh_error e = {0};
	size_t checked = 0;
	assert_int_equal(tok_call_init(&c, t, 0, &none, &e), NH_OK);
	for (uint32_t cp = 0; cp < POINTS; cp++) {
		if (f->name_of[cp] == 0xFF) continue;
		char got[64] = "";
		g_cuts = got;
		for (size_t k = 0; k < ARRAY_LEN(CONTEXTS); k++) {
			char text[16];
			size_t len = 0;
			for (const char *p = CONTEXTS[k]; *p; p++) {
				if (*p == 1) len += uni_encode(cp, text + len);
				else text[len++] = *p;
			}
			if (k > 0) *g_cuts++ = '-';
			c.flags = 0;
			assert_int_equal(tok_split(&c, text, len, split_end), NH_OK);
			checked++;
		}
		*g_cuts = 0;
		if (strcmp(got, f->ways[f->way_of[cp]]) != 0) fail_msg("U+%04X: cut at %s, expected %s", cp, got, f->ways[f->way_of[cp]]);
	}
	printf("%zu texts cut\n", checked);
	assert_int_equal(checked, 6u * 1112064u);
	tok_call_deinit(&c);
	tok_close(t);
	mem_free(f);
}

static void stand_ins(void **state)
{
	(void)state;
	char a[4], b[4];
	uint32_t last = 0x7F;
	size_t points = 0;
	for (size_t i = 0; i < UNI_STAND_COUNT; i++) {
		const uni_run *r = &UNI_STAND[i];
		assert_true(r->first > last && r->last >= r->first);
		assert_true(r->first >= 0x800); /* uni_subject skips shorter ones */
		assert_int_equal(uni_encode(r->first, a), uni_encode(r->stand, b));
		assert_int_equal(uni_encode(r->last, a), uni_encode(r->stand, b));
		last = r->last;
		points += r->last - r->first + 1;
	}
	assert_true(points > 9000);
	assert_non_null(uni_find(UNI_STAND, UNI_STAND_COUNT, 0x180E));
	assert_null(uni_find(UNI_STAND, UNI_STAND_COUNT, 'a'));
	assert_true(uni_stand_overlaps(0x180D, 0x180F));
	assert_false(uni_stand_overlaps(0, 0x7FF));
}

static void utf8(void **state)
{
	(void)state;
	char text[4];
	size_t used, valid = 0;
	for (uint32_t cp = 0; cp < POINTS; cp++) {
		if (cp >= 0xD800 && cp <= 0xDFFF) continue;
		size_t n = uni_encode(cp, text);
		assert_int_equal(uni_decode(text, n, &used), cp);
		assert_int_equal(used, n);
	}
	/* Every two-byte and a set of longer sequences: the number of bytes that one replacement covers. */
	static const struct {
		const char *bytes;
		size_t used;
	} BAD[] = {{"\x80", 1}, {"\xC0\x80", 1}, {"\xC1\xBF", 1}, {"\xC3", 1}, {"\xC3(", 1}, {"\xE0\x80\x80", 1}, {"\xE2\x82", 2},
	    {"\xE2\x82(", 2}, {"\xED\xA0\x80", 1}, {"\xEF\xBF", 2}, {"\xF0\x80\x80\x80", 1}, {"\xF0\x9F\x98", 3}, {"\xF0\x9F(", 2},
	    {"\xF4\x90\x80\x80", 1}, {"\xF5\x80\x80\x80", 1}, {"\xFF", 1}};
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		assert_int_equal(uni_decode(BAD[i].bytes, strlen(BAD[i].bytes), &used), UNI_INVALID);
		assert_int_equal(used, BAD[i].used);
	}
	for (unsigned i = 0; i < 0x10000; i++) {
		const char pair[2] = {(char)(i >> 8), (char)i};
		valid += uni_valid_prefix(pair, 2) == 2;
	}
	assert_int_equal(valid, 128 * 128 + 30 * 64);
	for (unsigned i = 0; i < 256; i++) assert_int_equal(uni_char_byte(uni_byte_char((uint8_t)i)), i);
	assert_int_equal(uni_char_byte(0x144), -1);
	assert_int_equal(uni_char_byte(' '), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(categories), cmocka_unit_test(cuts), cmocka_unit_test(stand_ins), cmocka_unit_test(utf8)};
	return cmocka_run_group_tests_name("tok_uni", tests, NULL, NULL);
}
