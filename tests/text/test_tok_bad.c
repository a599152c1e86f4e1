/* SPDX-License-Identifier: Apache-2.0
 * test_tok_bad.c: tokenizer.json files that must be refused, each with one error that names the document and the item; every allocation of
 * opening and encoding failing in turn; texts that are not UTF-8; and the rules for control tokens in user text.
 */
#include "test.h"

#include <pthread.h>
#include <string.h>

#include "base/base_mem.h"
#include "helper_text.h"

#define MODEL(vocab, merges, more) "\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges more "}"
#define ADDED(list) "\"added_tokens\":[" list "]"
#define SPLIT(pattern)                                                                                                  \
	"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern \
	"\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}"
#define POST(single, specials) "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":" single ",\"special_tokens\":" specials "}"
#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"

static const struct {
	const char *members; /* for text_small_json */
	nh_status status;
	const char *item, *detail; /* both must be in the error's text */
} BAD[] = {
    /* model.vocab */
    {MODEL("{\"<unk>\":0,\"a\":1,\"b\":1}", "[]", ""), NH_ERR_CONFIG, "id 1", "\"a\" and to \"b\""},
    {MODEL("{\"a\":0,\"a\":1}", "[]", ""), NH_ERR_CONFIG, "model.vocab", "\"a\": given twice"},
    {MODEL("{\"a\":-1}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is -1"},
    {MODEL("{\"a\":4194304}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is 4194304"},
    {MODEL("{\"a\":99999999999999999999999}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "99999999999999"},
    {MODEL("{\"a\":1.5}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is 1.5"},
    {MODEL("{\"a\":1e3}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is 1e3"},
    {MODEL("{\"a\":\"1\"}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is \"1\""},
    {MODEL("{\"a\":null}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is null"},
    {MODEL("{\"a\":01}", "[]", ""), NH_ERR_CONFIG, "model.vocab: \"a\"", "id is 01"},
    {MODEL("{7:1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "found \"7:1"},
    {MODEL("{\"a\":1,}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "expected '\"'"},
    {MODEL("{\"a\":1 \"b\":2}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "expected ','"},
    {MODEL("{\"a\\q\":1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "an escape"},
    {MODEL("{\"a\\ud800\":1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "surrogate"},
    {MODEL("{\"a\\udc00\":1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "an escape"},
    {MODEL("{\"a\nb\":1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "rest of a string"},
    {MODEL("{\"\xC3(\":1}", "[]", ""), NH_ERR_FORMAT, "model.vocab", "UTF-8"},
    {MODEL("{\"a\":1 ]", "[]", ""), NH_ERR_FORMAT, "model.vocab", "expected ','"},
    {MODEL("{}", "[]", ""), NH_ERR_CONFIG, "model.vocab", "empty"},
    {MODEL("[\"a\"]", "[]", ""), NH_ERR_CONFIG, "model.vocab", "not an object"},
    {"\"model\":{\"type\":\"BPE\",\"merges\":[]}", NH_ERR_CONFIG, "model.vocab", "absent"},
    {"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4}}", NH_ERR_CONFIG, "model.merges", "absent"},
    {"\"model\":{\"type\":\"Unigram\",\"vocab\":[]}", NH_ERR_UNSUPPORTED, "model.type", "Unigram"},
    {"\"model\":{\"type\":7}", NH_ERR_CONFIG, "model: type", "7"},
    {"\"model\":[]", NH_ERR_CONFIG, "model", "not an object"},
    /* model.merges */
    {MODEL("{\"a\":4,\"b\":5,\"ab\":6}", "[[\"a\",\"b\"],[\"a\",\"x\"]]", ""), NH_ERR_CONFIG, "model.merges[1]", "\"x\" is not in"},
    {MODEL("{\"a\":4,\"b\":5}", "[[\"a\",\"b\"]]", ""), NH_ERR_CONFIG, "model.merges[0]", "\"ab\" is not in"},
    {MODEL("{\"a\":4,\"b\":5}", "[[\"a\",\"\"]]", ""), NH_ERR_CONFIG, "model.merges[0]", "\"\" is not in"},
    {MODEL("{\"a\":4}", "[\"a\"]", ""), NH_ERR_CONFIG, "model.merges[0]", "one space"},
    {MODEL("{\"a\":4}", "[\"a a a\"]", ""), NH_ERR_CONFIG, "model.merges[0]", "one space"},
    {MODEL("{\"a\":4}", "[[\"a\"]]", ""), NH_ERR_FORMAT, "model.merges", "','"},
    {MODEL("{\"a\":4}", "[[\"a\",\"a\",\"a\"]]", ""), NH_ERR_FORMAT, "model.merges", "']'"},
    {MODEL("{\"a\":4}", "[7]", ""), NH_ERR_FORMAT, "model.merges", "'\"'"},
    {MODEL("{\"a\":4}", "{}", ""), NH_ERR_CONFIG, "model.merges", "not an array"},
    /* the model's other members */
    {MODEL("{\"a\":4}", "[]", ",\"byte_fallback\":true"), NH_ERR_UNSUPPORTED, "model.byte_fallback", "true"},
    {MODEL("{\"a\":4}", "[]", ",\"dropout\":0.1"), NH_ERR_UNSUPPORTED, "model.dropout", "0.1"},
    {MODEL("{\"a\":4}", "[]", ",\"continuing_subword_prefix\":\"##\""), NH_ERR_UNSUPPORTED, "continuing_subword_prefix", "##"},
    {MODEL("{\"a\":4}", "[]", ",\"end_of_word_suffix\":\"</w>\""), NH_ERR_UNSUPPORTED, "end_of_word_suffix", "</w>"},
    {MODEL("{\"a\":4}", "[]", ",\"unk_token\":\"<none>\""), NH_ERR_CONFIG, "model.unk_token", "<none>"},
    {MODEL("{\"a\":4}", "[]", ",\"ignore_merges\":1"), NH_ERR_CONFIG, "model: ignore_merges", "1"},
    {MODEL("{\"a\":4}", "[]", ",\"novelty\":1"), NH_ERR_UNSUPPORTED, "model.novelty", "not understood"},
    /* added tokens */
    {ADDED("{\"id\":4,\"content\":\"x\"}"), NH_ERR_CONFIG, "added_tokens[0]", "model.vocab says"},
    {ADDED("{\"id\":4,\"content\":\"xyz\"}"), NH_ERR_CONFIG, "added_tokens[0]", "id 4"},
    {ADDED("{\"id\":900,\"content\":\"xyz\"},{\"id\":900,\"content\":\"uvw\"}"), NH_ERR_CONFIG, "added_tokens[1]", "id 900"},
    {ADDED("{\"id\":900,\"content\":\"xyz\"},{\"id\":901,\"content\":\"xyz\"}"), NH_ERR_CONFIG, "added_tokens[1]",
        "already added_tokens[0]"},
    {ADDED("{\"id\":-5,\"content\":\"xyz\"}"), NH_ERR_CONFIG, "added_tokens[0]", "id: is -5"},
    {ADDED("{\"id\":2000000000,\"content\":\"xyz\"}"), NH_ERR_CONFIG, "added_tokens[0]", "2000000000"},
    {ADDED("{\"content\":\"xyz\"}"), NH_ERR_CONFIG, "added_tokens[0].id", "absent"},
    {ADDED("{\"id\":900}"), NH_ERR_CONFIG, "added_tokens[0].content", "absent"},
    {ADDED("{\"id\":900,\"content\":\"\"}"), NH_ERR_CONFIG, "added_tokens[0].content", "empty"},
    {ADDED("{\"id\":900,\"content\":7}"), NH_ERR_CONFIG, "added_tokens[0]", "content: is 7"},
    {ADDED("{\"id\":900,\"content\":\"xyz\",\"special\":\"yes\"}"), NH_ERR_CONFIG, "added_tokens[0]", "special: is \"yes\""},
    {ADDED("{\"id\":900,\"content\":\"xyz\",\"odd\":1}"), NH_ERR_UNSUPPORTED, "added_tokens[0].odd", "not understood"},
    {ADDED("7"), NH_ERR_CONFIG, "added_tokens[0]", "not an object"},
    {"\"added_tokens\":{}", NH_ERR_CONFIG, "added_tokens", "not an array"},
    /* normalizer */
    {"\"normalizer\":{\"type\":\"Lowercase\"}", NH_ERR_UNSUPPORTED, "normalizer.type", "Lowercase"},
    {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Strip\"}]}", NH_ERR_UNSUPPORTED,
        "normalizer.normalizers[1].type", "Strip"},
    {"\"normalizer\":{\"type\":\"Sequence\"}", NH_ERR_CONFIG, "normalizer.normalizers", "absent"},
    {"\"normalizer\":7", NH_ERR_UNSUPPORTED, "normalizer", "is 7"},
    {"\"normalizer\":{\"type\":\"NFC\",\"odd\":1}", NH_ERR_UNSUPPORTED, "normalizer.odd", "not understood"},
    /* pre_tokenizer */
    {"\"pre_tokenizer\":null", NH_ERR_UNSUPPORTED, "pre_tokenizer", "no ByteLevel"},
    {"\"pre_tokenizer\":{\"type\":\"Whitespace\"}", NH_ERR_UNSUPPORTED, "pre_tokenizer.type", "Whitespace"},
    {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}", NH_ERR_UNSUPPORTED,
        "pretokenizers[1]", "after ByteLevel"},
    {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\"}]}", NH_ERR_CONFIG,
        "pretokenizers[0].pattern", "absent"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\"}", NH_ERR_UNSUPPORTED,
        "pre_tokenizer.behavior", "Sideways"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}", NH_ERR_UNSUPPORTED,
        "pre_tokenizer.pattern", "empty"},
    {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}", NH_ERR_CONFIG, "pre_tokenizer.pattern", "either"},
    {SPLIT("(a"), NH_ERR_CONFIG, "pretokenizers[0].pattern", "not a regex"},
    {SPLIT("a**"), NH_ERR_CONFIG, "pretokenizers[0].pattern", "not a regex"},
    {SPLIT("[a"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "does not end"},
    {SPLIT("(?<=a+)b"), NH_ERR_CONFIG, "pretokenizers[0].pattern", "not a regex"},
    {SPLIT("\\\\p{Han}"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "general categories"},
    {SPLIT("\\\\p{L"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "\\p"},
    {SPLIT("a\\\\b"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "\\b"},
    {SPLIT("a\\\\"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "nothing after"},
    {SPLIT("(a)\\\\1"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "\\1"},
    {SPLIT("(?i)a"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "(?i)"},
    {SPLIT("(?R)"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "(?R)"},
    {SPLIT("a{2}+"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "two things"},
    {SPLIT("a{,2}"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "interval"},
    {SPLIT("a{99999999999}"), NH_ERR_CONFIG, "pretokenizers[0].pattern", "not a regex"},
    {SPLIT("[a&&b]"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "intersection"},
    {SPLIT("[[:alpha:]]"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "class in a class"},
    {SPLIT("[z-a]"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "not a range"},
    {SPLIT("[]"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "empty class"},
    {SPLIT("[\\u3040-\\u30ff]"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "differ between Unicode"},
    {SPLIT("\\\\x{110000}"), NH_ERR_UNSUPPORTED, "pretokenizers[0].pattern", "no code point"},
    /* post_processor, decoder, the rest */
    {POST("[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}]", "{}"), NH_ERR_CONFIG, "post_processor.special_tokens",
        "<s>"},
    {POST("[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}]", "{\"<s>\":{\"ids\":[70000]}}"), NH_ERR_CONFIG, "ids[0]",
        "70000"},
    {POST("[{\"SpecialToken\":{\"id\":\"<s>\"}}]", "{\"<s>\":{\"ids\":[1]}}"), NH_ERR_UNSUPPORTED, "post_processor.single", "0 times"},
    {POST("[{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}]", "{}"), NH_ERR_UNSUPPORTED, "post_processor.single", "2 times"},
    {POST("[{\"Sequence\":{\"id\":\"B\"}}]", "{}"), NH_ERR_UNSUPPORTED, "post_processor.single[0]", "Sequence A"},
    {POST("[7]", "{}"), NH_ERR_UNSUPPORTED, "post_processor.single[0]", "expected"},
    {POST("\"$A\"", "{}"), NH_ERR_CONFIG, "post_processor.single", "not an array"},
    {"\"post_processor\":{\"type\":\"RobertaProcessing\"}", NH_ERR_UNSUPPORTED, "post_processor.type", "RobertaProcessing"},
    {"\"decoder\":null", NH_ERR_UNSUPPORTED, "decoder", "null"},
    {"\"decoder\":{\"type\":\"WordPiece\"}", NH_ERR_UNSUPPORTED, "decoder.type", "WordPiece"},
    {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[]}", NH_ERR_UNSUPPORTED, "decoder", "empty"},
    {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}", NH_ERR_UNSUPPORTED,
        "decoder.decoders[1]", "more than one"},
    {"\"version\":\"2.0\"", NH_ERR_UNSUPPORTED, "version", "2.0"},
    {"\"surprise\":1", NH_ERR_UNSUPPORTED, "surprise", "not understood"},
};

static void refuse(const char *json, size_t len, nh_status status, const char *item, const char *detail)
{
	tokenizer *t = (tokenizer *)1;
	nh_error e = {0};
	nh_status s = tok_open_text(&t, json, len, "dir/tokenizer.json", &e);
	if (s == NH_OK) fail_msg("taken, expected an error about %s", item);
	assert_null(t);
	bool named = strncmp(e.text, "dir/tokenizer.json: ", 20) == 0 || (s == NH_ERR_CONFIG && strstr(e.text, "dir/tokenizer.json: "));
	if (s != status || e.code != s || !named || strchr(e.text, '\n') || !strstr(e.text, item) || !strstr(e.text, detail))
		fail_msg(
		    "status %s, text \"%s\"; expected %s, with \"%s\" and \"%s\"", nh_status_name(s), e.text, nh_status_name(status), item, detail);
	assert_int_equal(tok_open_text(&t, json, len, "n", NULL), status);
}

static void refused_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		char *json = text_small_json(BAD[i].members);
		refuse(json, strlen(json), BAD[i].status, BAD[i].item, BAD[i].detail);
		mem_free(json);
	}
	printf("%zu documents refused\n", ARRAY_LEN(BAD));
	refuse("", 0, NH_ERR_FORMAT, "JSON", "");
	refuse("[]", 2, NH_ERR_CONFIG, "JSON", "object");
	refuse("{", 1, NH_ERR_FORMAT, "JSON", "");
	refuse("{\"model\":{\"vocab\":{\"a\":", 23, NH_ERR_FORMAT, "JSON", "");
	assert_int_equal(mem_live(), 0);
}

static void limits(void **state)
{
	(void)state;
	buf b = {0};
	nh_error e = {0};
	tokenizer *t;
	buf_str(&b, "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"");
	for (int i = 0; i < TOK_MAX_PATTERN_BYTES; i++) buf_str(&b, "(a");
	buf_str(&b, "\"}}");
	char *json = text_small_json(b.data);
	refuse(json, strlen(json), NH_ERR_LIMIT, "pre_tokenizer.pattern", "regex has 16384 bytes");
	mem_free(json);
	b.len = 0;
	buf_str(&b, "\"added_tokens\":[{\"id\":900,\"content\":\"");
	for (int i = 0; i <= TOK_MAX_ADDED_BYTES; i++) buf_char(&b, 'x');
	buf_str(&b, "\"}]");
	json = text_small_json(b.data);
	refuse(json, strlen(json), NH_ERR_LIMIT, "added_tokens[0].content", "1025 bytes");
	mem_free(json);
	b.len = 0;
	buf_str(&b, "\"normalizer\":");
	for (int i = 0; i < 9; i++) buf_str(&b, "{\"type\":\"Sequence\",\"normalizers\":[");
	for (int i = 0; i < 9; i++) buf_str(&b, "]}");
	json = text_small_json(b.data);
	refuse(json, strlen(json), NH_ERR_LIMIT, "normalizer", "nested");
	mem_free(json);
	b.len = 0;
	buf_str(&b, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}");
	for (int i = 0; i < 16; i++) buf_str(&b, ",{\"type\":\"NFC\"}");
	buf_str(&b, "]}");
	json = text_small_json(b.data);
	refuse(json, strlen(json), NH_ERR_LIMIT, "normalizer", "more than 16");
	mem_free(json);
	buf_deinit(&b);
	assert_int_equal(tok_open(&t, NH_BINARY_DIR "/no/such/tokenizer.json", &e), NH_ERR_NOTFOUND);
	assert_non_null(strstr(e.text, "/no/such/tokenizer.json"));
	assert_null(t);
}

/* A pattern that would take for ever on a text ends with an error; the ids already there stay. */
static void hostile_pattern(void **state)
{
	(void)state;
	tokenizer *t = text_open_small(SPLIT("(a+)+$|(a|aa)+c"));
	tok_ids ids = {0};
	nh_error e = {0};
	char text[4096];
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = 'b';
	assert_int_equal(tok_encode(t, "q", 1, 0, &ids, &e), NH_OK);
	assert_int_equal(tok_encode(t, text, sizeof text, 0, &ids, &e), NH_ERR_LIMIT);
	assert_non_null(strstr(e.text, "gave up"));
	assert_int_equal(ids.count, 2); /* a space in front, and q */
	tok_ids_deinit(&ids);
	tok_close(t);
}

static void allocation_failures(void **state)
{
	(void)state;
	char *json = text_small_json("\"normalizer\":{\"type\":\"NFC\"}," SPLIT("\\\\p{L}+") "," POST(
	    "[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}]", "{\"<s>\":{\"ids\":[1]}}"));
	static const char TEXT[] = "abc e\xCC\x81 <s> \xFF\xE1\x8E\xA0\xF0\x90\xB5\x90 abcabc";
	size_t before = mem_live(), fails = 0;
	for (size_t n = 0;; n++) {
		tokenizer *t = NULL;
		tok_ids ids = {0};
		nh_error e = {0};
		mem_fail_after(n);
		nh_status s = tok_open_text(&t, json, strlen(json), "small", &e);
		if (s == NH_OK) s = tok_encode(t, TEXT, sizeof TEXT - 1, TOK_ADD_SPECIAL, &ids, &e);
		mem_fail_after(SIZE_MAX);
		if (s != NH_OK) {
			assert_int_equal(s, NH_ERR_NOMEM);
			assert_int_equal(ids.count, 0);
			fails++;
		}
		tok_ids_deinit(&ids);
		tok_close(t);
		assert_int_equal(mem_live(), before);
		if (s == NH_OK) break;
	}
	printf("%zu allocations failed one by one\n", fails);
	assert_true(fails > 30);
	mem_free(json);
}

static void holes_and_escapes(void **state)
{
	(void)state;
	tokenizer *t =
	    text_open_small(MODEL("{ \"a\" :\t7 , \"\\u0062\":9,\"ab\":1000, \"\\ud83d\\ude80\":12, \"\\u010a\":13, \"\\\"\\\\\":14, \"\":15 }",
	        "[ [ \"a\" , \"\\u0062\" ] ]", "") "," ADDED(""));
	size_t len;
	assert_int_equal(tok_vocab(t), 1001);
	assert_null(tok_piece(t, 8, &len));
	assert_null(tok_piece(t, -1, &len));
	assert_null(tok_piece(t, 1001, &len));
	assert_null(tok_piece(t, INT32_MIN, &len));
	assert_memory_equal(tok_piece(t, 9, &len), "b", 1);
	assert_memory_equal(tok_piece(t, 12, &len), "\xF0\x9F\x9A\x80", 4);
	assert_int_equal(len, 4);
	assert_memory_equal(tok_piece(t, 13, &len), "\n", 1);
	assert_int_equal(tok_find(t, "\"\\", 2), 14);
	assert_int_equal(tok_find(t, "\n", 1), 13);
	assert_int_equal(tok_find(t, "\xF0\x9F\x9A\x80", 4), 12);
	assert_int_equal(tok_find(t, "ba", 2), -1);
	assert_int_equal(tok_find(t, "", 0), 15);
	json_t *ids = json_pack("[iii]", 1000, 13, 7);
	text_check_ids(t,
	    "ab\n\xF0\x9F\x9A\x80x"
	    "a",
	    9, 0, ids, "bytes that the vocabulary lacks are dropped");
	json_decref(ids);
	tok_close(t);
}

/* What user text can and cannot become. */
static void control_tokens(void **state)
{
	(void)state;
	static const char TEXT[] = "<s><think>";
	tokenizer *t = text_open_small("");
	json_t *found = json_pack("[ii]", 1, 3);
	json_t *plain = json_pack("[iiii]", TEXT_BYTE_ID('<'), TEXT_BYTE_ID('s'), TEXT_BYTE_ID('>'), 3);
	text_check_ids(t, TEXT, 10, 0, found, "recognised");
	text_check_ids(t, TEXT, 10, TOK_PLAIN_SPECIAL, plain, "special ones plain");
	tok_ids ids = {0};
	assert_int_equal(tok_encode(t, TEXT, 10, TOK_PLAIN_ADDED, &ids, NULL), NH_OK);
	assert_int_equal(ids.count, 10);
	for (size_t i = 0; i < 10; i++) assert_int_equal(ids.ids[i], TEXT_BYTE_ID(TEXT[i]));
	assert_true(tok_is_special(t, 1) && tok_is_added(t, 3) && !tok_is_special(t, 3) && !tok_is_added(t, 70) && !tok_is_special(t, 99999));
	tok_ids_deinit(&ids);
	json_decref(found);
	json_decref(plain);
	tok_close(t);

	/* neither ignore_merges nor the merges themselves make a special id of plain text */
	for (int ignore = 0; ignore < 2; ignore++) {
		char members[512];
		snprintf(members, sizeof members,
		    "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"merges\":[[\"<\",\"s\"],[\"<s\",\">\"]],\"vocab\":{\"<unk>\":0,\"<s>\":1,"
		    "\"</s>\":2,"
		    "\"<think>\":3,\"<\":4,\"s\":5,\">\":6,\"<s\":7}}",
		    ignore ? "true" : "false");
		t = text_open_small(members);
		plain = json_pack("[ii]", 7, 6);
		text_check_ids(t, "<s>", 3, TOK_PLAIN_SPECIAL, plain, "no way to a special id");
		json_decref(plain);
		tok_close(t);
	}
}

static void invalid_utf8(void **state)
{
	(void)state;
	static const struct {
		const char *text, *same_as;
	} CASES[] = {{"a\x80z", "a\xEF\xBF\xBDz"}, {"\xE2\x82", "\xEF\xBF\xBD"}, {"\xE2\x82z", "\xEF\xBF\xBDz"},
	    {"\xF0\x9F\x98\xF0", "\xEF\xBF\xBD\xEF\xBF\xBD"}, {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
	    {"\xC0\xAF<s>\xFE", "\xEF\xBF\xBD\xEF\xBF\xBD<s>\xEF\xBF\xBD"}};
	tokenizer *t = text_open_small("");
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
		tok_ids want = {0}, got = {0};
		assert_int_equal(tok_encode(t, CASES[i].text, strlen(CASES[i].text), 0, &got, NULL), NH_OK);
		assert_int_equal(tok_encode(t, CASES[i].same_as, strlen(CASES[i].same_as), 0, &want, NULL), NH_OK);
		assert_int_equal(got.count, want.count);
		assert_memory_equal(got.ids, want.ids, got.count * sizeof *got.ids);
		tok_ids_deinit(&want);
		tok_ids_deinit(&got);
	}
	tok_close(t);
}

typedef struct job {
	const tokenizer *t;
	size_t count;
	uint64_t hash;
} job;

static void *encode_much(void *p)
{
	job *j = p;
	static const char TEXT[] = "abc ab cab \xE1\x8E\xA0\xF0\x90\xB5\x90 <think>e\xCC\x81 abcabc";
	for (int i = 0; i < 200; i++) {
		tok_ids ids = {0};
		if (tok_encode(j->t, TEXT, sizeof TEXT - 1, 0, &ids, NULL) != NH_OK) break;
		for (size_t k = 0; k < ids.count; k++) j->hash = (j->hash ^ (uint64_t)ids.ids[k]) * 0x100000001B3u;
		j->count += ids.count;
		tok_ids_deinit(&ids);
	}
	return NULL;
}

static void threads(void **state)
{
	(void)state;
	tokenizer *t = text_open_small("\"normalizer\":{\"type\":\"NFC\"}," SPLIT("\\\\s?\\\\p{L}+"));
	pthread_t id[4];
	job jobs[5] = {{.t = t}, {.t = t}, {.t = t}, {.t = t}, {.t = t}};
	for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&id[i], NULL, encode_much, &jobs[i]), 0);
	for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
	encode_much(&jobs[4]);
	assert_true(jobs[4].count > 2000);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(jobs[i].count, jobs[4].count);
		assert_true(jobs[i].hash == jobs[4].hash);
	}
	tok_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(refused_by_name), cmocka_unit_test(limits), cmocka_unit_test(hostile_pattern),
	    cmocka_unit_test(allocation_failures), cmocka_unit_test(holes_and_escapes), cmocka_unit_test(control_tokens),
	    cmocka_unit_test(invalid_utf8), cmocka_unit_test(threads)};
	return cmocka_run_group_tests_name("tok_bad", tests, NULL, NULL);
}
