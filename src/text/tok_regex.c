/* SPDX-License-Identifier: Apache-2.0
 * tok_regex.c: patterns of the reference's regex engine (Oniguruma, Ruby syntax) on PCRE2. The two agree on a common core; this file reads a
 * pattern item by item, passes what means the same, rewrites what can be said otherwise, and refuses the rest by name and offset.
 * Subjects are valid UTF-8 with stand-ins (tok_uni.h), so patterns may name general categories, but not single code points that have a stand-in.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_mem.h"
#include "text/tok_impl.h"

/* A word character as the reference's added tokens know it: alphabetic (the circled letters are symbols by category), marks, digits,
 * connectors, joiners. */
const char TOK_WORD_PATTERN[] = "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}"
                                "\\x{1F170}-\\x{1F189}\\x{200C}\\x{200D}]";
/* The same in its regex engine: no joiners, but the fractions and superscripts of Latin-1. */
static const char WORD_ITEMS[] = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}"
                                 "\\x{1F170}-\\x{1F189}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
/* ByteLevel's own split: English contractions, letters, digits, others, each with one space before; white space, the last one left over. */
const char TOK_GPT2_PATTERN[] = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define MATCH_STEPS 50000000u /* of one match; a pattern that needs more is hostile */

typedef struct pattern {
	const char *p, *end, *start;
	const char *name, *where;
	nh_error *e;
	buf out;
} pattern;

static nh_status refuse(const pattern *r, const char *at, size_t len, const char *why)
{
	return ERR(r->e, NH_ERR_UNSUPPORTED, "%s: %s: offset %zu: \"%.*s\": %s", r->name, r->where, (size_t)(at - r->start),
	    (int)(len < 40 ? len : 40), at, why);
}

static bool is_category(const char *s, size_t len)
{
	static const char NAMES[] = " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn ";
	char key[5] = " ";
	if (len < 1 || len > 2) return false;
	memcpy(key + 1, s, len);
	key[1 + len] = ' ';
	return strstr(NAMES, key) != NULL;
}

/* \p{..}, \P{..}, \p{^..} with a general category; r->p is at the backslash. */
static nh_status property(pattern *r)
{
	const char *from = r->p, *close = memchr(from, '}', (size_t)(r->end - from));
	if (r->end - from < 4 || from[2] != '{' || !close) return refuse(r, from, 2, "expected \\p{name}");
	const char *name = from + 3;
	if (*name == '^') name++;
	r->p = close + 1;
	if (!is_category(name, (size_t)(close - name)))
		return refuse(r, from, (size_t)(close + 1 - from), "only general categories are understood");
	buf_append(&r->out, from, (size_t)(close + 1 - from));
	return NH_OK;
}

/* \xHH, \x{H...}, \uHHHH: the code point. r->p is at the backslash. */
static nh_status numeric(pattern *r, uint32_t *cp)
{
	const char *from = r->p, *p = from + 2;
	bool braces = from[1] == 'x' && p < r->end && *p == '{';
	int limit = braces ? 6 : from[1] == 'u' ? 4 : 2, n = 0;
	uint32_t v = 0;
	for (p += braces; p < r->end && n < limit; p++, n++) {
		int c = *p | 0x20, digit = *p >= '0' && *p <= '9' ? *p - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0) break;
		v = v << 4 | (uint32_t)digit;
	}
	bool closed = !braces || (p < r->end && *p == '}');
	if (n == 0 || !closed || (from[1] == 'u' && n < 4) || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF) ||
	    (!braces && from[1] == 'x' && v > 0x7F))
		return refuse(r, from, (size_t)(p - from), "no code point");
	*cp = v;
	r->p = p + braces;
	return NH_OK;
}

/* One character, plain or escaped, that stands for itself; *cp = UNI_INVALID when what is at r->p is something else (nothing consumed). */
static nh_status literal(pattern *r, uint32_t *cp)
{
	static const char LETTERS[] = "tnrfvae", MEANS[] = "\t\n\r\f\v\a\x1B";
	size_t used;
	*cp = UNI_INVALID;
	if (*r->p != '\\') {
		*cp = uni_decode(r->p, (size_t)(r->end - r->p), &used);
		r->p += used;
		return NH_OK;
	}
	if (r->p + 1 >= r->end) return refuse(r, r->p, 1, "nothing after it");
	char c = r->p[1];
	if (c == 'x' || c == 'u') return numeric(r, cp);
	const char *found = c ? strchr(LETTERS, c) : NULL;
	if (found) *cp = (uint8_t)MEANS[found - LETTERS];
	else if ((uint8_t)c > 32 && (uint8_t)c < 127 && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9')) *cp = (uint8_t)c;
	if (*cp != UNI_INVALID) r->p += 2;
	return NH_OK;
}

static nh_status put(pattern *r, const char *at, uint32_t first, uint32_t last)
{
	if (uni_stand_overlaps(first, last))
		return refuse(r, at, (size_t)(r->p - at), "names code points whose properties differ between Unicode versions");
	buf_printf(&r->out, "\\x{%X}", first);
	if (last != first) buf_printf(&r->out, "-\\x{%X}", last);
	return NH_OK;
}

/* A shorthand class; r->p is at the backslash. */
static nh_status shorthand(pattern *r, bool in_class)
{
	char c = r->p[1];
	if (c == 'p' || c == 'P') return property(r);
	if (c == 's' || c == 'S' || c == 'd' || c == 'D') buf_append(&r->out, r->p, 2);
	else if (c == 'w' && in_class) buf_str(&r->out, WORD_ITEMS);
	else if ((c == 'w' || c == 'W') && !in_class) buf_printf(&r->out, "[%s%s]", c == 'W' ? "^" : "", WORD_ITEMS);
	else return refuse(r, r->p, 2, "not understood");
	r->p += 2;
	return NH_OK;
}

static nh_status bracket_class(pattern *r)
{
	const char *open = r->p++;
	buf_char(&r->out, '[');
	if (r->p < r->end && *r->p == '^') buf_char(&r->out, *r->p++);
	if (r->p < r->end && *r->p == ']') return refuse(r, open, 3, "an empty class");
	while (r->p < r->end && *r->p != ']') {
		const char *at = r->p;
		uint32_t first, last;
		if (*at == '[') return refuse(r, at, 1, "a class in a class");
		if (r->end - at > 1 && at[0] == '&' && at[1] == '&') return refuse(r, at, 2, "an intersection of classes");
		TRY(literal(r, &first));
		if (first == UNI_INVALID) {
			TRY(shorthand(r, true));
			if (r->end - r->p > 1 && *r->p == '-' && r->p[1] != ']')
				return refuse(r, at, (size_t)(r->p - at), "a class as the end of a range");
			continue;
		}
		last = first;
		if (r->end - r->p > 1 && *r->p == '-' && r->p[1] != ']') {
			r->p++;
			if (*r->p == '[') return refuse(r, at, 3, "a class in a class");
			TRY(literal(r, &last));
			if (last == UNI_INVALID || last < first) return refuse(r, at, (size_t)(r->p - at), "not a range");
		}
		TRY(put(r, at, first, last));
	}
	if (r->p >= r->end) return refuse(r, open, (size_t)(r->end - open), "the class does not end");
	buf_char(&r->out, *r->p++);
	return NH_OK;
}

static nh_status group(pattern *r)
{
	static const char *const OPENINGS[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
	size_t left = (size_t)(r->end - r->p);
	if (left < 2 || r->p[1] != '?') {
		buf_str(&r->out, "(?:"); /* nothing refers to groups */
		r->p++;
		return NH_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(OPENINGS); i++) {
		size_t n = strlen(OPENINGS[i]);
		if (n > left || memcmp(r->p, OPENINGS[i], n) != 0) continue;
		buf_append(&r->out, r->p, n);
		r->p += n;
		return NH_OK;
	}
	return refuse(r, r->p, left < 4 ? left : 4, "not understood");
}

/* {n}, {n,} or {n,m} at r->p, then the suffix. */
static nh_status interval(pattern *r)
{
	const char *from = r->p, *p = from + 1;
	int commas = 0, digits = 0;
	for (; p < r->end && *p != '}'; p++) {
		if (*p == ',' && digits > 0 && commas == 0) commas++;
		else if (*p >= '0' && *p <= '9') digits++;
		else return refuse(r, from, (size_t)(p + 1 - from), "not an interval");
	}
	if (p >= r->end || digits == 0) return refuse(r, from, (size_t)(p - from), "not an interval");
	r->p = p + 1;
	buf_append(&r->out, from, (size_t)(r->p - from));
	if (r->p < r->end && (*r->p == '+' || (*r->p == '?' && commas == 0)))
		return refuse(r, from, (size_t)(r->p + 1 - from), "means two things");
	return NH_OK;
}

static nh_status translate(pattern *r)
{
	while (r->p < r->end) {
		const char *at = r->p;
		uint32_t cp;
		switch (*at) {
		case '|':
		case ')':
		case '.':
		case '*':
		case '+':
		case '?': buf_char(&r->out, *r->p++); continue;
		case '(': TRY(group(r)); continue;
		case '[': TRY(bracket_class(r)); continue;
		case '{': TRY(interval(r)); continue;
		case '^': /* at the start of any line, but not after a newline that ends the text */
			buf_str(&r->out, "(?:\\A|(?<=\\n)(?!\\z))");
			r->p++;
			continue;
		case '$':
			buf_str(&r->out, "(?=\\n|\\z)");
			r->p++;
			continue;
		default: break;
		}
		if (r->end - at > 1 && at[0] == '\\' && (at[1] == 'A' || at[1] == 'z')) {
			buf_append(&r->out, at, 2);
			r->p += 2;
			continue;
		}
		TRY(literal(r, &cp));
		if (cp == UNI_INVALID) TRY(shorthand(r, false));
		else TRY(put(r, at, cp, cp));
	}
	return NH_OK;
}

nh_status tok_regex_compile(tok_regex *r, const tokenizer *t, const char *text, size_t len, const char *where, nh_error *e)
{
	pattern pat = {.p = text, .end = text + len, .start = text, .name = t->name, .where = where, .e = e};
	int code = 0;
	PCRE2_SIZE offset = 0;
	if (len > TOK_MAX_PATTERN_BYTES)
		return ERR(e, NH_ERR_LIMIT, "%s: %s: the regex has %zu bytes, at most %d are taken", t->name, where, len, TOK_MAX_PATTERN_BYTES);
	nh_status s = translate(&pat);
	if (s == NH_OK && pat.out.failed) s = ERR_NOMEM(e);
	pcre2_compile_context *context = s == NH_OK ? pcre2_compile_context_create(t->general) : NULL;
	if (s == NH_OK && !context) s = ERR_NOMEM(e);
	if (s == NH_OK) {
		pcre2_set_newline(context, PCRE2_NEWLINE_LF);
		r->code = pcre2_compile((PCRE2_SPTR)(pat.out.data ? pat.out.data : ""), pat.out.len,
		    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
		if (!r->code && code == PCRE2_ERROR_HEAP_FAILED) s = ERR_NOMEM(e);
		else if (!r->code) {
			char message[120] = "";
			pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
			s = ERR(e, NH_ERR_CONFIG, "%s: %s: not a regex: %s (offset %zu of \"%.200s\")", t->name, where, message, (size_t)offset,
			    pat.out.data ? pat.out.data : "");
		} else {
			uint32_t behind = 1;
			r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0; /* without: slower and the same */
			r->ahead = r->jit && pcre2_pattern_info(r->code, PCRE2_INFO_MAXLOOKBEHIND, &behind) == 0 && behind == 0;
		}
	}
	pcre2_compile_context_free(context);
	buf_deinit(&pat.out);
	return s;
}

void tok_regex_deinit(tok_regex *r)
{
	pcre2_code_free(r->code);
	*r = (tok_regex){0};
}

static int match_at(tok_call *c, const tok_regex *r, const char *subject, size_t len, size_t from)
{
	PCRE2_SPTR s = (PCRE2_SPTR)subject;
	if (!r->jit) return pcre2_match(r->code, s, len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match, c->context);
	int n = pcre2_jit_match(r->code, s, len, from, 0, c->match, c->context);
	if (n != PCRE2_ERROR_JIT_STACKLIMIT) return n;
	if (!c->stack) {
		c->stack = pcre2_jit_stack_create(64 << 10, 64 << 20, c->t->general);
		if (c->stack) pcre2_jit_stack_assign(c->context, NULL, c->stack);
		n = c->stack ? pcre2_jit_match(r->code, s, len, from, 0, c->match, c->context) : n;
	}
	if (n != PCRE2_ERROR_JIT_STACKLIMIT) return n;
	return pcre2_match(r->code, s, len, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match, c->context);
}

nh_status tok_regex_next(
    tok_call *c, const tok_regex *r, const char *subject, size_t len, size_t from, bool *found, size_t *start, size_t *end)
{
	*found = false;
	int n = match_at(c, r, subject, len, from);
	if (n == PCRE2_ERROR_NOMATCH) return NH_OK;
	if (n == PCRE2_ERROR_NOMEMORY) return ERR_NOMEM(c->e);
	if (n < 0) {
		char message[120] = "";
		pcre2_get_error_message(n, (PCRE2_UCHAR *)message, sizeof message);
		return ERR(
		    c->e, NH_ERR_LIMIT, "%s: pre_tokenizer: the regex gave up at byte %zu of a text of %zu: %s", c->t->name, from, len, message);
	}
	const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(c->match);
	*found = true;
	*start = bounds[0];
	*end = bounds[1];
	return NH_OK;
}

bool tok_regex_sure(tok_call *c, const tok_regex *r, const char *beginning, size_t len, size_t *piece)
{
	/* a hard partial match is reported as soon as anything behind the end could matter, so a whole match knows that nothing does */
	int n = pcre2_jit_match(r->code, (PCRE2_SPTR)beginning, len, 0, PCRE2_PARTIAL_HARD, c->match, c->context);
	if (n < 0) return false;
	const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(c->match);
	*piece = bounds[1];
	return bounds[0] == 0 && bounds[1] > 0 && bounds[1] < len;
}

nh_status tok_regex_is(tok_call *c, const tok_regex *r, const char *subject, size_t len, bool *yes)
{
	size_t start, end;
	return tok_regex_next(c, r, subject, len, 0, yes, &start, &end);
}

static void *heap_take(PCRE2_SIZE bytes, void *user)
{
	(void)user;
	return mem_alloc(bytes);
}

static void heap_give(void *p, void *user)
{
	(void)user;
	mem_free(p);
}

bool tok_regex_setup(tokenizer *t)
{
	t->general = pcre2_general_context_create(heap_take, heap_give, NULL);
	return t->general != NULL;
}

nh_status tok_call_init(tok_call *c, const tokenizer *t, unsigned flags, tok_ids *out, nh_error *e)
{
	*c = (tok_call){.t = t, .flags = flags, .out = out, .e = e};
	c->match = pcre2_match_data_create(1, t->general);
	c->context = pcre2_match_context_create(t->general);
	if (!c->match || !c->context) return ERR_NOMEM(e);
	pcre2_set_match_limit(c->context, MATCH_STEPS);
	pcre2_set_depth_limit(c->context, MATCH_STEPS);
	return NH_OK;
}

void tok_call_deinit(tok_call *c)
{
	pcre2_match_data_free(c->match);
	pcre2_match_context_free(c->context);
	pcre2_jit_stack_free(c->stack);
	buf_deinit(&c->subject);
	buf_deinit(&c->prefixed);
	buf_deinit(&c->prefixed_subject);
	buf_deinit(&c->normal);
	mem_free(c->symbols);
	mem_free(c->heap);
	mem_free(c->cache);
	mem_free(c->sure);
	mem_free(c->marks);
}
