/* SPDX-License-Identifier: Apache-2.0
 * chat.h: the parts of `nemotron chat`: lines (from a terminal with editing, else from standard input) and the talk, which is the messages
 * beside the state that the model has reached with them. Internal to the command.
 * The invariant that breaks first: a turn that fails leaves the talk as it was before the turn.
 */
#ifndef CMD_CHAT_CHAT_H
#define CMD_CHAT_CHAT_H

#include "cmd/cmd_gen.h"

/* --- lines --- */

typedef struct chat_lines chat_lines;

chat_lines *lines_open(void); /* NULL: no memory */
void lines_close(chat_lines *l);
bool lines_interactive(const chat_lines *l);

typedef enum lines_got { LINES_TEXT, LINES_INTERRUPTED, LINES_END, LINES_FAILED } lines_got;
/* The next line without its newline, into `line`. INTERRUPTED: Ctrl-C gave up the line. FAILED: e says why. */
lines_got lines_next(chat_lines *l, buf *line, nh_error *e);

/* --- the talk --- */

/* The messages and the state after them belong together; a copy of both is a place to go back to. */
typedef struct talk_point {
	json_t *messages;    /* own; without the system message; of a session from a file, those since */
	nh_session *session; /* own; NULL: nothing is computed yet */
	bool by_ids;         /* the session came from a file, so what was said before is known as ids only */
} talk_point;

#define TALK_FORKS 16

typedef struct talk {
	gen g;
	talk_point now;
	talk_point before; /* the last turn, for retry; messages NULL: none */
	talk_point fork[TALK_FORKS];
	int forks;
	buf asked;    /* own; the last turn's message */
	char *system; /* own; NULL: none */
	int think;    /* -1: as the template has it, 0 no, 1 yes */
	uint64_t retries;
	bool hide;
	nh_request *running; /* own; while a turn runs */
} talk;

nh_status talk_open(talk *t, const cmd_args *a, const char *model, nh_error *e);
void talk_close(talk *t); /* safe on a zeroed one, and after a failure */

/* One turn: the message is given, the answer streams to standard output, a line about it goes to standard error. */
nh_status talk_turn(talk *t, const char *text, size_t len, nh_error *e);
/* The last turn once more, with other draws. NH_ERR_STATE: there is none to go back to. */
nh_status talk_retry(talk *t, nh_error *e);
nh_status talk_fork(talk *t, nh_error *e);
nh_status talk_back(talk *t, nh_error *e);
nh_status talk_system(talk *t, const char *text, nh_error *e); /* "" takes it away */
void talk_new(talk *t);                                        /* forgets all but the system message and the forks */
nh_status talk_save(talk *t, const char *file, nh_error *e);
nh_status talk_load(talk *t, const char *file, nh_error *e); /* a failure changes nothing */
size_t talk_tokens(const talk *t);                           /* of the history */

#endif
