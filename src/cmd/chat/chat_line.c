/* SPDX-License-Identifier: Apache-2.0
 * chat_line.c: lines from a terminal with editing and history by libedit, or plain ones from standard input. Knows no chat.
 * The invariant that breaks first: without a terminal nothing but the answers is written.
 */
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base_mem.h"
#include "base/base_status.h"
#include "cmd/chat/chat.h"

#define LINE_LIMIT ((size_t)16 << 20)
#define HISTORY_LINES 1000

struct chat_lines {
	EditLine *edit; /* own; NULL: no terminal */
	History *history;
};

static char *prompt(EditLine *edit)
{
	static char text[] = "> ";
	(void)edit;
	return text;
}

chat_lines *lines_open(void)
{
	chat_lines *l = mem_alloc(sizeof *l);
	if (!l || !isatty(STDIN_FILENO) || !cmd_out_is_terminal()) return l;
	setlocale(LC_CTYPE, ""); /* so that the editor counts characters, not bytes */
	l->edit = el_init("nemotron", stdin, stdout, stderr);
	l->history = history_init();
	if (!l->edit || !l->history) {
		lines_close(l);
		return NULL;
	}
	HistEvent event;
	history(l->history, &event, H_SETSIZE, HISTORY_LINES);
	history(l->history, &event, H_SETUNIQUE, 1);
	el_set(l->edit, EL_PROMPT, prompt);
	el_set(l->edit, EL_EDITOR, "emacs");
	el_set(l->edit, EL_SIGNAL, 0);
	el_set(l->edit, EL_HIST, history, l->history);
	el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
	return l;
}

void lines_close(chat_lines *l)
{
	if (!l) return;
	if (l->edit) el_end(l->edit);
	if (l->history) history_end(l->history);
	mem_free(l);
}

bool lines_interactive(const chat_lines *l) { return l->edit != NULL; }

static lines_got edited(chat_lines *l, buf *line, nh_error *e)
{
	int n = 0;
	cmd_out_flush();
	const char *text = el_gets(l->edit, &n);
	if (cmd_interrupted()) {
		el_reset(l->edit);
		cmd_out("\n", 1);
		return LINES_INTERRUPTED;
	}
	if (!text || n <= 0) return LINES_END;
	size_t len = strlen(text);
	if (len && text[len - 1] == '\n') len--;
	buf_append(line, text, len);
	if (line->failed) {
		ERR_NOMEM(e);
		return LINES_FAILED;
	}
	HistEvent event;
	if (len) history(l->history, &event, H_ENTER, line->data);
	return LINES_TEXT;
}

lines_got lines_next(chat_lines *l, buf *line, nh_error *e)
{
	line->len = 0;
	if (l->edit) return edited(l, line, e);
	if (cmd_read_line(LINE_LIMIT, line, e)) return LINES_TEXT;
	if (cmd_interrupted() && e->code == NH_ERR_IO) return LINES_INTERRUPTED;
	return e->code == NH_OK ? LINES_END : LINES_FAILED;
}
