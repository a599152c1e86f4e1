/* SPDX-License-Identifier: Apache-2.0
 * jinja_lex.c: template text to tokens, with Jinja's white-space rules: newlines are normalised, one trailing newline is dropped,
 * a newline after a statement or comment tag is eaten (trim_blocks), blanks before one that starts a line are eaten (lstrip_blocks),
 * "-" eats all white space on its side and "+" switches the rules off. Knows no grammar but balanced brackets.
 * What breaks first: `line_start`, which must be true exactly when the last thing matched ended in a newline.
 */
#include <inttypes.h>

#include "base/base_mem.h"
#include "chat/jinja.h"
#include "chat/jinja_text.h"

#define MAX_BRACKETS 200

typedef struct lexer {
	jparse *p;
	const char *s;
	size_t n, at, cap;
	uint32_t line;
	bool line_start;
	char closers[MAX_BRACKETS];
	int depth;
} lexer;

static bool add(lexer *x, jtok type, uint32_t line, jv value)
{
	jparse *p = x->p;
	if (p->ntokens == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 256;
		jtoken *grown = mem_resize(p->tokens, cap, sizeof *grown);
		if (!grown) {
			p->failed = true;
			p->status = ERR_NOMEM(p->e);
			return false;
		}
		p->tokens = grown;
		x->cap = cap;
	}
	p->tokens[p->ntokens++] = (jtoken){.type = type, .line = line, .value = value};
	return true;
}

static void pass(lexer *x, size_t count)
{
	for (size_t i = 0; i < count; i++) x->line += x->s[x->at + i] == '\n';
	x->at += count;
}

static bool starts(const lexer *x, size_t at, const char *word)
{
	size_t n = strlen(word);
	return x->n - at >= n && memcmp(x->s + at, word, n) == 0;
}

static size_t skip_space(const lexer *x, size_t at)
{
	while (at < x->n) {
		size_t next = at;
		if (!jtext_is_space(jtext_next(x->s, x->n, &next))) break;
		at = next;
	}
	return at;
}

static bool data(lexer *x, size_t from, size_t to, uint32_t line)
{
	if (to == from) return true;
	return add(x, T_DATA, line, jv_str(x->s + from, to - from));
}

/* The text before a tag at `to`, after the tag's sign and the lstrip rule. */
static size_t trimmed(const lexer *x, size_t from, size_t to, char sign, bool is_print)
{
	if (sign == '-') {
		const char *s = x->s + from;
		size_t n = to - from;
		jtext_strip(&s, &n, NULL, 0, JTEXT_RIGHT);
		return from + n;
	}
	if (sign == '+' || is_print) return to;
	size_t start = to;
	while (start > from && x->s[start - 1] != '\n') start--;
	if (start == from && !x->line_start) return to;
	return skip_space(x, start) >= to ? start : to;
}

/* End of a statement or comment tag: "+%}", "-%}" and its white space, or "%}" and one newline. Returns bytes, 0 for no match. */
static size_t closes(const lexer *x, size_t at, const char *end)
{
	if (starts(x, at, "+") && starts(x, at + 1, end)) return 3;
	if (starts(x, at, "-") && starts(x, at + 1, end)) return skip_space(x, at + 3) - at;
	if (starts(x, at, end)) return 2 + starts(x, at + 2, "\n");
	return 0;
}

static void end_of_match(lexer *x) { x->line_start = x->at > 0 && x->s[x->at - 1] == '\n'; }

/* "{%" sign, white space, the word, white space: returns where the word's tag goes on, 0 when it is another tag. */
static size_t word_tag(const lexer *x, size_t at, const char *word, char *sign)
{
	if (!starts(x, at, "{%")) return 0;
	at += 2;
	*sign = at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at++] : 0;
	at = skip_space(x, at);
	if (!starts(x, at, word)) return 0;
	return skip_space(x, at + strlen(word));
}

static bool raw(lexer *x, size_t body)
{
	uint32_t line = x->line;
	pass(x, body - x->at);
	end_of_match(x);
	for (size_t at = x->at; at < x->n; at++) {
		char sign;
		size_t end = word_tag(x, at, "endraw", &sign), size = end ? closes(x, end, "%}") : 0;
		if (!size) continue;
		if (!data(x, x->at, trimmed(x, x->at, at, sign, false), x->line)) return false;
		pass(x, end + size - x->at);
		end_of_match(x);
		return true;
	}
	jparse_fail(x->p, line, "Missing end of raw directive");
	return false;
}

static bool comment(lexer *x)
{
	uint32_t line = x->line;
	for (size_t at = x->at; at < x->n; at++) {
		size_t size = closes(x, at, "#}");
		if (!size) continue;
		pass(x, at + size - x->at);
		end_of_match(x);
		return true;
	}
	jparse_fail(x->p, line, "Missing end of comment tag");
	return false;
}

/* ---- inside a tag ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9') return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The escape after a backslash at s[*i] as Python's unicode-escape codec reads it. */
static bool escape(lexer *x, const char *s, size_t n, size_t *i, buf *out)
{
	char c = s[*i];
	static const char FROM[] = "\\'\"abfnrtv", TO[] = "\\'\"\a\b\f\n\r\t\v";
	const char *simple = c ? strchr(FROM, c) : NULL;
	if ((unsigned char)c >= 0x80 || c == 'N')
		return jparse_fail(x->p, x->line, "escape \\%c in a string is not supported", c == 'N' ? 'N' : '?');
	(*i)++;
	if (simple) {
		buf_char(out, TO[simple - FROM]);
	} else if (c == '\n') {
		return true;
	} else if (c >= '0' && c <= '7') {
		unsigned v = (unsigned)(c - '0');
		for (int k = 0; k < 2 && *i < n && s[*i] >= '0' && s[*i] <= '7'; k++) v = v * 8 + (unsigned)(s[(*i)++] - '0');
		buf_utf8(out, v);
	} else if (c == 'x' || c == 'u' || c == 'U') {
		int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
		unsigned v = 0;
		for (int k = 0; k < digits; k++, (*i)++) {
			int d = *i < n ? hex_digit(s[*i]) : -1;
			if (d < 0) return jparse_fail(x->p, x->line, "truncated \\%c escape in a string", c);
			v = v * 16 + (unsigned)d;
		}
		if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) return jparse_fail(x->p, x->line, "escape \\%c in a string: no such character", c);
		buf_utf8(out, v);
	} else {
		buf_char(out, '\\');
		buf_char(out, c);
	}
	return true;
}

static bool string(lexer *x)
{
	char quote = x->s[x->at];
	size_t end = x->at + 1;
	while (end < x->n && x->s[end] != quote) end += x->s[end] == '\\' ? 2 : 1;
	if (end >= x->n) return jparse_fail(x->p, x->line, "unexpected char '%c': the string does not end", quote);
	const char *s = x->s + x->at + 1;
	size_t n = end - x->at - 1;
	buf b = {0};
	bool good = true;
	for (size_t i = 0; i < n && good;) {
		if (s[i] != '\\') buf_char(&b, s[i++]);
		else i++, good = i < n && escape(x, s, n, &i, &b);
	}
	if (good && b.failed) {
		x->p->failed = true;
		x->p->status = ERR_NOMEM(x->p->e);
		good = false;
	}
	char *kept = good ? jparse_alloc(x->p, b.len + 1, 1) : NULL;
	if (kept && b.len) memcpy(kept, b.data, b.len);
	size_t len = b.len;
	buf_deinit(&b);
	if (!kept || !add(x, T_STRING, x->line, jv_str(kept, len))) return false;
	pass(x, end + 1 - x->at);
	return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return is_digit(c) || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (unsigned char)c >= 0x80; }

static bool number(lexer *x)
{
	size_t i = x->at, start = i;
	bool after_dot = start > 0 && x->s[start - 1] == '.', real = false;
	while (i < x->n && is_digit(x->s[i])) i++;
	if (!after_dot) {
		size_t whole = i, k = i;
		if (k + 1 < x->n && x->s[k] == '.' && is_digit(x->s[k + 1])) {
			for (k++; k < x->n && is_digit(x->s[k]);) k++;
			whole = k;
			real = true;
		}
		if (k < x->n && (x->s[k] | 0x20) == 'e') {
			k++;
			k += k < x->n && (x->s[k] == '+' || x->s[k] == '-');
			if (k < x->n && is_digit(x->s[k])) {
				while (k < x->n && is_digit(x->s[k])) k++;
				whole = k;
				real = true;
			}
		}
		i = whole;
	}
	bool other_form = (i < x->n && is_word(x->s[i])) || (!real && x->s[start] == '0' && i - start > 1);
	if (other_form) return jparse_fail(x->p, x->line, "this form of number is not supported");
	jv v;
	bool odd, big = false;
	if (real) {
		double d = 0;
		if (!jtext_read_float(x->s + start, i - start, &d, &odd) || d > 1.7e308) return jparse_fail(x->p, x->line, "number out of range");
		v = (jv){.kind = JV_FLOAT, .u.d = d};
	} else {
		int64_t n = 0;
		if (!jtext_read_int(x->s + start, i - start, &n, &big, &odd) || big) return jparse_fail(x->p, x->line, "integer over 64 bits");
		v = jv_int(n);
	}
	if (!add(x, real ? T_FLOAT : T_INT, x->line, v)) return false;
	pass(x, i - start);
	return true;
}

static bool operator(lexer *x)
{
	static const struct {
		const char *text;
		jtok type;
	} OPS[] = {{"//", T_FLOORDIV}, {"**", T_POW}, {"==", T_EQ}, {"!=", T_NE}, {">=", T_GE}, {"<=", T_LE}, {"+", T_ADD}, {"-", T_SUB},
	    {"/", T_DIV}, {"*", T_MUL}, {"%", T_MOD}, {"~", T_TILDE}, {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN}, {")", T_RPAREN},
	    {"{", T_LBRACE}, {"}", T_RBRACE}, {">", T_GT}, {"<", T_LT}, {"=", T_ASSIGN}, {".", T_DOT}, {":", T_COLON}, {"|", T_PIPE},
	    {",", T_COMMA}, {";", T_SEMICOLON}};
	char c = x->s[x->at];
	for (size_t i = 0; i < ARRAY_LEN(OPS); i++) {
		if (!starts(x, x->at, OPS[i].text)) continue;
		if (c == '(' || c == '[' || c == '{') {
			if (x->depth == MAX_BRACKETS) return jparse_fail(x->p, x->line, "more than %d open brackets", MAX_BRACKETS);
			x->closers[x->depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
		}
		if (c == ')' || c == ']' || c == '}') {
			if (x->depth == 0) return jparse_fail(x->p, x->line, "unexpected '%c'", c);
			char want = x->closers[--x->depth];
			if (want != c) return jparse_fail(x->p, x->line, "unexpected '%c', expected '%c'", c, want);
		}
		if (!add(x, OPS[i].type, x->line, jv_of(JV_NONE))) return false;
		pass(x, strlen(OPS[i].text));
		return true;
	}
	if ((unsigned char)c >= 0x80) return jparse_fail(x->p, x->line, "names and operators must be ASCII");
	return jparse_fail(x->p, x->line, "unexpected char '%c'", c);
}

/* Tokens up to the tag's end. */
static bool tag(lexer *x, bool is_print)
{
	uint32_t opened = x->line;
	x->depth = 0;
	while (x->at < x->n) {
		size_t size = 0;
		if (x->depth == 0 && is_print) size = starts(x, x->at, "-}}") ? skip_space(x, x->at + 3) - x->at : starts(x, x->at, "}}") ? 2 : 0;
		else if (x->depth == 0) size = closes(x, x->at, "%}");
		if (size) {
			if (!add(x, is_print ? T_VAR_END : T_BLOCK_END, x->line, jv_of(JV_NONE))) return false;
			pass(x, size);
			end_of_match(x);
			return true;
		}
		size_t next = skip_space(x, x->at);
		char c = x->s[x->at];
		if (next > x->at) {
			pass(x, next - x->at);
		} else if (is_digit(c)) {
			if (!number(x)) return false;
		} else if (is_word(c) && (unsigned char)c < 0x80) {
			size_t i = x->at;
			while (i < x->n && is_word(x->s[i])) i++;
			if (!jtext_ascii(x->s + x->at, i - x->at)) return jparse_fail(x->p, x->line, "names must be ASCII");
			if (!add(x, T_NAME, x->line, jv_str(x->s + x->at, i - x->at))) return false;
			x->at = i;
		} else if (c == '"' || c == '\'') {
			if (!string(x)) return false;
		} else if (!operator(x)) {
			return false;
		}
	}
	return jparse_fail(x->p, opened, "unexpected end of template: the tag does not end");
}

static bool root(lexer *x)
{
	while (x->at < x->n) {
		size_t tag_at = x->at;
		while (tag_at < x->n && !starts(x, tag_at, "{{") && !starts(x, tag_at, "{%") && !starts(x, tag_at, "{#")) tag_at++;
		if (tag_at >= x->n) return data(x, x->at, x->n, x->line);
		char kind = x->s[tag_at + 1], sign = 0;
		size_t body = word_tag(x, tag_at, "raw", &sign), size = 0;
		if (body && starts(x, body, "-%}")) size = skip_space(x, body + 3) - body;
		else if (body && starts(x, body, "%}")) size = 2;
		if (!size) sign = tag_at + 2 < x->n && (x->s[tag_at + 2] == '-' || x->s[tag_at + 2] == '+') ? x->s[tag_at + 2] : 0;
		if (!data(x, x->at, trimmed(x, x->at, tag_at, sign, !size && kind == '{'), x->line)) return false;
		pass(x, tag_at - x->at);
		if (size) {
			if (!raw(x, body + size)) return false;
			continue;
		}
		uint32_t line = x->line;
		pass(x, 2 + (sign != 0));
		if (kind == '#') {
			if (!comment(x)) return false;
			continue;
		}
		if (!add(x, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN, line, jv_of(JV_NONE)) || !tag(x, kind == '{')) return false;
	}
	return true;
}

/* The source with normalised newlines and without the last one, in the template's arena. */
static char *normalise(jparse *p, const char *text, size_t len, size_t *out)
{
	char *s = jparse_alloc(p, len + 1, 1);
	size_t n = 0;
	for (size_t i = 0; s && i < len; i++) {
		if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n') continue;
		s[n++] = text[i] == '\r' ? '\n' : text[i];
	}
	if (n > 0 && s[n - 1] == '\n') n--;
	*out = n;
	return s;
}

bool jinja_lex(jparse *p, const char *text, size_t len)
{
	if (len > JINJA_MAX_SOURCE) return jparse_fail(p, 1, "the template has %zu bytes, at most %zu are taken", len, JINJA_MAX_SOURCE);
	if (!jtext_valid(text, len)) return jparse_fail(p, 1, "the template is not UTF-8");
	lexer x = {.p = p, .line = 1, .line_start = true};
	x.s = normalise(p, text, len, &x.n);
	return x.s && root(&x) && add(&x, T_EOF, x.line, jv_of(JV_NONE));
}
