/* SPDX-License-Identifier: Apache-2.0
 * cmd_args.c: the parser over a command's option table, and its help page. Knows kinds and bounds, no option's meaning.
 * Breaks first: every value is checked here, so that a command never sees a bad number.
 */
#include "cmd/cmd_args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_mem.h"
#include "base/base_status.h"

typedef struct arg_value {
	bool given;
	const char *text; /* of the last one */
	int64_t i;
	double r;
	uint64_t bytes;
	const char **list; /* own */
	size_t count;
} arg_value;

struct cmd_args {
	const cmd_def *def;
	arg_value *values; /* own; one an option */
	char **operands;   /* own array, argv's texts */
	size_t operand_count;
};

static size_t option_count(const cmd_def *def)
{
	size_t n = 0;
	while (def->options[n].name != NULL) n++;
	return n;
}

bool cmd_parse_int(const char *text, int64_t *out)
{
	char *end = NULL;
	if (*text == '\0' || isspace((unsigned char)*text)) return false;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0') return false;
	*out = v;
	return true;
}

bool cmd_parse_real(const char *text, double *out)
{
	char *end = NULL;
	if (*text == '\0' || isspace((unsigned char)*text)) return false;
	double v = strtod(text, &end);
	if (*end != '\0' || !isfinite(v)) return false;
	*out = v;
	return true;
}

bool cmd_parse_bytes(const char *text, uint64_t *out)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {{"", 1}, {"B", 1}, {"K", 1024}, {"KiB", 1024}, {"KB", 1e3}, {"M", 1048576}, {"MiB", 1048576}, {"MB", 1e6},
	    {"G", 1073741824}, {"GiB", 1073741824}, {"GB", 1e9}, {"T", 1099511627776}, {"TiB", 1099511627776}, {"TB", 1e12}};
	char *end = NULL;
	if (!isdigit((unsigned char)*text)) return false;
	double v = strtod(text, &end);
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcasecmp(end, units[i].name) != 0) continue;
		v *= units[i].factor;
		if (!(v < 1e18)) return false;
		*out = (uint64_t)v;
		return true;
	}
	return false;
}

/* Whether `word` of length n is one of the alternatives of "a|b|c". */
static bool is_choice(const char *choices, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = choices; n > 0; p++) {
		size_t len = strcspn(p, "|");
		if (len == n && memcmp(p, word, n) == 0) return true;
		p += len;
		if (*p == '\0') break;
	}
	return false;
}

static nh_status out_of_bounds(const cmd_option *o, const char *text, nh_error *e)
{
	if (o->kind == CMD_INT)
		return ERR(e, NH_ERR_ARG, "--%s: is %s, expected a whole number from %.0f to %.0f", o->name, text, o->lo, o->hi);
	return ERR(e, NH_ERR_ARG, "--%s: is %s, expected a number from %g to %g", o->name, text, o->lo, o->hi);
}

static nh_status set_value(const cmd_option *o, arg_value *v, const char *text, nh_error *e)
{
	v->given = true;
	v->text = text;
	switch (o->kind) {
	case CMD_FLAG:
	case CMD_STRING: break;
	case CMD_CHOICE:
		if (!is_choice(o->metavar, text)) return ERR(e, NH_ERR_ARG, "--%s: is %s, expected one of %s", o->name, text, o->metavar);
		break;
	case CMD_INT:
		if (!cmd_parse_int(text, &v->i)) return ERR(e, NH_ERR_ARG, "--%s: is %s, expected a whole number", o->name, text);
		if (o->hi > o->lo && ((double)v->i < o->lo || (double)v->i > o->hi)) return out_of_bounds(o, text, e);
		break;
	case CMD_REAL:
		if (!cmd_parse_real(text, &v->r)) return ERR(e, NH_ERR_ARG, "--%s: is %s, expected a number", o->name, text);
		if (o->hi > o->lo && (v->r < o->lo || v->r > o->hi)) return out_of_bounds(o, text, e);
		break;
	case CMD_BYTES:
		if (!cmd_parse_bytes(text, &v->bytes))
			return ERR(e, NH_ERR_ARG, "--%s: is %s, expected a size such as 24G or 800MB", o->name, text);
		break;
	case CMD_LIST: {
		const char **list = mem_resize(v->list, v->count + 1, sizeof *list);
		if (list == NULL) return ERR_NOMEM(e);
		list[v->count++] = text;
		v->list = list;
		break;
	}
	}
	return NH_OK;
}

/* One argument that starts with "--"; *i moves past a separate value. */
static nh_status take_long(cmd_args *a, int argc, char **argv, int *i, nh_error *e)
{
	const char *name = argv[*i] + 2;
	size_t len = strcspn(name, "=");
	for (size_t k = 0; a->def->options[k].name != NULL; k++) {
		const cmd_option *o = &a->def->options[k];
		if (strlen(o->name) != len || memcmp(o->name, name, len) != 0) continue;
		if (o->kind == CMD_FLAG) {
			if (name[len] == '=') return ERR(e, NH_ERR_ARG, "--%s: takes no value", o->name);
			return set_value(o, &a->values[k], NULL, e);
		}
		if (name[len] == '=') return set_value(o, &a->values[k], name + len + 1, e);
		if (*i + 1 >= argc) return ERR(e, NH_ERR_ARG, "--%s: needs a value (%s)", o->name, o->metavar);
		return set_value(o, &a->values[k], argv[++*i], e);
	}
	return ERR(e, NH_ERR_ARG, "unknown option --%.*s", (int)len, name);
}

/* One argument of short letters, "-abc", "-n5" or "-n 5". */
static nh_status take_short(cmd_args *a, int argc, char **argv, int *i, nh_error *e)
{
	for (const char *p = argv[*i] + 1; *p != '\0'; p++) {
		const cmd_option *o = a->def->options;
		while (o->name != NULL && o->letter != *p) o++;
		if (o->name == NULL) return ERR(e, NH_ERR_ARG, "unknown option -%c", *p);
		arg_value *v = &a->values[o - a->def->options];
		if (o->kind == CMD_FLAG) {
			TRY(set_value(o, v, NULL, e));
			continue;
		}
		if (p[1] != '\0') return set_value(o, v, p[1] == '=' ? p + 2 : p + 1, e);
		if (*i + 1 >= argc) return ERR(e, NH_ERR_ARG, "-%c: needs a value (%s)", *p, o->metavar);
		return set_value(o, v, argv[++*i], e);
	}
	return NH_OK;
}

static bool looks_like_option(const char *s)
{
	return s[0] == '-' && s[1] != '\0' && !isdigit((unsigned char)s[1]) && !(s[1] == '.' && isdigit((unsigned char)s[2]));
}

static nh_status parse_all(cmd_args *a, int argc, char **argv, bool *help, nh_error *e)
{
	bool only_operands = false;
	for (int i = 0; i < argc; i++) {
		if (only_operands || !looks_like_option(argv[i])) {
			a->operands[a->operand_count++] = argv[i];
		} else if (strcmp(argv[i], "--") == 0) {
			only_operands = true;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			*help = true;
			return NH_OK;
		} else if (argv[i][1] == '-') {
			TRY(take_long(a, argc, argv, &i, e));
		} else {
			TRY(take_short(a, argc, argv, &i, e));
		}
	}
	if (a->operand_count < (size_t)a->def->min_operands) return ERR(e, NH_ERR_ARG, "something is missing: usage is %s", a->def->usage);
	if (a->def->max_operands >= 0 && a->operand_count > (size_t)a->def->max_operands)
		return ERR(e, NH_ERR_ARG, "%s: one argument too many", a->operands[a->def->max_operands]);
	return NH_OK;
}

nh_status cmd_args_parse(cmd_args **out, const cmd_def *def, int argc, char **argv, bool *help, nh_error *e)
{
	*out = NULL;
	*help = false;
	cmd_args *a = mem_alloc(sizeof *a);
	if (a == NULL) return ERR_NOMEM(e);
	a->def = def;
	a->values = mem_array(option_count(def) + 1, sizeof *a->values);
	a->operands = mem_array((size_t)argc + 1, sizeof *a->operands);
	nh_status s = a->values == NULL || a->operands == NULL ? ERR_NOMEM(e) : parse_all(a, argc, argv, help, e);
	if (s != NH_OK) {
		cmd_args_free(a);
		return s;
	}
	*out = a;
	return NH_OK;
}

void cmd_args_free(cmd_args *a)
{
	if (a == NULL) return;
	for (size_t i = 0; a->values != NULL && i < option_count(a->def); i++) mem_free(a->values[i].list);
	mem_free(a->values);
	mem_free(a->operands);
	mem_free(a);
}

static const arg_value *value_of(const cmd_args *a, const char *name)
{
	for (size_t i = 0; a->def->options[i].name != NULL; i++) {
		if (strcmp(a->def->options[i].name, name) == 0) return &a->values[i];
	}
	static const arg_value absent;
	return &absent; /* shared code asks for options that not every command has, such as quiet */
}

bool cmd_given(const cmd_args *a, const char *name) { return value_of(a, name)->given; }
bool cmd_flag(const cmd_args *a, const char *name) { return value_of(a, name)->given; }

const char *cmd_string(const cmd_args *a, const char *name, const char *fallback)
{
	const arg_value *v = value_of(a, name);
	return v->given ? v->text : fallback;
}

int64_t cmd_int(const cmd_args *a, const char *name, int64_t fallback)
{
	const arg_value *v = value_of(a, name);
	return v->given ? v->i : fallback;
}

double cmd_real(const cmd_args *a, const char *name, double fallback)
{
	const arg_value *v = value_of(a, name);
	return v->given ? v->r : fallback;
}

uint64_t cmd_bytes(const cmd_args *a, const char *name, uint64_t fallback)
{
	const arg_value *v = value_of(a, name);
	return v->given ? v->bytes : fallback;
}

size_t cmd_list(const cmd_args *a, const char *name, const char *const **values)
{
	const arg_value *v = value_of(a, name);
	*values = v->list;
	return v->count;
}

size_t cmd_operands(const cmd_args *a) { return a->operand_count; }
const char *cmd_operand(const cmd_args *a, size_t i) { return i < a->operand_count ? a->operands[i] : NULL; }
const cmd_def *cmd_definition(const cmd_args *a) { return a->def; }

/* Text with every line indented. */
static void print_indented(FILE *to, const char *text, int indent, bool first)
{
	for (const char *p = text; *p != '\0';) {
		size_t len = strcspn(p, "\n");
		fprintf(to, "%*s%.*s\n", first ? indent : 0, "", (int)len, p);
		first = true;
		p += len + (p[len] == '\n');
	}
}

static void print_option(FILE *to, const cmd_option *o)
{
	char left[80];
	int n = snprintf(left, sizeof left, "  %c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ', o->letter ? ", " : "  ",
	    o->name, o->metavar != NULL ? " " : "", o->metavar != NULL ? o->metavar : "");
	if (n > 28) fprintf(to, "%s\n%*s", left, 30, "");
	else fprintf(to, "%-30s", left);
	print_indented(to, o->help, 30, false);
}

void cmd_args_help(const cmd_def *def, FILE *to)
{
	static const cmd_option help = {"help", 'h', CMD_FLAG, NULL, "this text", 0, 0};
	fprintf(to, "nemotron %s: %s\n\nusage: nemotron %s [options] %s\n", def->name, def->summary, def->name, def->usage);
	if (def->about != NULL) {
		fprintf(to, "\n");
		print_indented(to, def->about, 0, true);
	}
	fprintf(to, "\noptions:\n");
	for (const cmd_option *o = def->options; o->name != NULL; o++) print_option(to, o);
	print_option(to, &help);
	if (def->examples != NULL) {
		fprintf(to, "\nexamples:\n");
		print_indented(to, def->examples, 2, true);
	}
}
