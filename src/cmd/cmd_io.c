/* SPDX-License-Identifier: Apache-2.0
 * cmd_io.c: standard input, output and error of the commands, and numbers for people. Knows no command.
 * Breaks first: a closed pipe ends the program quietly, a full disk does not.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "cmd/cmd.h"

static void tell(const cmd_args *a, const char *kind, const char *format, va_list list)
{
	fflush(stdout); /* what was said before comes first where both go to one place */
	fprintf(stderr, "nemotron %s: %s", cmd_definition(a)->name, kind);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
}

int cmd_fail(const cmd_args *a, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	tell(a, "", format, list);
	va_end(list);
	return CMD_FAILED;
}

int cmd_fail_error(const cmd_args *a, nh_status status, const nh_error *e)
{
	if (status == NH_ERR_CANCELLED) return CMD_FAILED;
	return cmd_fail(a, "%s", e != NULL && e->text[0] != '\0' ? e->text : nh_status_message(status));
}

int cmd_bad_usage(const cmd_args *a, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	tell(a, "", format, list);
	va_end(list);
	fprintf(stderr, "Try: nemotron %s --help\n", cmd_definition(a)->name);
	return CMD_USAGE;
}

void cmd_note(const cmd_args *a, const char *format, ...)
{
	if (cmd_flag(a, "quiet")) return;
	va_list list;
	va_start(list, format);
	tell(a, "", format, list);
	va_end(list);
}

void cmd_log(void *user, nh_log_level level, const char *text)
{
	const cmd_args *a = user;
	if (level == NH_LOG_NOTICE) cmd_note(a, "%s", text);
	else if (level < NH_LOG_NOTICE) cmd_fail(a, "%s%s", level == NH_LOG_WARN ? "warning: " : "", text);
}

static int out_errno; /* of the first write to standard output that failed */

static bool out_check(bool ok)
{
	if (!ok && out_errno == 0) out_errno = errno != 0 ? errno : EIO;
	return out_errno == 0;
}

bool cmd_out(const char *data, size_t len) { return out_check(out_errno != 0 || fwrite(data, 1, len, stdout) == len); }

bool cmd_outf(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int n = out_errno != 0 ? 0 : vfprintf(stdout, format, list);
	va_end(list);
	return out_check(n >= 0);
}

bool cmd_out_flush(void) { return out_check(fflush(stdout) == 0); }

int cmd_out_finish(int status)
{
	if (cmd_out_flush() || out_errno == EPIPE) return status;
	fprintf(stderr, "nemotron: standard output: %s\n", strerror(out_errno));
	return status == CMD_OK ? CMD_FAILED : status;
}

static int dump_to_stdout(const char *data, size_t len, void *user)
{
	(void)user;
	return cmd_out(data, len) ? 0 : -1;
}

bool cmd_out_json(json_t *value, int indent)
{
	size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15) | (indent > 0 ? JSON_INDENT((size_t)indent) : JSON_COMPACT);
	bool ok = value != NULL && json_dump_callback(value, dump_to_stdout, NULL, flags) == 0 && cmd_out("\n", 1);
	json_decref(value);
	return ok;
}

bool cmd_out_is_terminal(void) { return isatty(STDOUT_FILENO); }
bool cmd_err_is_terminal(void) { return isatty(STDERR_FILENO); }

nh_status cmd_read_input(size_t limit, buf *out, nh_error *e)
{
	char chunk[65536];
	out->limit = limit;
	for (;;) {
		size_t n = fread(chunk, 1, sizeof chunk, stdin);
		buf_append(out, chunk, n);
		if (out->failed) return ERR(e, NH_ERR_LIMIT, "standard input: more than %zu bytes", limit);
		if (n == 0) break;
	}
	if (ferror(stdin)) return ERR(e, NH_ERR_IO, "standard input: %s", strerror(errno));
	buf_append(out, "", 0);
	return NH_OK;
}

bool cmd_read_line(size_t limit, buf *line, nh_error *e)
{
	buf_deinit(line);
	line->limit = limit;
	e->code = NH_OK;
	int c;
	while ((c = getc_unlocked(stdin)) != EOF && c != '\n') buf_char(line, (char)c);
	if (line->failed) {
		ERR(e, NH_ERR_LIMIT, "standard input: a line of more than %zu bytes", limit);
		return false;
	}
	if (c == EOF && ferror(stdin)) {
		ERR(e, NH_ERR_IO, "standard input: %s", strerror(errno));
		return false;
	}
	return c != EOF || line->len > 0;
}

void cmd_progress_init(cmd_progress *p, const cmd_args *a) { *p = (cmd_progress){.on = cmd_err_is_terminal() && !cmd_flag(a, "quiet")}; }

bool cmd_progress_show(void *user, const char *what, uint64_t done, uint64_t total)
{
	cmd_progress *p = user;
	int64_t now = p->on ? clock_us() : 0;
	if (p->on && !p->began_us) p->began_us = now;
	if (p->on && (now - p->last_us > 100000 || (done == total && p->shown))) {
		p->last_us = now;
		p->shown = true;
		char a[32], b[32], rate[48] = "";
		bool bytes = strcmp(what, "bytes") == 0;
		cmd_bytes_text(done, a);
		cmd_bytes_text(total, b);
		if (bytes && now > p->began_us) {
			cmd_bytes_text((uint64_t)((double)done / ((double)(now - p->began_us) / 1e6)), rate);
			memcpy(rate + strlen(rate), "/s", 3);
		}
		if (!bytes) snprintf(a, sizeof a, "%llu", (unsigned long long)done);
		if (!bytes) snprintf(b, sizeof b, "%llu %.16s", (unsigned long long)total, what);
		if (total > 0)
			fprintf(stderr, "\r\033[K%s of %s, %d%%%s%s", a, b, (int)(100.0 * (double)done / (double)total), rate[0] ? ", " : "", rate);
		else fprintf(stderr, "\r\033[K%s%s%s", a, bytes ? "" : " ", bytes ? "" : what);
		fflush(stderr);
	}
	return !cmd_interrupted();
}

void cmd_progress_clear(cmd_progress *p)
{
	if (p->shown) fputs("\r\033[K", stderr);
	p->shown = false;
}

void cmd_bytes_text(uint64_t bytes, char out[32])
{
	static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)bytes;
	size_t u = 0;
	while (v >= 999.95 && u + 1 < sizeof unit / sizeof *unit) {
		v /= 1000;
		u++;
	}
	if (u == 0) snprintf(out, 32, "%.0f bytes", v);
	else snprintf(out, 32, v < 9.995 ? "%.2f %s" : "%.1f %s", v, unit[u]);
}
