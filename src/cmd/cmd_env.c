/* SPDX-License-Identifier: Apache-2.0
 * cmd_env.c: what the commands take from outside the arguments: signals, the place of the program, the cache folder's variables.
 * The library reads no environment; this file is the only one that does. Breaks first: a handler calls async-signal-safe functions only.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base_file.h"
#include "base/base_mem.h"
#include "cmd/cmd.h"

typedef void (*interrupt_fn)(void *user);

static volatile sig_atomic_t interrupted;
static _Atomic(interrupt_fn) interrupt_call;
static _Atomic(void *) interrupt_user;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
	interrupt_fn fn = atomic_load(&interrupt_call);
	if (fn != NULL) fn(atomic_load(&interrupt_user));
}

void cmd_on_interrupt(void (*fn)(void *user), void *user)
{
	/* In this order a signal between the stores finds no function or a matching pair. */
	atomic_store(&interrupt_call, (interrupt_fn)NULL);
	atomic_store(&interrupt_user, user);
	atomic_store(&interrupt_call, fn);
	/* RESETHAND: the second one has its default effect. No RESTART: a read from the terminal ends. */
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	sigemptyset(&act.sa_mask);
	if (interrupted) {
		if (fn != NULL) fn(user);
		return;
	}
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

void cmd_on_each_interrupt(void (*fn)(void *user), void *user)
{
	atomic_store(&interrupt_call, (interrupt_fn)NULL);
	atomic_store(&interrupt_user, user);
	atomic_store(&interrupt_call, fn);
	struct sigaction act = {.sa_handler = on_signal};
	sigemptyset(&act.sa_mask);
	sigaction(SIGINT, &act, NULL);
	interrupted = 0;
}

bool cmd_interrupted(void) { return interrupted != 0; }

static char *joined(const char *dir, const char *tail) { return dir != NULL && *dir != '\0' ? path_join(dir, tail) : NULL; }

char *cmd_cache_root(const cmd_args *a)
{
	const char *given = cmd_string(a, "cache", NULL);
	if (given != NULL) return mem_strdup(given);
	const char *hub = getenv("HF_HUB_CACHE");
	if (hub != NULL && *hub != '\0') return mem_strdup(hub);
	char *path = joined(getenv("HF_HOME"), "hub");
	return path != NULL ? path : joined(getenv("HOME"), ".cache/huggingface/hub");
}

nh_status cmd_builtin_model(char **path, nh_error *e)
{
	/* From the build folder first: a program that was just built shall not find an installed model. */
	static const char *const tails[] = {"../../models/tiny", "../share/nemotron/models/tiny", "../models/tiny"};
	*path = NULL;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0) return ERR(e, NH_ERR_IO, "/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (slash != NULL) *slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		char *dir = path_join(self, tails[i]);
		char *config = dir != NULL ? path_join(dir, "config.json") : NULL;
		bool found = config != NULL && file_exists(config);
		mem_free(config);
		if (found) {
			char *clean = realpath(dir, NULL); /* without the "../.." in messages */
			*path = clean != NULL ? mem_strdup(clean) : mem_strdup(dir);
			free(clean);
			mem_free(dir);
			return *path != NULL ? NH_OK : ERR_NOMEM(e);
		}
		mem_free(dir);
	}
	return ERR(e, NH_ERR_NOTFOUND, "the built-in model is not at %s/../../models/tiny or %s/../share/nemotron/models/tiny: name a MODEL",
	    self, self);
}

/* <cache>/models--org--name/snapshots/<refs/main>, or NULL. */
static char *snapshot_of(const char *cache, const char *model)
{
	const char *slash = strchr(model, '/');
	if (cache == NULL || slash == NULL || strchr(slash + 1, '/') != NULL) return NULL;
	buf name = {0}, revision = {0}, path = {0};
	buf_printf(&name, "%s/models--%.*s--%s", cache, (int)(slash - model), model, slash + 1);
	buf_printf(&path, "%s/refs/main", name.failed ? "" : name.data);
	if (!path.failed && file_read(path.data, 256, &revision, NULL) == NH_OK && revision.len > 0) {
		while (revision.len > 0 && revision.data[revision.len - 1] <= ' ') revision.data[--revision.len] = '\0';
		path.len = 0;
		buf_printf(&path, "%s/snapshots/%s", name.data, revision.data);
	} else {
		path.len = 0;
	}
	char *found = path.len > 0 && !path.failed && file_is_dir(path.data) ? buf_take(&path) : NULL;
	buf_deinit(&name);
	buf_deinit(&revision);
	buf_deinit(&path);
	return found;
}

nh_status cmd_model_path(const cmd_args *a, const char *model, char **path, nh_error *e)
{
	if (model == NULL && !cmd_given(a, "like")) return cmd_builtin_model(path, e);
	*path = NULL;
	if (cmd_given(a, "like")) { /* needs no file; one that is named too is a mistake */
		if (model != NULL)
			return ERR(e, NH_ERR_ARG, "--like %.60s and the model %.200s exclude each other", cmd_string(a, "like", ""), model);
		*path = mem_strdup("");
		return *path != NULL ? NH_OK : ERR_NOMEM(e);
	}
	if (!file_exists(model)) {
		char *cache = cmd_cache_root(a);
		*path = snapshot_of(cache, model);
		mem_free(cache);
	}
	if (*path == NULL) *path = mem_strdup(model);
	return *path != NULL ? NH_OK : ERR_NOMEM(e);
}
